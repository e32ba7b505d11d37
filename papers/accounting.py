"""Published numbers, computed again: what a paper printed, beside what its own formula and a tight accountant give."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from sordino.account.accountants import published
from sordino.account.accountants.accountant import price
from sordino.account.accountants.calibrate import largest_rounds
from sordino.events import DpEvent, GaussianDpEvent, PoissonSampledDpEvent

DELTA = 1e-5


@dataclass(frozen=True)
class PublishedNumber:
    """One number: what it is, what the paper printed (if it did), and what we compute."""

    paper: str
    quantity: str
    computed: float
    printed: float | None
    digits: int


def published_numbers(paper: str = "all") -> Iterator[PublishedNumber]:
    """Yields the numbers of one paper, or of all."""
    for name, make in PAPERS.items():
        if paper in ("all", name):
            yield from make()


def _baek() -> Iterator[PublishedNumber]:
    where = "Baek et al., Table 2"
    for dropout, row in BAEK_TABLE.items():
        noise = (1 - dropout) ** 0.5
        event = PoissonSampledDpEvent(0.01, GaussianDpEvent(noise))
        for rounds, printed in zip(BAEK_ROUNDS, row[:6], strict=True):
            epsilon = price({event: rounds}, "rdp-classic").epsilon(DELTA)
            yield PublishedNumber(
                where, f"ε after {counted(rounds)}, {dropout:.0%} dropout (rdp-classic)", epsilon, printed, 3
            )
        for budget, printed in zip((2, 4, 8), row[6:], strict=True):
            most = largest_rounds(budget, DELTA, lambda n, e=event: {e: n}, "rdp-classic")  # type: ignore[misc]
            yield PublishedNumber(
                where, f"rounds below ε {budget}, {dropout:.0%} dropout (rdp-classic)", most, printed, 0
            )
        for rounds in BAEK_ROUNDS[:4]:
            epsilon = price({event: rounds}).epsilon(DELTA)
            yield PublishedNumber(where, f"ε after {counted(rounds)}, {dropout:.0%} dropout (pld)", epsilon, None, 3)


BAEK_ROUNDS = (1, 10, 100, 1000, 10_000, 100_000)
BAEK_TABLE: Mapping[float, tuple[float, ...]] = MappingProxyType(
    {
        0.0: (1.317, 1.414, 1.612, 2.538, 7.429, 28.552, 429, 2952, 11479),
        0.1: (1.467, 1.586, 1.822, 2.855, 8.212, 31.888, 216, 2348, 9520),
        0.3: (1.894, 2.089, 2.463, 3.867, 10.703, 42.623, 3, 1110, 5690),
    }
)
"""By dropout rate: ε after so many rounds, and the rounds below ε = 2, 4 and 8."""


def counted(rounds: int) -> str:
    """Returns a number of rounds in words."""
    return f"{rounds:,} rounds" if rounds > 1 else "1 round"


def _xue() -> Iterator[PublishedNumber]:
    for sigma0, epsilon in ((26.0, 0.5), (26.0, 2.0), (10.0, 8.0), (26.0, 0.3)):
        claimed = published.xue_participations(epsilon, sigma0, DELTA)
        exact = largest_rounds(epsilon, DELTA, lambda n, z=sigma0: {GaussianDpEvent(z): n})  # type: ignore[misc]
        yield PublishedNumber("Xue et al., Eq. 12", f"uploads at σ0 {sigma0:g}, ε {epsilon:g}", claimed, None, 0)
        yield PublishedNumber("Xue et al., Eq. 12", f"uploads at σ0 {sigma0:g}, ε {epsilon:g} (exact)", exact, None, 0)
        least = published.xue_sigma0(epsilon, claimed, DELTA)
        yield PublishedNumber("Xue et al., Eq. 13", f"σ0 for {claimed} uploads, ε {epsilon:g}", least, None, 4)


def _fed_cad() -> Iterator[PublishedNumber]:
    for difference in (0.3, 0.5, 0.7):
        for place, variance in enumerate(published.fed_cad_schedule(difference, 6)[0], start=1):
            yield PublishedNumber("Fed-CAD, Theorem VI.2", f"v_{place} at D {difference:g}", float(variance), None, 6)
    for sigma, uploads, printed in ((0.3, 30, 2.72), (0.5, 30, 1.5), (0.3, 60, 3.97)):
        for adjacency, sensitivity in (("replace", 2), ("zero_out", 1)):
            event: DpEvent = GaussianDpEvent(sigma / sensitivity)
            epsilon = price({event: uploads}, "exact").epsilon(DELTA)
            what = f"ε at σ {sigma:g}, {uploads} uploads, {adjacency} (exact)"
            yield PublishedNumber("Fed-CAD, section VII", what, epsilon, printed, 2)


def _yuan() -> Iterator[PublishedNumber]:
    sensitivity = published.yuan_sensitivity(5, 600)
    table = {0.9: 0.003556, 0.95: 0.003654, 1.0: 0.003749, 1.05: 0.003841, 1.1: 0.003932}
    for aggregations in (30, 17):
        for theta in table:
            total = published.yuan_sum(theta, aggregations)
            sigma = published.yuan_sigma(sensitivity, 10, 1e-3, 0.1, total)
            yield PublishedNumber("Yuan et al., Eq. 8", f"σ at ϑ {theta:g}, M {aggregations}", sigma, table[theta], 6)
    for theta, printed in table.items():
        yield PublishedNumber("Yuan et al., Table II", f"0.003749·√ϑ at ϑ {theta:g}", 0.003749 * theta**0.5, printed, 6)
    for theta in table:
        refined = published.yuan_refined(theta, 10, published.yuan_reduced(30, 0.9))
        sigma = published.yuan_sigma(sensitivity, 10, 1e-3, 0.1, refined)
        yield PublishedNumber("Yuan et al., Eq. 9", f"σ′ at ϑ {theta:g}, refined at m = 10 to M′ = 27", sigma, None, 6)


def _gaussian() -> Iterator[PublishedNumber]:
    for noise in (0.5, 1.0, 2.0, 4.0):
        yield PublishedNumber(
            "one Gaussian", f"ε at multiplier {noise:g} (exact)", price(GaussianDpEvent(noise)).epsilon(DELTA), None, 4
        )


PAPERS: Mapping[str, Callable[[], Iterator[PublishedNumber]]] = MappingProxyType(
    {"baek": _baek, "xue": _xue, "fed_cad": _fed_cad, "yuan": _yuan, "gaussian": _gaussian}
)
