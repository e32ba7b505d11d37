"""The middle of a round across machines: what is announced, what comes back, and its sum."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from sordino.aggregate.integers import from_residues
from sordino.aggregate.plain import StatedNoise
from sordino.aggregate.secure.server import SumServer
from sordino.errors import ProtocolError
from sordino.federation.memory import bare
from sordino.federation.messages import Parcel, Stage
from sordino.federation.network import Answers, NodeNetwork
from sordino.federation.plan import PartSum, alike, occasion, secure, sums_of
from sordino.federation.reading import answer_of
from sordino.messages import from_bytes, to_bytes
from sordino.runs.context import RunContext
from sordino.server.side import Asked
from sordino.stages import Shielded, Summed
from sordino.terms import Terms, Vanished
from sordino.types import IntArray

_SUM_STAGES: tuple[Stage, ...] = ("advertise", "share", "mask", "consent", "unmask")
_MUTE = {"mute": b"1"}


@dataclass(frozen=True, eq=False)
class Collected:
    """A round's sum, and whose messages left them."""

    summed: Summed
    senders: IntArray
    """Who pays: everybody who was asked for its message and did not refuse, whether or not it arrived."""


class NothingLeft(ProtocolError):
    """A round was aborted before any node was asked for its message: it costs nothing."""


def collect(
    network: NodeNetwork, context: RunContext, asked: Asked, attempt: int, about: Mapping[str, bytes] | None = None
) -> Collected:
    """Announces a round to its cohort and returns the sum of what comes back; every request says what it is `about`.

    Raises:
        NothingLeft: too few are left before anybody sent its message.
        ProtocolError: too few are left after that: what was reserved stays spent.
    """
    terms = asked.terms
    if not len(terms.cohort):
        partial = context.mechanism.aggregator.start(terms, context.mechanism.bounder.sensitivity(terms.knobs))
        return Collected(context.mechanism.aggregator.finish(partial, Vanished()), terms.cohort)
    if context.mechanism.trust == "distributed":
        return _secure(network, context, asked, attempt, about or {})
    return _plain(network, context, asked, attempt, about or {})


def _plain(
    network: NodeNetwork, context: RunContext, asked: Asked, attempt: int, about: Mapping[str, bytes]
) -> Collected:
    """Collects messages that the server may see one by one: central and local trust."""
    terms, mechanism = asked.terms, context.mechanism
    # under central trust whoever has nothing to say sends nothing
    speakers = terms.cohort if mechanism.trust != "central" else np.setdiff1d(terms.cohort, asked.mute)
    announced = {"terms": to_bytes(terms), **about}
    requests = {member: _request(asked, member, announced) for member in speakers.tolist()}
    answers = network.ask("contribute", terms.round_, attempt, requests)
    senders = np.setdiff1d(speakers, np.array(list(answers.refused), np.int64))
    partial = mechanism.aggregator.start(terms, mechanism.bounder.sensitivity(terms.knobs))
    least = terms.knobs.noise_multiplier**2 if mechanism.trust == "local" else 0.0
    came = dict[int, Shielded]()
    for member in sorted(answers.replies):
        try:
            with answer_of(member):
                sent = from_bytes(Shielded, answers.replies[member].part("message"))
                came[member] = _checked(sent, member, asked, least)
        except ProtocolError as error:
            network.telling.member("error", member, str(error))
    for member in unlike({member: _side(message) for member, message in came.items()}):
        network.telling.member("error", member, "its message has other columns than the others': it is left out")
        del came[member]
    for member in _beyond(context, terms, came):
        network.telling.member("error", member, "beside its message are numbers that no member has: it is left out")
        del came[member]
    for member in _too_long(context, terms, came):
        network.telling.member("error", member, "its message is longer than any of this round can be: it is left out")
        del came[member]
    for member, message in came.items():
        try:
            with answer_of(member):
                partial = mechanism.aggregator.add(partial, message)
        except ProtocolError as error:
            network.telling.member("error", member, str(error))
    return Collected(mechanism.aggregator.finish(partial, Vanished()), senders)


def unlike(shapes: Mapping[int, object]) -> list[int]:
    """Returns the members whose answer is not shaped as most are: nobody but the mechanism knows how it should be."""
    usual = Counter(shapes.values()).most_common(1)
    return [member for member, shape in shapes.items() if shape != usual[0][0]]


