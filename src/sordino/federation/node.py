"""A node's side of a run: one answer a request, within its own policy, paid for in its own ledger before it leaves."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from safetensors.torch import save

from sordino.account.ledger.ledger import Ledger
from sordino.aggregate.integers import UIntArray, to_residues
from sordino.aggregate.secure.checks import KeyRegistry
from sordino.aggregate.secure.client import SumClient
from sordino.aggregate.secure.keeper import FileKeeper
from sordino.aggregate.secure.keys import Identity
from sordino.aggregate.secure.policy import SumPolicy
from sordino.aggregate.secure.terms import SumTerms
from sordino.client.side import ClientSide, Contribution
from sordino.data.client_data import ClientData
from sordino.errors import NodeRefused, ProtocolError, SordinoError
from sordino.federation.contribution import contribution, removable, tell
from sordino.federation.limits import Cost, check_budget, check_cohort, check_data, check_plan, check_terms
from sordino.federation.memory import NodeMemory
from sordino.federation.messages import SENDING, Parcel, Stage
from sordino.federation.node_folder import NodeFolder
from sordino.federation.plan import PREPARATION, RunPlan, alike, composed, occasion, preparing, run_of, sum_terms_of
from sordino.federation.receipts import pack, require_all
from sordino.federation.sizes import check_message
from sordino.federation.unsaid import unsaid
from sordino.messages import from_bytes, to_bytes
from sordino.random.streams import Entropy, Randomness
from sordino.runs.context import RunContext
from sordino.terms import Terms, Turn
from sordino.types import IntArray

Parts = dict[str, bytes]


@dataclass(frozen=True, eq=False)
class Node:
    """One member of a federation, on its own machine.

    **Formal guarantees**: it takes part only within its policy file. What a message costs is computed here from the
    terms, and is durably in the node's own ledger before the message leaves; each (run, round, attempt) is answered
    once; noise comes from the operating system (`randomness` is for tests in one process). The plan and the terms are
    checked at every request, and nothing of the run's configuration is read.
    """

    folder: NodeFolder
    randomness: Randomness = field(default_factory=Entropy)

    def answer(self, request: Parcel, flower_id: int) -> Parcel:
        """Returns the signed answer to a request.

        Raises:
            SordinoError: why the node takes no part.
        """
        check_message(self.folder.policy.size, request.parts)
        request.check(bytes.fromhex(self.folder.policy.who.operator), "the policy's who.operator")
        number = self.folder.number  # a registry that does not hold is said, before any record is looked at
        if request.stage != "hello" and request.node != number:
            raise ProtocolError(f"a request for member {request.node} reached {self.folder.name}: it is ignored")
        stages: Mapping[Stage, Callable[[Parcel], Parts]] = {
            "hello": lambda asked: self._hello(asked, flower_id),
            "tell": self._tell,
            "contribute": self._contribute,
            "advertise": self._advertise,
            "share": self._share,
            "mask": self._mask,
            "consent": self._consent,
            "unmask": self._unmask,
        }
        with self._memory.alone():
            if request.stage in SENDING:
                self._memory.check_refused(request)
            asked = replace(request, run=occasion(request.run, request.parts))
            told = stages[request.stage](asked)
            return request.answer(told, node=number).sealed(self.folder.identity)

    def refusal(self, request: Parcel, sentence: str) -> Parcel:
        """Returns a refusal, signed where this node has paid for nothing of the round: nothing has left it then.

        **Formal guarantees**: a request that the operator did not sign, or that is delivered once more after it was
        answered, gets no signature: a SuperLink could pass that off as the node's answer, and the message that left
        would be missing from the server's ledger. A signed refusal names the request by a digest of all of it; that
        request is never answered afterwards, so the refusal cannot be passed off later, either.
        """
        told = request.answer(refused=sentence)
        try:
            request.check(bytes.fromhex(self.folder.policy.who.operator), "the policy's who.operator")
            if request.stage == "hello":  # which is to nobody by name: the operator should read who refuses
                told = request.answer(refused=sentence, node=self.folder.number)
            with self._memory.alone():
                with self.folder.ledger(write=False) as ledger:
                    left = any((one.run, one.round_) == (request.run, request.round_) for one in ledger.entries)
                if request.stage in SENDING and not left:
                    self._memory.refuse(request)
            return told if left else told.sealed(self.folder.identity)
        except (SordinoError, OSError):
            return told

    @cached_property
    def _memory(self) -> NodeMemory:
        return NodeMemory(self.folder.state_dir / "rounds")

    def _hello(self, request: Parcel, flower_id: int) -> Parts:
        """Says who it is and that it would take part; bound to its Flower node, so that nobody else can pass it on."""
        self._data(self._planned(request)[0])
        with self.folder.ledger(write=False) as ledger:
            rounds = [entry.round_ for entry in ledger.entries if entry.run == request.run]
        paid = self._memory.receipts(request.run)  # a server that forgot some of it should know
        require_all(rounds, paid, request.run)
        return {"flower": str(flower_id).encode(), "name": self.folder.name.encode(), "paid": pack(paid)}

    def _tell(self, request: Parcel) -> Parts:
        """Makes the release that comes before the first round; asked again, it repeats that to the bit, for nothing."""
        context, _ = self._planned(request)
        if (before := self._memory.told(request)) is not None:
            return {"told": before}
        terms, opening = from_bytes(Terms, request.part("terms")), context.mechanism.opening
        check_terms(self.folder, context, terms)
        if opening is None or request.round_ != 0:
            raise ProtocolError(f"{context.mechanism.name} has no opening release: this node tells nothing")
        with self.folder.ledger() as ledger:
            cost = check_budget(self.folder, ledger, context, opening.price())
            data = self._data(context)
            self._pay(ledger, request, cost)
            tensors = {"told": tell(opening, data, Turn(terms, self.randomness)).contiguous()}
        self._memory.keep_told(request, packed := save(tensors))
        return {"told": packed}

    def _contribute(self, request: Parcel) -> Parts:
        """Trains and returns its message, as the server or everybody may see it (central and local trust)."""
        context, _ = self._planned(request)
        if context.mechanism.trust == "distributed":
            raise NodeRefused(
                f"{context.mechanism.name} has distributed trust, and its message was asked for outside of a secure "
                "sum: this node takes no part"
            )
        turn, data = self._accepted(context, self._terms(request, context))
        self._check_turns(request, context)
        with self.folder.ledger() as ledger:
            cost = self._quote(request, ledger, context, turn.terms)
            self._memory.claim(request, self.folder.policy.secure.releases)
            self._pay(ledger, request, cost)
            sent = self._contribution(request, context, turn, data)
            self._memory.remember(request.run, sent.state)
        return {"message": to_bytes(sent.message)}

    def _advertise(self, request: Parcel) -> Parts:
        """Joins a secure sum, if its terms are within the policy, with fresh keys."""
        context, plan = self._planned(request)
        terms = self._terms(request, context)
        with self.folder.ledger(write=False) as ledger:
            self._quote(request, ledger, context, terms)
        agreed = sum_terms_of(context, plan, terms, request.attempt, self.folder.number, request.part("alike"))
        check_cohort(self.folder.policy, agreed)
        client = SumClient(agreed, self.folder.number, *self._known(agreed))
        for left in self._memory.unfinished():
            with suppress(ProtocolError):  # what is over already has no secrets left
                SumClient.resume(left, *self._known(left)).abandon()
        self._memory.begin_sum(request, agreed, terms)
        return {"sum": client.advertise()}

    def _share(self, request: Parcel) -> Parts:
        return {"sum": self._resumed(request).share(request.part("sum"))}

    def _mask(self, request: Parcel) -> Parts:
        """Trains, and returns its message under its masks: not paid for if what others sent is refused."""
        context, plan = self._planned(request)
        terms, client = self._terms(request, context), self._resumed(request)
        told = alike(request.part("plan"), request.part("terms"))
        if sum_terms_of(context, plan, terms, request.attempt, self.folder.number, told) != client.terms:
            raise ProtocolError("the round came with another plan, model or terms than those of its secure sum")
        turn, data = self._accepted(context, terms)
        with self.folder.ledger() as ledger:
            cost, made = self._quote(request, ledger, context, terms), list[Contribution]()

            def vector() -> UIntArray:
                self._pay(ledger, request, cost)
                sent = self._contribution(request, context, turn, data)
                if sent.kept is not None:
                    self._memory.keep(request, sent.kept)
                made.append(sent)
                residues: UIntArray = to_residues(sent.message.rows.numpy(), client.terms.modulus_bits)[0]
                return residues

            masked = client.mask(request.part("sum"), vector)
            self._memory.remember(request.run, made[0].state)
        return {"sum": masked, "stated": _number(float(made[0].message.squared_multipliers[0]))}

    def _consent(self, request: Parcel) -> Parts:
        return {"sum": self._resumed(request).consent(request.part("sum"))}

    def _unmask(self, request: Parcel) -> Parts:
        """Helps to open the sum, and takes back noise that too many survivors made superfluous."""
        client, removed = self._resumed(request), [0.0]
        if not client.terms.reveals:
            answer = client.unmask(request.part("sum"))
        else:
            context, _ = self._planned(request)
            turn = Turn(self._memory.terms(request), context.randomness)
            kept = self._memory.kept(request, self.folder.number)

            def reveal(certain: int) -> IntArray:
                survivors = np.array(client.terms.clients[:certain])  # who they are does not matter: how many does
                row, removed[0] = removable(self._side(context), turn, kept, survivors)
                return row

            answer = client.unmask(request.part("sum"), reveal)
        self._memory.forget(request)
        return {"sum": answer, "stated": _number(removed[0])}

    def _planned(self, request: Parcel) -> tuple[RunContext, RunPlan]:
        plan = RunPlan.parse(request.part("plan"))
        if run_of(request.run, request.parts) != plan.run:
            raise ProtocolError(f"a request of run {request.run} came with the plan of {plan.run}: it is ignored")
        context = replace(check_plan(self.folder, plan), randomness=self.randomness)
        if PREPARATION in request.parts:
            context = preparing(context, request.parts[PREPARATION].decode(errors="replace"))
        return context, replace(plan, run=request.run)

    def _terms(self, request: Parcel, context: RunContext) -> Terms:
        terms = from_bytes(Terms, request.part("terms"))
        if terms.round_ != request.round_ or (terms.round_ < 1) != (PREPARATION in request.parts):
            raise ProtocolError(f"a request of round {request.round_} came with the terms of round {terms.round_}")
        of = context.recipe.mechanism.name if PREPARATION in request.parts else None
        check_terms(self.folder, context, terms, of)
        return terms

    def _quote(self, request: Parcel, ledger: Ledger, context: RunContext, terms: Terms) -> Cost:
        """Returns what taking part costs; a node that is told to send nothing but noise pays nothing."""
        if "mute" in request.parts:
            return Cost()
        price = context.mechanism.perturber.price(terms.knobs, terms.round_)
        whole = composed(RunPlan.parse(request.part("plan"))) if PREPARATION in request.parts else context
        return check_budget(self.folder, ledger, whole, price)

    def _pay(self, ledger: Ledger, request: Parcel, cost: Cost) -> None:
        """Writes the cost of an answer into the node's own ledger, durably, before the answer leaves."""
        if cost.charges:
            self.folder.filters.keep(cost.filters)
            fingerprint = f"{request.run}/{request.round_}/{request.attempt}"
            run = run_of(request.run, request.parts)
            self._memory.keep_receipt(replace(request, run=run))  # as it was signed
            ledger.reserve(run, request.round_, np.array([0]), cost.charges, fingerprint=fingerprint)

    def _check_turns(self, request: Parcel, context: RunContext) -> None:
        """Refuses a round too soon after the last, where noise is correlated and the price needs them to be apart."""
        apart = context.mechanism.rounds_apart
        near = [r for r in self._memory.rounds(request.run) if 0 < abs(r - request.round_) < apart]
        if near:
            raise NodeRefused(
                f"this node was in round {near[-1]}, and {context.mechanism.name} asks a node once in {apart} rounds: "
                f"it waits for its turn, which is not round {request.round_}"
            )

    def _accepted(self, context: RunContext, terms: Terms) -> tuple[Turn, ClientData]:
        data = self._data(context)
        return self._side(context).accept(terms, data), data

    def _data(self, context: RunContext) -> ClientData:
        """Returns the node's records, if they are what the plan declares."""
        with unsaid():
            data = self.folder.data(context.recipe)
        check_data(self.folder, context, data)
        return data

    def _contribution(self, request: Parcel, context: RunContext, turn: Turn, data: ClientData) -> Contribution:
        state, mute = self._memory.state(request.run), "mute" in request.parts
        return contribution(self._side(context), turn, data, state, mute)

    def _side(self, context: RunContext) -> ClientSide:
        return ClientSide(context.mechanism, context.trainer, context.randomness, context.layout.width)

    def _resumed(self, request: Parcel) -> SumClient:
        agreed = self._memory.sum_terms(request)
        return SumClient.resume(agreed, *self._known(agreed))

    def _known(self, agreed: SumTerms) -> tuple[Identity, KeyRegistry, SumPolicy, FileKeeper]:
        """Returns what this node brings to a secure sum: its key, everybody's keys, its floors, and its disk."""
        folder = self.folder
        policy = replace(folder.policy.sum_policy(agreed.mechanism), federation=folder.policy.who.federation)
        return folder.identity, folder.registry.public_keys, policy, FileKeeper(folder.sums_dir)


def _number(value: float) -> bytes:
    return json.dumps(value).encode()
