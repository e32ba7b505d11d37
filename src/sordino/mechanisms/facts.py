"""What a mechanism is told when it is composed: public facts of the federation, and the budget to calibrate for."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from sordino.account.accountants.history import History
from sordino.account.accountants.target import PrivacyTarget
from sordino.aggregate.secure.robust import RobustRule
from sordino.aggregate.secure.session import Fidelity
from sordino.events import DpEvent, Guarantee, Unbounded
from sordino.layout import Layout
from sordino.mechanism import Perturber, Selector
from sordino.mechanisms.spec import Options
from sordino.select.fixed import Everyone, FixedSize
from sordino.stages import Prices
from sordino.terms import Knobs
from sordino.train.settings import LocalTraining
from sordino.types import Adjacency, IntArray


@dataclass(frozen=True)
class PaidRelease:
    """One bounded guarantee of a release: what it costs at a noise multiplier, and how often one client pays."""

    perturber: Perturber
    selector: Selector
    clip_norm: float
    place: int
    """Which of the perturber's prices it is."""
    guarantee: Guarantee
    count: int
    """How many releases one client pays for at most."""

    @property
    def adjacency(self) -> Adjacency:
        """The neighbouring relation."""
        return self.guarantee.adjacency

    def event(self, noise_multiplier: float) -> DpEvent:
        """Returns the event that is charged, amplification included."""
        prices = self.perturber.price(Knobs(self.clip_norm, noise_multiplier))
        return self.selector.charge(*prices[self.place]).event


@dataclass(frozen=True)
class PublicFacts:
    """Public facts that a composition needs.

    **Formal guarantees**: numbers about the data are declared, never measured (`data/public.py`). Two federations under
    one declaration get the same mechanism: denominators, noise, rates and rounds are equal to the bit.
    """

    population: int
    """The most clients that there can be, as declared."""
    records: float
    """Training records that all clients together are expected to hold, as declared."""
    layout: Layout
    rounds: int
    target: PrivacyTarget
    selector: Selector
    tolerance: float
    participations: int
    """How often the noise must suffice for one client, when cohorts are drawn."""
    train: LocalTraining
    secure: bool = False
    """Whether noise shares are summed securely, as integers."""
    secure_by_name: bool = False
    """Whether the recipe names the secure sum (`aggregate.kind = "secure"`): printed shares then go through it too."""
    fidelity: Fidelity = "exact"
    corrupt: float = 0.0
    """Share of a cohort that may work with the server (secure)."""
    shards: int = 1
    """Into how many secure sums a cohort is dealt out (1: a single one)."""
    combine: RobustRule = "trimmed_mean"
    """How the shards' sums are combined."""
    trim: int = 1
    """How many of the largest and of the smallest shards' values a trimmed mean leaves out."""
    rounding: float = 0.01
    """Share by which rounding to integers may raise the sensitivity."""
    late: float = 0.0
    """Share of the population that joins late."""
    vanishing: bool = False
    """Whether clients can vanish in a round: foreseen by the simulation, and always where they are other machines."""
    classes: int = 0
    public: bool = False
    """Whether there are public records to measure accuracy on."""
    server_momentum: float = 0.0
    server_weight_decay: float = 0.0
    """Share of the model that the server takes away in a round."""
    least_records: int = 1
    """Records that a client is taken to hold at least."""
    most_in_all: int = 2**40
    """Records that can be in one sum at most."""
    private_sizes: IntArray | None = None
    """How many records each client holds. Measured, so not public: for faithful mechanisms that weight by it, whose
    price must be `Unbounded` unless `sizes_public`."""
    sizes_public: bool = False
    """Whether these sizes are declared public, as those of a published benchmark are."""
    before: Prices = ()
    """What is released before the first round, once: calibration leaves room for it."""
    left: float = 1.0
    """Share of the budget's μ that is left for the rounds."""

    @property
    def mean_records(self) -> float:
        """Returns the records that a client is expected to hold."""
        return self.records / self.population

    @property
    def expected(self) -> float:
        """Returns the public expected size of a cohort."""
        return self.selector.expected(self.population)

    @property
    def least_survivors(self) -> int:
        """Fewest messages that a round of everybody, or of a fixed number, accepts: what tolerance allows to vanish.

        Under Poisson selection cohorts have any size, and nothing is counted on.
        """
        if not isinstance(self.selector, Everyone | FixedSize):
            return 1
        there = self.expected * (1 - self.late) * (1 - self.tolerance)
        return max(1, math.floor(round(there, 9)))

    def releases(self, perturber: Perturber, clip_norm: float, rounds: int | None = None) -> Iterator[PaidRelease]:
        """Yields every bounded guarantee of a perturber, with how often one client pays for it at most."""
        rounds = rounds or self.rounds
        for place, (guarantee, event) in enumerate(perturber.price(Knobs(clip_norm, 1.0))):
            if isinstance(event, Unbounded):
                continue
            everybody = self.selector.charge(guarantee, event).payers == "eligible"
            count = rounds if everybody else min(self.participations, rounds)
            yield PaidRelease(perturber, self.selector, clip_norm, place, guarantee, count)

    def calibrate(self, options: Options, perturber: Perturber) -> float:
        """Returns the noise multiplier: the one that is set, or the least one that keeps every guarantee in budget."""
        if options.noise_multiplier is not None:
            return options.noise_multiplier

        def least(release: PaidRelease) -> float:
            def history(noise_multiplier: float) -> History:
                before = Counter(event for guarantee, event in self.before if guarantee == release.guarantee)
                return before + Counter({release.event(noise_multiplier): release.count})

            return self.target.least_noise(history, adjacency=release.adjacency)

        return max(map(least, self.releases(perturber, options.clip_norm)))


def likely_participations(rounds: int, expected: float, population: int) -> int:
    """Returns a number of participations that few clients exceed: mean + 3 standard deviations of a binomial."""
    rate = min(1.0, expected / population)
    mean = rounds * rate
    return min(rounds, max(1, math.ceil(mean + 3 * math.sqrt(mean * (1 - rate)))))