def _too_long(context: RunContext, terms: Terms, came: Mapping[int, Shielded]) -> list[int]:
    """Returns the members whose message no honest member could have sent: one of them would end the run for all.

    **Formal guarantees**: under central trust, a message is held to the bound that the mechanism states, which is
    public; what is private decides nothing. Under local trust it carries noise besides, whose length most of the
    others' messages show: each is private by itself, so that what follows from them costs nothing. A length of d
    Gaussian or Laplace numbers strays from the median by more than that, a hundred of its own deviations, once in
    more rounds than will ever be played.
    """
    bound = context.mechanism.bounder.sensitivity(terms.knobs)
    if bound is None or not came:
        return []
    lengths = {member: float(torch.linalg.vector_norm(one.rows.double(), bound.order)) for member, one in came.items()}
    most = bound.norm * (1 + 1e-5) * (context.federation.declared.total if bound.unit == "record" else 1)
    if context.mechanism.trust == "local":
        usual = sorted(lengths.values())[(len(lengths) - 1) // 2]
        most += usual * (2 + 100 / math.sqrt(len(terms.weights)))
    return [member for member, length in lengths.items() if not length <= most]


def _beyond(context: RunContext, terms: Terms, came: Mapping[int, Shielded]) -> list[int]:
    """Returns the members whose side columns are outside of what the mechanism allows an honest one.

    **Formal guarantees**: the limits are public. A count of 10³⁸, or a negative variance, would end the run for all.
    **Edge cases**: columns of which the mechanism says nothing are not judged.
    """
    records = context.federation.declared.most_in_all
    allowed = context.mechanism.perturber.beside(terms.knobs, len(terms.weights), records)

    def within(name: str, column: Tensor) -> bool:
        told, limits = column.flatten().tolist(), allowed[name]
        pairs = zip(told, limits, strict=False)
        return len(told) == len(limits) and all(low <= value <= high for value, (low, high) in pairs)

    def honest(message: Shielded) -> bool:
        return all(within(name, column) for name, column in message.side.items() if name in allowed)

    return [member for member, one in came.items() if not honest(one)]


def _side(message: Shielded) -> object:
    return tuple(sorted((name, tuple(column.shape), str(column.dtype)) for name, column in message.side.items()))


def _checked(message: Shielded, member: int, asked: Asked, least: float) -> Shielded:
    """Returns a message that is one row of one member, finite, weighs at most one, and says it has noise enough.

    Raises:
        ProtocolError: it is something else, and is left out.
    """
    width, numbers = len(asked.terms.weights), (message.rows, message.weights, message.squared_multipliers)
    if not all(part.is_floating_point() and part.element_size() >= 4 for part in (*numbers, *message.side.values())):
        raise ProtocolError(f"member {member} sent numbers of another kind than the round's: they are left out")
    if message.clients.tolist() != [member] or message.rows.shape != (1, width) or message.weights.shape != (1,):
        raise ProtocolError(f"member {member} sent something else than one row of its own: it is left out")
    if not all(torch.isfinite(part.double()).all() for part in (*numbers, *message.side.values())):
        raise ProtocolError(f"member {member} sent numbers that are not finite: they are left out")
    if not 0 <= float(message.weights) <= 1:
        raise ProtocolError(f"member {member} gives itself a weight of {float(message.weights):g}: it is left out")
    if message.squared_multipliers.shape != (1,) or not float(message.squared_multipliers) >= least * (1 - 1e-6):
        raise ProtocolError(f"member {member} states less noise than the round has: its message is left out")
    return message


def _secure(
    network: NodeNetwork, context: RunContext, asked: Asked, attempt: int, about: Mapping[str, bytes]
) -> Collected:
    """Plays the secure sums of a round (one, or one a shard) stage by stage, side by side."""
    plan = replace(network.plan, run=occasion(network.plan.run, about))
    told = alike(network.plan.pack(), to_bytes(asked.terms))
    sums = [_OneSum(network, context, asked, one, told) for one in sums_of(context, plan, asked.terms, attempt, told)]
    for stage in _SUM_STAGES:
        going = [one for one in sums if one.failed is None]
        requests = {member: {**parts, **about} for one in going for member, parts in one.requests(stage).items()}
        if requests:
            answers = network.ask(stage, asked.terms.round_, attempt, requests)
            for one in going:
                one.hear(stage, answers)
    opened = [(one.terms, one.part, one.summed) for one in sums if one.summed is not None]
    senders = np.sort(np.concatenate([np.empty(0, np.int64), *(one.senders for one in sums)]))
    failed = [one.failed for one in sums if one.failed is not None]
    if not len(senders):
        raise NothingLeft(str(failed[0]) if failed else "no shard of this cohort is large enough to be summed")
    if not opened:
        raise failed[0]
    return Collected(secure(context).joined(opened), senders)


class _OneSum:
    """One secure sum over the network; late and lost nodes are dropouts of the stage."""

    def __init__(self, network: NodeNetwork, context: RunContext, asked: Asked, one: PartSum, told: bytes) -> None:
        self.terms, self.part, self._agreed = one.terms, one.part, one.agreed
        self._network, self._context, self._asked = network, context, asked
        self._server = SumServer(one.agreed, network.registry.public_keys)
        self._stated: dict[Stage, dict[int, float]] = {"mask": {}, "unmask": {}}
        self._whole = {"terms": to_bytes(asked.terms)}
        announced = {"terms": to_bytes(bare(asked.terms)), "alike": told}
        self._heard: dict[int, Mapping[str, bytes]] = dict.fromkeys(one.terms.cohort.tolist(), announced)
        self.senders = np.empty(0, np.int64)
        """Whose messages may have left them."""
        self.summed: Summed | None = None
        self.failed: ProtocolError | None = None

    def requests(self, stage: Stage) -> dict[int, Mapping[str, bytes]]:
        """Returns what its members are asked in a stage."""
        if stage == "mask":
            self.senders = np.array(sorted(self._heard), np.int64)
        return {member: _request(self._asked, member, parts) for member, parts in self._heard.items()}

    def hear(self, stage: Stage, answers: Answers) -> None:
        """Takes in what its members answered, and closes the stage; `failed` says why it cannot go on."""
        if stage == "mask":  # whoever refuses has sent nothing; whoever is lost may have
            self.senders = np.setdiff1d(self.senders, np.array(list(answers.refused), np.int64))
        for member in sorted(self._heard.keys() & answers.replies.keys()):
            try:
                with answer_of(member):
                    self._take(stage, member, answers.replies[member])
            except ProtocolError as error:
                self._network.telling.member("error", member, str(error))
        try:
            if stage == "unmask":
                self.summed = self._opened()
            else:
                extra = self._whole if stage == "share" else {}
                self._heard = {member: {"sum": told, **extra} for member, told in self._server.close().items()}
        except ProtocolError as error:
            self.failed = error
        if stage == "unmask" or self.failed is not None:
            for member, why in self._server.blamed.items():
                self._network.telling.member("blamed", member, why)

    def _take(self, stage: Stage, member: int, answer: Parcel) -> None:
        stated = _stated(answer, member) if stage in self._stated else 0.0
        least = self.terms.knobs.noise_multiplier**2 / len(self.terms.cohort)
        if stage == "mask" and not stated >= least * (1 - 1e-9):
            raise ProtocolError(f"member {member} states less noise than its share: its message is left out")
        if self._server.receive(answer.part("sum")) != member:
            raise ProtocolError(f"member {member} passed on the message of another: it is ignored")
        if stage in self._stated:
            self._stated[stage][member] = stated

    def _opened(self) -> Summed:
        opened, mechanism = self._server.open(), self._context.mechanism
        shares = _believed([self._stated["mask"][member] for member in opened.survivors.tolist()])
        taken = _believed([self._stated["unmask"].get(member, 0.0) for member in opened.responders.tolist()])
        noise = StatedNoise(math.fsum(shares) - math.fsum(taken), min(shares))
        return Summed(
            torch.from_numpy(from_residues(opened.total, self._agreed.modulus_bits)),
            opened.survivors,
            self.part.denominator,
            noise.total,
            noise.least,
            mechanism.bounder.sensitivity(self.terms.knobs),
        )


def _believed(stated: Sequence[float]) -> list[float]:
    """Returns what members state of their noise, none of them more than half of them do.

    **Formal guarantees**: shares are alike, and so is what is taken back of them. Who states more than it can have
    taken back would make the release look dearer than its reservation, which ends the run for all; what noise is
    really there follows from the honest members' shares, and not from what one says of its own.
    """
    usual = sorted(stated)[(len(stated) - 1) // 2] if stated else 0.0
    return [min(one, usual) for one in stated]


def _request(asked: Asked, member: int, parts: Mapping[str, bytes]) -> Mapping[str, bytes]:
    return {**parts, **_MUTE} if member in asked.mute else parts


def _stated(answer: Parcel, member: int) -> float:
    try:
        value = float(json.loads(answer.part("stated")))
    except (ValueError, TypeError):
        value = math.nan
    if not 0 <= value < math.inf:
        raise ProtocolError(f"member {member} states noise that is no number: its message is left out")
    return value
