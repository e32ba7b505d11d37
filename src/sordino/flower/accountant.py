"""An accountant for Flower's own strategies: tight, durable in a ledger, for each client, and it halts at the budget.

accountant = LedgerAccountant(PrivacyConfig(…, max_epsilon=2.0), "ledger.db")
strategy = DifferentialPrivacyServerSideFixedClipping(FedAvg(), …, accountant=accountant)
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
from flwr.serverapp import GaussianPrivacyEvent, NeighboringRelation, PrivacyConfig, PrivacySpent, SamplingMethod
from flwr.serverapp.exception import PrivacyBudgetExhausted

from sordino.account.accountants.accountant import Curve, price, require_delta, require_epsilon
from sordino.account.accountants.exact import LEAST_DELTA
from sordino.account.ledger.coverage import payments
from sordino.account.ledger.leaving import chance_written_down
from sordino.account.ledger.ledger import Ledger
from sordino.errors import AccountingError, BudgetExceeded, LedgerError, LedgerMoved
from sordino.events import (
    Charge,
    DpEvent,
    GaussianDpEvent,
    Guarantee,
    PoissonSampledDpEvent,
    SampledWithoutReplacementDpEvent,
    SelfComposedDpEvent,
)
from sordino.types import Adjacency, FloatArray, IntArray

_FORMAT = 1
_ADJACENT: dict[NeighboringRelation, Adjacency] = {
    NeighboringRelation.ADD_OR_REMOVE_ONE: "add_remove",
    NeighboringRelation.REPLACE_ONE: "replace",
}


class PrivacyBudgetSpent(BudgetExceeded, PrivacyBudgetExhausted):
    """The next release would exceed `max_epsilon`: Flower's own exception, and ours."""


