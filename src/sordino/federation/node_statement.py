"""What a node can say by itself about what a federation cost it: from its own ledger, signed with its own key."""

from __future__ import annotations

import json
import textwrap
from dataclasses import asdict, dataclass, replace
from typing import Any

from sordino import strict_json
from sordino._version import __version__
from sordino.account.certificate.certificate import Certificate, certify
from sordino.account.ledger.keys import signed
from sordino.errors import FederationError
from sordino.federation.node_folder import NodeFolder
from sordino.federation.policy import Policy

FORMAT = 2
_PURPOSE = b"sordino node statement 2\n"
_ALWAYS = (
    "every message that left this node is in its ledger, written and synced before it left; lost answers count as paid",
    "prices are this node's own, from the terms that it accepted; sampling of members is not credited, since only the "
    "server can vouch for it",
    "noise was drawn from this machine's operating system",
    "an operator may choose each run, and its noise, from what earlier ones released: a filter admitted every release, "
    "and what is promised is what the filter allows, whatever was chosen",
    "the price of what was released, which stands beside it, holds if all of it was fixed before the first release",
    "not protected: whether this node's file can be read as its policy says and its records fit what a plan declares "
    "(for eight declarations, ever), when it answers, and whether its machine holds out while it trains",
    "no single record makes training fail on the others beside it",
)


@dataclass(frozen=True)
class NodeStatement:
    """One node's own certificate."""

    node: str
    federation: str
    signing_key: str
    registry_version: int
    members: str
    """Digest of the members' keys, as this node was shown them; empty where it has no registry."""
    budget_epsilon: float
    delta: float
    releases: int
    runs: tuple[str, ...]
    promises: tuple[dict[str, Any], ...]
    rests_on: tuple[str, ...]
    ledger_head: str
    time: str
    version: str = __version__
    signature: str = ""

    def message(self) -> bytes:
        """Returns the bytes that are signed."""
        told = {"format": FORMAT} | asdict(replace(self, signature=""))
        return _PURPOSE + json.dumps(told, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()

    def to_json(self) -> str:
        """Returns the statement as JSON; an ε of null is infinite."""
        return json.dumps({"format": FORMAT} | asdict(self), indent=1, allow_nan=False) + "\n"

    def text(self) -> str:
        """Returns the statement for people."""
        lines = [f"What {self.federation} cost {self.node}, by its own ledger ({self.time})", ""]
        runs = "1 run" if len(self.runs) == 1 else f"{len(self.runs)} runs"
        lines += [f"  {self.releases} messages left this node, in {runs}"]
        lines += [f"  its budget is ε = {self.budget_epsilon:g} at δ = {self.delta:g}"]
        for one in self.promises:
            epsilon = "∞" if one["epsilon"] is None else f"{one['epsilon']:.4g}"
            lines.append(f"  {one['unit']} against the {one['observer']} ({one['adjacency']}): ε = {epsilon}")
            if one["price"] is not None and one["price"] != one["epsilon"]:
                lines.append(f"    what was released costs ε = {one['price']:.4g}, if all of it was fixed beforehand")
            lines += [f"    {one[more]}" for more in ("reason", "note") if one[more]]
        for sentence in ("", *self.rests_on):
            lines += textwrap.wrap(sentence, 80, initial_indent="  - ", subsequent_indent="    ") or [""]
        lines += ["", f"  registry version {self.registry_version}, members' digest {self.members or 'none'}"]
        lines += [f"  ledger head {self.ledger_head[:16]}…", f"  signed with {self.signing_key}"]
        return "\n".join(lines) + "\n"


def state(folder: NodeFolder) -> NodeStatement:
    """Returns what the node's ledger proves, signed.

    **Formal guarantees**: `epsilon` is what the node's filter allows over everything that it ever released; it holds
    against an operator who chooses runs and noise from earlier releases. `price` is what was released costs, and holds
    as a promise only if all of it was fixed before the first release.
    """
    policy, registry = folder.policy, folder.registry if folder.registry_file.exists() else None
    with folder.ledger(write=False) as ledger:
        ledger.verify()
        delta, accountant, filters = policy.budget.delta, policy.budget.accountant, folder.filters.read()
        found: Certificate = certify(ledger, delta, budget=folder.budget, filters=filters, accountant=accountant)
        path: Certificate = certify(ledger, delta, budget=folder.budget, accountant=accountant)
    kept = ("unit", "observer", "adjacency", "epsilon", "delta", "status", "accountant", "reason")
    promises = tuple(
        {name: getattr(entry, name) for name in kept}
        | {"price": price.epsilon, "priced_by": price.accountant, "note": price.note}
        for entry, price in zip(found.entries, path.entries, strict=True)
    )
    statement = NodeStatement(
        node=folder.name,
        federation=policy.who.federation,
        signing_key=folder.identity.public.hex(),
        registry_version=registry.version if registry else 0,
        members=registry.digest if registry else "",
        budget_epsilon=policy.budget.epsilon,
        delta=policy.budget.delta,
        releases=found.releases,
        runs=found.runs,
        promises=promises,
        rests_on=_rests_on(policy),
        ledger_head=found.ledger_head,
        time=found.time,
    )
    return replace(statement, signature=folder.identity.sign(statement.message()).hex())


def _rests_on(policy: Policy) -> tuple[str, ...]:
    """Returns what the promises rest on, under the trusts that the policy allows."""
    by_trust = {
        "distributed": (
            "distributed trust: the other members add their shares of the noise, and do not work with the server, but "
            f"for a share of {policy.secure.corrupt:g} of them (the policy's secure.corrupt). The operator signs who "
            "is a member, so members of its own invention count as such a share: compare the members' digest, and the "
            "names, with members that you know",
            "distributed trust: all members of a sum had the same plan, model and terms, or it was not opened; what is "
            "promised does not rest on that",
        ),
        "local": ("local trust: promised against the server, too, whatever it sends to others",),
        "central": (
            "central trust: the server sees messages without noise, and is trusted to add it; nothing is promised "
            "against the server then",
        ),
    }
    return (*_ALWAYS, *(sentence for trust in policy.mechanism.trusts for sentence in by_trust[trust]))


def check(text: str, key: str | None = None) -> NodeStatement:
    """Returns a statement whose signature holds; `key` names who must have signed it (from the registry).

    Raises:
        FederationError: it cannot be read, was changed, or is another's.
    """
    try:
        told = strict_json.loads(text)
        if not isinstance(told, dict):
            raise ValueError("no JSON object")
        if told.pop("format") != FORMAT:
            raise ValueError("another format")
        lists = {name: tuple(told[name]) for name in ("runs", "promises", "rests_on")}
        statement = NodeStatement(**told | lists)
    except (ValueError, KeyError, TypeError) as error:
        raise FederationError(f"the node's statement cannot be read ({error}): ask the node for it again") from None
    if key is not None and statement.signing_key != key:
        raise FederationError(f"the statement is signed by {statement.signing_key[:16]}…, not by {key[:16]}…")
    if not signed(statement.signing_key, statement.message(), statement.signature):
        raise FederationError("the statement's signature does not hold: it was changed; ask the node for it again")
    return statement
