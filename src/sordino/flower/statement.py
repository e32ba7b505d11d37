"""What a private Flower run did besides charging its ledger, in words, for its certificate."""

from __future__ import annotations

from sordino._version import __version__
from sordino.account.certificate.document import Statement
from sordino.flower.settings import FlowerSettings
from sordino.mechanism import Mechanism
from sordino.server.view import views

_DRAWN = {
    "everyone": "every connected node that could pay was asked in every round",
    "fixed": "cohorts of a fixed number of places, without replacement, drawn by the server",
    "poisson": "every connected node by a coin of its own, drawn by the server",
}


def statement_for(settings: FlowerSettings, mechanism: Mechanism, simulation: bool) -> Statement:
    """Returns what a certificate says about how the run was made."""
    return Statement(
        mechanism=mechanism.name,
        mode=mechanism.mode,
        trust=mechanism.trust,
        views=views(mechanism),
        sampling_assumed=f"{type(mechanism.selector).__name__}, unknown to the outsider"
        if mechanism.coins_are_secret
        else "none: no promise rests on who was selected",
        sampling_executed=_DRAWN[settings.select],
        denominator="a public constant, fixed beforehand; not the number of those who answered",
        noise_source="a seed: whoever knows it can subtract the noise"
        if simulation
        else "the operating system's entropy",
        arithmetic=mechanism.perturber.arithmetic,
        secure_sum="none: the server receives every message",
        data_accesses=(
            "training rounds on Flower: charged",
            "choice of settings, data exploration, earlier trials without this ledger: not charged, not known here",
        )
        + (("evaluation by clients, without noise: charged as unbounded",) if settings.evaluate != "off" else ()),
        unprotected=(
            "number and kind of releases, and public settings",
            "how long rounds take, and which nodes are connected",
        ),
        assumptions=_assumptions(settings),
        code_version=__version__,
    )


def _assumptions(settings: FlowerSettings) -> tuple[str, ...]:
    told = [
        "the ledger and the server's log are kept private",
        "a node's Flower id is one client's for good, which needs authenticated SuperNodes",
        "which nodes are connected does not depend on their data",
    ]
    if settings.trust == "central":
        told.append("the server is trusted with every message, clips each once more, and adds the noise")
    else:
        told.append("each node runs private_mod as it is, and adds its own noise")
    return tuple(told)
