"""Which mechanism suits a federation, from public facts alone, and why, in three sentences.

The rules are those of the theory (docs/mechanisms) and of the measured table (docs/compare.md):

* Everybody in every round: no correlation and no schedule makes the final sum less noisy, unless the recipe forgets.
* Clients that can take part once in b rounds, and a trusted server: banded noise, or coins with amplification,
  whichever leaves less noise in the final model; both are computed.
* A recipe that forgets (weight decay) or looks ahead (momentum): a geometric schedule, where it leaves 5 % less noise.
* Shares of noise are thinned wherever they are shared: it costs nothing, and pays whenever a client vanishes.
* Ranking clients and watching plateaus costs a fifth of the budget: never without being asked for.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from sordino.account.accountants.accountant import require_delta
from sordino.account.accountants.banded import coefficients, last_error
from sordino.account.accountants.calibrate import noise_multiplier_for
from sordino.account.plan.convergence import require
from sordino.adapt.contraction import Contraction, best_theta, noise_left
from sordino.events import CorrelatedGaussian, GaussianDpEvent, PoissonSampledDpEvent
from sordino.printable import counted
from sordino.types import Trust, Unit

MANY_ROUNDS = 10**7
"""Rounds beyond this are a slip of the pen."""
_WORTHWHILE = 0.95
"""A schedule is chosen where it leaves less than this share of the noise of a constant one."""
_CONSTANT = (
    "Noise is the same and fresh in every round: everybody takes part and the recipe forgets nothing, and then no "
    "schedule and no correlation leaves less noise in the final model."
)
_PLAIN: Mapping[tuple[Unit, Trust], tuple[str, Mapping[str, str]]] = {
    ("client", "central"): ("dp_fedavg", {}),
    ("client", "distributed"): ("dropout_robust", {}),
    ("client", "local"): ("fed_ldp", {}),
    ("record", "central"): ("dp_sgd", {"trust": "central"}),
    ("record", "distributed"): ("dp_sgd", {}),
    ("record", "local"): ("local_dp_sgd", {}),
}


@dataclass(frozen=True)
class Known:
    """Public facts that the choice follows from."""

    unit: Unit
    trust: Trust
    population: int
    rounds: int
    parameters: int
    epsilon: float
    delta: float
    dropout: float = 0.0
    rounds_apart: int = 1
    """A client can take part once in so many rounds at most."""
    contraction: Contraction = field(default_factory=Contraction)

    def __post_init__(self) -> None:
        require_delta(self.delta)
        for name in ("population", "rounds", "parameters", "epsilon", "rounds_apart"):
            require(name, getattr(self, name), getattr(self, name) > 0, "above 0")
        require("rounds", self.rounds, self.rounds <= MANY_ROUNDS, f"at most {MANY_ROUNDS}")
        shares = {
            "dropout": self.dropout,
            "weight_decay": self.contraction.decay,
            "momentum": self.contraction.momentum,
        }
        for name, share in shares.items():
            require(name, share, 0 <= share < 1, "at least 0 and below 1")


@dataclass(frozen=True)
class Choice:
    """A mechanism, its settings, and three sentences."""

    mechanism: str
    settings: Mapping[str, object]
    why: tuple[str, str, str]
    sampling_rate: float | None = None
    """Where cohorts are to be drawn by coins, with which chance."""


def choose(known: Known) -> Choice:
    """Returns what suits these facts; data are not looked at."""
    if known.rounds_apart > 1 and known.unit == "client" and known.trust == "central":
        return _separated(known)
    reach = known.contraction.reach(known.rounds)
    theta = best_theta(known.contraction, known.rounds)
    left = noise_left(theta, reach) / noise_left(1.0, reach)
    if left < _WORTHWHILE and not (known.unit == "record" and known.trust == "local"):
        return _scheduled(known, theta, left)
    name, settings = _PLAIN[known.unit, known.trust]
    return Choice(name, settings, (_opening(known, name), _CONSTANT, _rest(known)))


def _opening(known: Known, name: str) -> str:
    return (
        f"{name}, because each {known.unit} is to be hidden under {known.trust} trust, with "
        f"{counted(known.population, 'client')}, {counted(known.parameters, 'parameter')} and "
        f"{counted(known.rounds, 'round')} at ε = {known.epsilon:g}."
    )


def _rest(known: Known) -> str:
    if known.trust == "distributed":
        lost = f"{100 * known.dropout:g} % of a cohort may vanish" if known.dropout else "nobody is expected to vanish"
        return f"Shares of noise are thinned once survivors are counted, which costs nothing ({lost})."
    if known.trust == "local":
        return (
            "Each message must be private by itself, which leaves √clients times more noise than a sum would have: "
            "distributed trust would be the larger gain, if clients can run a secure sum."
        )
    return "The server is trusted, so that no coin and no share of noise is needed on the clients' side."


def _scheduled(known: Known, theta: float, left: float) -> Choice:
    settings = {"unit": known.unit, "trust": known.trust, "theta": theta}
    forgets = (
        f"A round keeps {100 * (1 - known.contraction.decay):.4g} % of the model (the server's weight decay) and the "
        f"server's momentum is {known.contraction.momentum:g}: the best geometric schedule has θ = {theta:.4f} and "
        f"leaves {100 * math.sqrt(left):.0f} % of a constant schedule's noise in the final model."
    )
    return Choice("geometric", settings, (_opening(known, "geometric"), forgets, _rest(known)))


def _separated(known: Known) -> Choice:
    """Returns banded noise or coins, whichever leaves less noise in the final model."""
    apart, rounds = known.rounds_apart, known.rounds
    bands = np.array(coefficients(min(apart, rounds), rounds))
    times = math.ceil(rounds / apart)
    banded = noise_multiplier_for(known.epsilon, known.delta, lambda z: {CorrelatedGaussian(z): times})
    coins = noise_multiplier_for(
        known.epsilon, known.delta, lambda z: {PoissonSampledDpEvent(1 / apart, GaussianDpEvent(z)): rounds}
    )
    ratio = banded * math.sqrt(last_error(bands, rounds)) / (coins * math.sqrt(rounds))
    kind = "less" if ratio < 1 else "more"
    compared = (
        f"Clients take part once in {apart} rounds: banded noise leaves {ratio:.2f} times the noise of independent "
        f"noise with coins of 1/{apart} and their amplification in the final model, which is {kind}."
    )
    if ratio < 1:
        why = (_opening(known, "banded"), compared, "Clients take turns by a public rota: no secret coins are needed.")
        return Choice("banded", {"groups": apart}, why)
    ending = "Coins must be kept secret from whoever reads the model: where they cannot be, choose `banded`."
    return Choice("dp_fedavg", {}, (_opening(known, "dp_fedavg"), compared, ending), 1 / apart)
