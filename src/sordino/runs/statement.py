"""What a run did besides charging its ledger, in words: what was done, and what a deployment would do."""

from __future__ import annotations

from collections.abc import Iterator

from sordino._version import __version__
from sordino.account.certificate.document import Statement
from sordino.aggregate.secure.graph import choose
from sordino.aggregate.secure_sum import SecureSum
from sordino.errors import RecipeError
from sordino.mechanism import Mechanism
from sordino.runs.context import RunContext
from sordino.select.fixed import Everyone, FixedSize
from sordino.select.poisson import Poisson
from sordino.server.view import views


def statement_of(context: RunContext) -> Statement:
    """Returns what a certificate says about how a run was made."""
    mechanism = context.mechanism
    return Statement(
        mechanism=mechanism.name,
        mode=mechanism.mode,
        trust=mechanism.trust,
        views=views(mechanism),
        sampling_assumed="; ".join(
            filter(None, [_assumed(mechanism), _batches(mechanism, "known to its client alone")])
        ),
        sampling_executed="; ".join(
            filter(None, [_executed(mechanism, context.randomness.simulation), _batches(mechanism, "drawn afresh")])
        ),
        denominator=_denominator(mechanism),
        noise_source="a seed: whoever knows it can subtract the noise; a deployment draws from the operating system"
        if context.randomness.simulation
        else "the operating system's entropy",
        arithmetic=mechanism.perturber.arithmetic,
        secure_sum=_summed(mechanism, mechanism.selector.expected(context.federation.declared.people)),
        data_accesses=tuple(_accesses(context)),
        unprotected=tuple(_unprotected(context)),
        assumptions=tuple(_assumptions(context)),
        code_version=__version__,
    )


def _denominator(mechanism: Mechanism) -> str:
    """Says what a sum is divided by."""
    if mechanism.mode != "certified":
        return "the paper's, which may depend on who answered"
    if getattr(mechanism.aggregator, "denominator", 0.0) is None:
        return "the number of clients that answered, which no record decides and no promise hides"
    return "a public constant, fixed beforehand; not the number of those who answered"


def _batches(mechanism: Mechanism, how: str) -> str:
    """Says how records enter a batch, where that amplifies."""
    rate = float(getattr(mechanism.perturber, "sampling_rate", 1.0))
    if rate >= 1 or mechanism.unit != "record" or mechanism.mode != "certified":
        return ""
    return f"of a client's records each is in a batch with probability {rate:g}, by a coin of its own, {how}"


def _assumed(mechanism: Mechanism) -> str:
    if not mechanism.coins_are_secret:
        return "none: no promise rests on who was selected"
    if isinstance(mechanism.selector, Poisson):
        rate = mechanism.selector.rate
        return f"Poisson, every eligible client with probability {rate:g}, coins unknown to the outsider"
    return f"that of {type(mechanism.selector).__name__}, unknown to the outsider"


def _executed(mechanism: Mechanism, simulation: bool) -> str:
    chosen = mechanism.selector
    drawn = "from the seed" if simulation else "from the operating system's entropy"
    if isinstance(chosen, Everyone):
        return "everybody who could pay was asked in every round"
    if isinstance(chosen, Poisson):
        return f"Poisson with probability {chosen.rate:g}, coins drawn {drawn}, by the server"
    if isinstance(chosen, FixedSize):
        return f"cohorts of {chosen.size} without replacement, drawn {drawn}, by the server"
    return f"{type(chosen).__name__}, drawn {drawn}, by the server"


def _summed(mechanism: Mechanism, expected: float) -> str:
    summing = mechanism.aggregator
    if mechanism.trust != "distributed":
        return "none: the server receives every message"
    if not isinstance(summing, SecureSum):
        return (
            "plain sum stands in for a secure one in this simulation: the server of this run could have seen single "
            "messages; a deployment needs aggregate.kind = 'secure', and the promise against the server assumes it"
        )
    played = {
        "exact": "the sum was computed without cryptography",
        "masked": "masks were played, keys were not exchanged",
        "full": "the whole protocol was played",
    }[summing.fidelity]
    shards = int(getattr(summing, "shards", 1))
    terms = "; ".join(_protocol(summing, expected, shards))
    if summing.fidelity == "full":
        return f"{played}; {terms}"
    return f"{played}, in a process that sees single messages; a deployment plays it in full: {terms}"