class LedgerAccountant:
    """Flower's `PrivacyAccountant`, on a sordino ledger.

    **Formal guarantees**: ε is that of privacy loss distributions (exact for plain Gaussians), never below the
    true one. `compose` returns once the release is durably in the ledger, and raises instead of writing where it would
    exceed `max_epsilon`; a restart, or another process on the same file, goes on from what was spent. Where clients are
    named, each pays for its own participations, and `get_epsilon` is the worst client's. What other runs on the ledger
    released counts as on a certificate: releases that promised nothing of this kind, or whose noise followed releases,
    leave nothing to add up (ε = ∞), and what coins' ends need of δ is taken out.

    **Edge cases**: `noise_multiplier` is over the clip norm, as in Flower's strategies; under `replace-one` a client
    moves the sum by two clip norms, so half of it counts. Without amplification `clients` may say who took part, else
    everybody pays; with sampling everybody who could have been drawn pays, whoever was. The state that `state_dict`
    returns is the ledger's head: `load_state_dict` refuses a ledger that was rolled back behind it.
    """

    def __init__(
        self,
        config: PrivacyConfig,
        ledger: Path | str,
        *,
        clients: Sequence[str] | None = None,
        federation: str = "flower",
        run: str | None = None,
    ) -> None:
        """Opens the ledger, or begins one.

        Args:
            config: Flower's configuration: δ, population, relation, sampling, largest ε.
            ledger: the file.
            clients: the clients' names, as many as the population; None: they go by position.
            federation: whose ledger it is.
            run: the run's name in it.

        Raises:
            AccountingError: the names are not as many as the population.
            LedgerError: the ledger is another's, or cannot be used.
        """
        if clients is not None and len(clients) != config.population_size:
            raise AccountingError(
                f"{len(clients)} clients are named and population_size is {config.population_size}: name all of them"
            )
        path = Path(ledger)
        self._config = config
        self._run = run or f"flower-{secrets.token_hex(6)}"
        self._places: dict[str | int, int] | None = (
            None if clients is None else {name: place for place, name in enumerate(clients)}
        )
        everyone = config.population_size if clients is None else list(clients)
        self._ledger = Ledger.open(path, federation, everyone, create=not path.exists(), delta=config.target_delta)
        self._guarantee = Guarantee("client", "outsider", _ADJACENT[config.neighboring_relation])

    @property
    def config(self) -> PrivacyConfig:
        """The privacy configuration."""
        return self._config

    @property
    def ledger(self) -> Ledger:
        """The books."""
        return self._ledger

    @property
    def num_releases(self) -> int:
        """How many releases were composed, by whichever process."""
        self._ledger.refresh()
        mine = (c.event for entry in self._ledger.entries for c in entry.charges if c.guarantee == self._guarantee)
        return sum(event.count if isinstance(event, SelfComposedDpEvent) else 1 for event in mine)

    def compose(
        self, event: GaussianPrivacyEvent, count: int = 1, *, clients: Sequence[str | int] | None = None
    ) -> None:
        """Writes releases down, durably.

        Args:
            event: one release.
            count: how many of them.
            clients: who took part (names, or positions); None charges everybody.

        Raises:
            PrivacyBudgetSpent: they would exceed `max_epsilon`; nothing is written.
        """
        if clients is not None and self._config.sampling_method is not SamplingMethod.NO_AMPLIFICATION:
            raise AccountingError("who took part is what sampling hides: leave clients out, everybody pays")
        payers = self._who(clients)
        charge = Charge(self._guarantee, self._event(event, count), "eligible" if clients is None else "participants")
        while True:
            self._ledger.refresh()
            head = self._ledger.newest
            self._refuse_beyond(event, count, clients)
            try:
                releases = self._ledger.reserve(self._run, self.num_releases + 1, payers, [charge], head=head)
                break
            except LedgerMoved:  # another process spent something since it was asked: ask again
                continue
        self._ledger.settle(releases, [charge], payers, secrets.token_hex(16))

    def _refuse_beyond(self, event: GaussianPrivacyEvent, count: int, clients: Sequence[str | int] | None) -> None:
        if self._config.max_epsilon is not None and self.would_exceed(event, count=count, clients=clients):
            if why := self._ledger.unpromised(self._guarantee)[1]:
                raise PrivacyBudgetSpent(f"{why}, so that no max_epsilon holds: go on under the first relation")
            raise PrivacyBudgetSpent(
                f"{count} more releases would exceed max_epsilon = {self._config.max_epsilon:g} "
                f"(ε {self.get_epsilon(self._config.target_delta):g} is spent): raise it, or add noise"
            )

    def get_epsilon(self, delta: float, client: str | int | None = None) -> float:
        """Returns ε at δ of everything so far, of one client or of the one who paid most."""
        found = self._epsilons(require_delta(delta))
        return float(found.max() if client is None else found[self._ledger.members[self._who([client])][0]])

    def get_delta(self, epsilon: float) -> float:
        """Returns δ at ε of everything so far, for the client who paid most."""
        require_epsilon(epsilon)
        taken = self._taken_out()
        lost = self._ledger.unpromised(self._guarantee)[0].any()
        return 1.0 if lost or taken is None else min(1.0, self._curve().delta(epsilon) + taken)

    def get_privacy_spent(self, delta: float | None = None) -> PrivacySpent:
        """Returns what is spent, at `target_delta` unless told otherwise."""
        at = self._config.target_delta if delta is None else delta
        return PrivacySpent(self.get_epsilon(at), at, self.num_releases, self._curve().accountant)

    def would_exceed(
        self,
        event: GaussianPrivacyEvent,
        max_epsilon: float | None = None,
        count: int = 1,
        *,
        clients: Sequence[str | int] | None = None,
    ) -> bool:
        """Returns whether composing would lead anybody who pays beyond ε. Changes nothing.

        Raises:
            AccountingError: no ε is given here or in the configuration.
        """
        limit = self._config.max_epsilon if max_epsilon is None else max_epsilon
        if limit is None or not (math.isfinite(limit) and limit > 0):
            raise AccountingError(f"max_epsilon is {limit}: give a finite ε above 0, here or in PrivacyConfig")
        told = self._event(event, count)
        prices = self._epsilons(self._config.target_delta, told)
        return bool((prices[self._ledger.members[self._who(clients)]] > limit).any())

    def state_dict(self) -> dict[str, object]:
        """Returns where the ledger stands; what was spent is in the ledger itself."""
        self._ledger.refresh()
        return {
            "format": _FORMAT,
            "backend": "sordino-ledger",
            "config": _plain(self._config),
            "federation": self._ledger.federation,
            "head": self._ledger.head,
            "releases": self.num_releases,
        }

    def load_state_dict(self, state: dict[str, object]) -> None:
        """Checks that this accountant's ledger holds everything that a state saw.

        Raises:
            AccountingError: the state is of another kind, or of another configuration.
            LedgerError: the ledger is another's, or was rolled back, cut or replaced since.
        """
        if state.get("format") != _FORMAT or state.get("backend") != "sordino-ledger":
            raise AccountingError("the state is not one of LedgerAccountant: load it into the accountant that made it")
        if state.get("config") != _plain(self._config):
            raise AccountingError("the state was made under another PrivacyConfig: use the same one")
        if state.get("federation") != self._ledger.federation:
            raise LedgerError(f"the state is of federation {state.get('federation')!r}: open its own ledger")
        self._ledger.refresh()
        self._ledger.must_contain(str(state.get("head")))

    def close(self) -> None:
        """Closes the ledger."""
        self._ledger.close()

    def _epsilons(self, delta: float, extra: DpEvent | None = None) -> FloatArray:
        """Returns ε of every client of the ledger at δ, as if each had also paid for `extra`."""
        taken = self._taken_out()
        if taken is None or delta - taken < LEAST_DELTA:
            return np.full(self._ledger.population, np.inf)
        return self._ledger.epsilons(self._guarantee, delta - taken, extra=extra)

    def _taken_out(self) -> float | None:
        """Returns the part of δ that other runs on the ledger need; None where the noise of one followed its releases.

        Prices of such a run add up to nothing in hindsight, and this accountant has no filter to do the sum.
        """
        self._ledger.refresh()
        others = self._ledger.beside(self._run)
        if any(entry.adaptive and payments(entry, self._guarantee) for entry in others):
            return None
        return chance_written_down(others)

    def _curve(self) -> Curve:
        if not self.num_releases:
            return price({}, adjacency=self._guarantee.adjacency)
        return self._ledger.book(self._guarantee).ceiling(self._config.target_delta)[1]

    def _who(self, clients: Sequence[str | int] | None) -> IntArray:
        population = self._config.population_size
        if clients is None:
            return np.arange(population)
        known: dict[str | int, int] = self._places or {place: place for place in range(population)}
        try:
            return np.array([known[client] for client in clients], np.int64)
        except KeyError as unknown:
            raise AccountingError(f"client {unknown} is unknown: name one of those that the accountant has") from None

    def _event(self, event: GaussianPrivacyEvent, count: int) -> DpEvent:
        """Returns releases as one of our events.

        Raises:
            AccountingError: the event is of another population, or the count is not a positive number.
        """
        if event.population_size != self._config.population_size:
            raise AccountingError(
                f"the event's population_size is {event.population_size} and the configuration's "
                f"{self._config.population_size}: use one"
            )
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise AccountingError(f"count is {count!r}: give a positive whole number")
        halves = 2 if self._guarantee.adjacency == "replace" else 1
        noise = GaussianDpEvent(event.noise_multiplier / halves)
        made = _SAMPLED[self._config.sampling_method](event, noise)
        return made if count == 1 else SelfComposedDpEvent(made, count)


def _poisson(event: GaussianPrivacyEvent, noise: DpEvent) -> DpEvent:
    return PoissonSampledDpEvent(event.sample_size / event.population_size, noise)


def _without_replacement(event: GaussianPrivacyEvent, noise: DpEvent) -> DpEvent:
    return SampledWithoutReplacementDpEvent(event.population_size, event.sample_size, noise)


def _unsampled(event: GaussianPrivacyEvent, noise: DpEvent) -> DpEvent:
    return noise


_SAMPLED = {
    SamplingMethod.POISSON: _poisson,
    SamplingMethod.WITHOUT_REPLACEMENT: _without_replacement,
    SamplingMethod.NO_AMPLIFICATION: _unsampled,
}


def _plain(config: PrivacyConfig) -> dict[str, object]:
    told: dict[str, object] = asdict(config)
    return {name: getattr(value, "value", value) for name, value in told.items()}
