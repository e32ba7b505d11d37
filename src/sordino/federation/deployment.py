"""A run across machines: rounds until the recipe or the budget says stop; killed and started again, it goes on."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from flwr.serverapp import Grid

from sordino.errors import BudgetExceeded, ProtocolError, RecipeError, SordinoError
from sordino.federation.collect import NothingLeft, collect
from sordino.federation.deadlines import Deadlines
from sordino.federation.folder import FederationFolder
from sordino.federation.identities import deployed
from sordino.federation.journal import ROUND, Journal
from sordino.federation.network import NodeNetwork
from sordino.federation.openings import Openings
from sordino.federation.plan import plan_of, require_deployable
from sordino.federation.registry import MemberRegistry
from sordino.federation.remote import Labelled, remote
from sordino.federation.telling import Telling
from sordino.opening.feature_map import FeatureMap, mapped_federation
from sordino.random.streams import Entropy, Randomness
from sordino.recipe import Recipe
from sordino.runs.books import charging_for, refuse_if_spent
from sordino.runs.checkpoint import Checkpoint
from sordino.runs.client_store import ClientStore
from sordino.runs.context import RunContext
from sordino.runs.folder import RunFolder
from sordino.runs.round_end import round_over
from sordino.runs.setup import assemble
from sordino.runs.statement import statement_of
from sordino.server.charging import Charging
from sordino.server.side import Position, ServerSide


@dataclass(eq=False)
class Deployment:
    """One run of a federation, from its folder and over a grid.

    **Formal guarantees**: as in a simulation, nothing is announced before its cost is durably reserved. The round is
    written down before it is announced, so a server that is killed never plays one twice: the reservation stays spent.
    """

    federation: FederationFolder
    grid: Grid
    randomness: Randomness = field(default_factory=Entropy)
    deadlines: Deadlines = field(default_factory=Deadlines)
    least: int | None = None
    """How many members must be there before a round; by default more than half."""
    test: Labelled | None = None
    """Records to measure the model on, which the operator may publish."""
    public: Labelled | None = None
    """Public records, for mechanisms that look at them."""
    app_hash: str = ""

    def play(self) -> Checkpoint:
        """Begins the run, or goes on with it, and returns where it ended.

        Raises:
            SordinoError: one sentence; what was played is kept, and the run can be resumed.
        """
        context, folder = self.context, self.run_folder
        if not folder.begun:
            self._begin()
        elif folder.recipe() != context.recipe:
            raise RecipeError(f"{folder.path} was begun with another recipe: move it away to begin a new run")
        with folder.alone():
            last = None
            while last is None:
                last = self._until_members_change()
        return last

    def _until_members_change(self) -> Checkpoint | None:
        """Plays with the registry as it is; None when a newer one is there, to go on with that."""
        registry = self.federation.registry
        self.__dict__.pop("context", None)
        with self._books() as charging:
            server = ServerSide(self.context.mechanism, self.context.step, charging, self.randomness)
            run, rounds = str(self.run_folder.facts()["run"]), self.context.recipe.run.rounds
            telling = Telling(self.federation, registry, run, rounds, charging.spent)
            plan = plan_of(self.context, run, registry.population, registry.version)
            known, operator = self._journal, self.federation.operator
            network = NodeNetwork(self.grid, registry, operator, plan, self.deadlines, telling, known)
            try:
                last = self._rounds(network, server)
                if last is not None:
                    self._finish(charging, last, registry)
                    telling.ended("stopped", last.why)
            except BaseException as error:
                # what sordino says itself somebody has to see to; anything else is a reason to start again
                telling.ended("failed" if isinstance(error, SordinoError) else "interrupted", str(error))
                raise
        return last

    @cached_property
    def recipe(self) -> Recipe:
        """The operator's recipe, as a deployment plays it: the whole secure sum, and the system's randomness."""
        return self.federation.recipe.but(
            aggregate={"fidelity": "full"}, run={"entropy": not self.randomness.simulation}
        )

    @cached_property
    def context(self) -> RunContext:
        """What the run is made of, as far as a server has it."""
        names = self.federation.registry.names
        made = remote(self.recipe, self.federation.name, names, self.test, self.public)
        return replace(require_deployable(assemble(self.recipe, federation=made)), randomness=self.randomness)

    @property
    def run_folder(self) -> RunFolder:
        """The run folder, with the server's ledger."""
        return RunFolder(self.federation.run_dir)

    def _begin(self) -> None:
        """Makes the run folder, once everything that could be refused was not."""
        context, folder = self.context, self.run_folder
        refuse_if_spent(context)
        folder.prepare()
        ledger, settings = self._ledger, context.recipe.ledger
        heads = folder.heads if ledger == folder.ledger else None
        with charging_for(context, ledger, "", heads=heads, witness=settings.witness) as charging:
            head = charging.ledger.head
        name = f"{self.federation.name}-{secrets.token_hex(4)}"
        facts = {"run": name, "simulation": self.randomness.simulation, "head": head, "stream": ""}
        folder.create(context.recipe, facts)

    @property
    def _ledger(self) -> Any:
        return self.context.recipe.ledger.path or self.run_folder.ledger

    @contextmanager
    def _books(self) -> Iterator[Charging]:
        """Opens the ledger that the run began with, and no older copy of it."""
        folder, settings = self.run_folder, self.context.recipe.ledger
        run = str(folder.facts()["run"])
        with charging_for(
            self.context, self._ledger, run, create=False, head=folder.head(), witness=settings.witness
        ) as charging:
            yield charging

    def _rounds(self, network: NodeNetwork, server: ServerSide) -> Checkpoint | None:
        """Plays rounds from the last checkpoint on; None when the members have changed."""
        folder, store = self.run_folder, ClientStore()
        openings = Openings(network, self.context, server, self._journal, self._least)
        last = folder.load(store) or Checkpoint(openings.played())
        federation = mapped_federation(last.here.knobs, self.context.federation)
        self.__dict__["context"] = replace(self.context, federation=federation)
        folder.rewind(last.here.round_)
        while last.stopped is None:
            if self.federation.registry.version != network.registry.version:
                return None
            last = self._one(network, server, last.here)
            if last.stopped_on_releases:
                server.charging.forfeit(last.here.round_)
            last = replace(last, head=server.charging.ledger.head)
            folder.save(last, store)
        return last

    def _one(self, network: NodeNetwork, server: ServerSide, here: Position) -> Checkpoint:
        """Plays one round and tells about it; too few nodes abort it, and an empty budget ends the run."""
        began, round_ = time.perf_counter(), here.round_ + 1
        try:
            after, about = self._played(network, server, here)
        except BudgetExceeded as stop:
            return Checkpoint(here, "budget", str(stop))
        except ProtocolError as abort:
            after, about = replace(here, round_=round_), {"aborted": str(abort)}
            network.telling.event(f"round {round_} was aborted: {abort}")
        last, told = round_over(self.context, self.run_folder, here, after, about, began, server.charging.spent)
        network.telling.round_over(round_, told["accuracy"])
        return last

    def _played(self, network: NodeNetwork, server: ServerSide, here: Position) -> tuple[Position, dict[str, Any]]:
        if self._journal.announced(ROUND) >= here.round_ + 1:
            raise ProtocolError("the server stopped in the middle of this round: what was reserved stays spent")
        present = network.presence.gathered(self._least)
        asked = server.ask(here, present)
        self._journal.announce(ROUND, here.round_ + 1)
        reservation = server.reserve(asked)
        try:
            collected = collect(network, self.context, asked, attempt=0)
        except NothingLeft:
            server.charging.settle(reservation, np.empty(0, np.int64), (), None)
            raise
        released_ = server.release(asked, collected.summed)
        server.settle(asked, reservation, collected.senders, released_)
        after = server.adapt(asked, here, released_)
        after = replace(after, public=self.context.public_scores(after.weights))
        played = {
            "cohort": len(asked.terms.cohort),
            "survivors": len(collected.summed.survivors),
            "noise_stddev": released_.stddev,
            "clip_fraction": None,
            "knobs": after.knobs.scalars(),
            "seconds": {},
        }
        return after, played

    @property
    def _least(self) -> int:
        members = len(self.federation.registry.active)
        return self.least if self.least is not None else max(self.recipe.budget.minimum_clients, members // 2 + 1)

    @property
    def _journal(self) -> Journal:
        return Journal(self.run_folder.private)

    def _finish(self, charging: Charging, last: Checkpoint, registry: MemberRegistry) -> None:
        folder, context = self.run_folder, self.context
        certificate = charging.certificate(last.stopped)
        words = tuple(deployed(context, self.federation, registry, self.app_hash))
        document = charging.document(certificate, replace(statement_of(context), deployment=words), last.stopped)
        weights = context.step.published(last.here.weights, last.here.state)
        folder.save_model(context.state(weights), FeatureMap.of(last.here.knobs))
        folder.save_certificate(certificate, document)