def _protocol(summing: SecureSum, expected: float, shards: int) -> Iterator[str]:
    """Yields the terms that a sum over the expected cohort has: a cohort's real size may be secret."""
    clients = max(2, round(expected / shards))
    sharded = f"{shards} shards of about {clients} clients, each a sum of its own" if shards > 1 else ""
    yield from filter(None, [sharded])
    try:
        # whoever works with the server may all sit in one shard
        chosen = choose(clients, dropout=summing.tolerance, corrupt=min(1.0, summing.corrupt * shards))
    except RecipeError:
        yield f"a cohort of the expected {clients} clients is too small for the protocol"
        return
    yield (
        f"of the {clients} clients that are expected, {chosen.threshold} (the threshold) recover a secret and "
        f"{chosen.consents} open a sum, so that {clients - chosen.consents} may vanish"
    )
    friends = (
        f"up to {chosen.corrupt} of them" if chosen.corrupt else f"nobody (aggregate.corrupt = {summing.corrupt:g})"
    )
    yield f"withstands a server that lies and colludes with {friends}"
    graph = (
        f"each draws {chosen.degree} holders of its shares, which fails with probability at most 2^-40"
        if chosen.degree
        else "everybody holds shares of everybody, which no lie can cut"
    )
    yield f"computational security of 128 bits (X25519, AES, Ed25519); {graph}"


def _accesses(context: RunContext) -> Iterator[str]:
    yield "training rounds: charged"
    if context.mechanism.opening is not None:
        yield "an opening release before the first round: charged"
    for one in context.mechanism.preparation:
        yield f"{one.mechanism.name}, a noisy sum before the first round: charged"
    if context.recipe.data.normalise != "none":
        yield "scaling of each record by itself: needs no charge"
    yield "choice of settings, data exploration, earlier trials without this ledger: not charged, not known here"
    if len(context.federation.test_x) and not context.federation.test_public:
        yield "scores on private test records: computed, not released, not charged"


def _unprotected(context: RunContext) -> Iterator[str]:
    if views(context.mechanism)["outsider"].most_asked and not isinstance(context.mechanism.selector, Everyone):
        yield "how often the client that was asked most took part, which coins alone decide"
    yield "number and kind of releases, and public settings"
    federation = context.federation
    if federation.public_x is not None and len(federation.public_x):
        yield "records that were declared public and set aside (data.public_fraction), whoever brought them"
    if len(federation.test_x) and federation.test_public:
        yield "test records, which were declared public: scores on them are told"
    yield "how long rounds take, and when the ledger's heads were published"
    if not len(federation.train_x):
        yield "that members joined in the middle of a run, by the number of the ledger's heads"
        yield "whether a member's file can be read and its records fit the declarations, and when a member answers"


def _rests_on_others(mechanism: Mechanism) -> bool:
    """Whether an outsider is promised more than the server because everybody's own noise is in a sum (local trust)."""
    told = {
        (one.guarantee.observer, one.guarantee.adjacency): one.event
        for one in mechanism.quote(mechanism.adapter.start())
    }
    return mechanism.trust == "local" and any(told.get(("server", how)) != event for (_, how), event in told.items())


def _assumptions(context: RunContext) -> Iterator[str]:
    yield "whoever runs it keeps private/ to themselves"
    yield "who vanishes does not depend on the data"
    yield "declared numbers (population, records, classes, ranges) are public, also where they were read off the data"
    if context.mechanism.trust == "distributed":
        yield "clients add their shares of noise, the server follows the protocol"
        yield from getattr(context.mechanism.aggregator, "remarks", ())
    if _rests_on_others(context.mechanism):
        yield "against an outsider: the other clients add their noise and tell it to nobody"
    if context.mechanism.trust == "central":
        yield "the server is trusted with every message"
    if context.mechanism.unit == "record":
        yield "a record that several clients hold is protected once for each copy, not all copies together"
        yield "a record's gradient is computed to the same bits whoever shares its batch (made-up records are tried)"
    else:
        yield "where a simulation computes many clients at once, none changes the last digits of another's update"
