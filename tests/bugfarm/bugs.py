"""The bug farm: what was planted where, and on which stage an audit has to find it."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any

from bugfarm import parts
from sordino.audit.scene import Scene, stage
from sordino.audit.whitebox import guarantees
from sordino.events import Guarantee


@dataclass(frozen=True)
class Bug:
    """A mistake in one part of a mechanism, on a stage where it matters."""

    story: str
    mechanism: str
    part: str
    broken: type
    settings: tuple[str, ...] = ()
    trials: int = 100_000
    observer: str | None = None

    @property
    def name(self) -> str:
        return self.broken.__name__

    def clean(self) -> Scene:
        """The stage before anything was planted."""
        return clean_stage(self.mechanism, self.settings)

    def planted(self) -> Scene:
        """The same stage with the broken part in the place of the right one."""
        scene = self.clean()
        right = getattr(scene.mechanism, self.part)
        return replace(scene, mechanism=replace(scene.mechanism, **{self.part: _broken(self.broken, right)}))

    def promise(self, scene: Scene) -> Guarantee:
        found = guarantees(scene)
        return next((g for g in found if g.observer == self.observer), found[0])


@cache
def clean_stage(mechanism: str, settings: tuple[str, ...]) -> Scene:
    """Returns the stage on which bugs of a mechanism are planted."""
    return stage(mechanism, "certified", ("budget.epsilon=4", *settings))


def _broken(kind: type, right: Any) -> Any:
    """Makes the broken part with the settings of the right one."""
    return kind(**{field.name: getattr(right, field.name) for field in fields(right) if field.init})


TWO_ROUNDS = ("run.rounds=2",)
PLAIN = ("aggregate.kind=plain",)
"""Gaussian shares and a sum of floats, where the broken part is one of those."""
TOLERANT = ("aggregate.tolerance=0.5", *PLAIN)

BUGS: tuple[Bug, ...] = (
    Bug("noise × 0.5", "fed_ldp", "perturber", parts.HalfNoise),
    Bug(
        "variance where a standard deviation belongs",
        "fed_ldp",
        "perturber",
        parts.VarianceForStddev,
        ("mechanism.clip_norm=0.1",),
    ),
    Bug("noise in single precision", "fed_ldp", "perturber", parts.FloatNoise),
    Bug("server's noise in single precision", "dp_fedavg", "perturber", parts.FloatNoiseOfTheServer),
    Bug("noise reused across rounds", "fed_ldp", "perturber", parts.SameNoiseEveryRound, TWO_ROUNDS),
    Bug("seed collision between clients", "fed_ldp", "perturber", parts.NeighboursShareASeed),
    Bug("one draw for all coordinates", "fed_ldp", "perturber", parts.OneDrawForAllCoordinates),
    Bug("no noise on one tensor", "fed_ldp", "perturber", parts.NoNoiseOnTheBias),
    Bug("noise clamped to two standard deviations", "fed_ldp", "perturber", parts.ClampedNoise),
    Bug(
        "replacement at the price of absence",
        "fed_ldp",
        "perturber",
        parts.ReplacementAtThePriceOfAbsence,
        ("mechanism.adjacency=replace",),
    ),
    Bug("a forgotten participation", "fed_ldp", "perturber", parts.ForgottenParticipation, TWO_ROUNDS),
    Bug(
        "an outsider's price for noise that is not in the sum",
        "fed_ldp",
        "perturber",
        parts.CountsNoiseThatIsNotThere,
        observer="outsider",
    ),
    Bug("L2 clip under Laplace noise", "laplace", "bounder", parts.ClipsInTheWrongNorm),
    Bug("clip skipped for one tensor, rows said to be sums", "fed_ldp", "bounder", parts.FirstTensorOnlyAsSums),
    Bug("every tensor clipped by itself, rows said to be sums", "fed_ldp", "bounder", parts.TensorByTensorAsSums),
    Bug(
        "updates not kept near the last one, said to be sums",
        "fed_cad",
        "bounder",
        parts.ForgetsToStayNearAsSums,
        ("mechanism.difference=0.2", "run.rounds=3"),
        20_000,
    ),
    Bug(
        "clipped before it was scaled, rows said to be sums",
        "component_adaptive",
        "bounder",
        parts.ClipsBeforeItScalesAsSums,
        ("run.rounds=2", "mechanism.floor=0.01", "mechanism.decay=0", "budget.epsilon=50"),
    ),
    Bug(
        "sampling amplification credited to the server",
        "fed_ldp",
        "selector",
        parts.AmplifiesAgainstTheServer,
        ("select.kind=poisson", "select.rate=0.1"),
    ),
    Bug(
        "noise of the next round",
        "geometric",
        "perturber",
        parts.NoiseOfTheNextRound,
        ("mechanism.theta=0.25", *TWO_ROUNDS),
    ),
    Bug("fresh noise scaled by Diff twice", "fed_cad", "perturber", parts.FreshNoiseTooSmall, TWO_ROUNDS),
    Bug("server's noise reused across rounds", "dp_fedavg", "perturber", parts.SameServerNoiseEveryRound, TWO_ROUNDS),
    Bug("noise divided by the cohort twice", "dp_fedavg", "perturber", parts.NoiseDividedTwice),
    Bug("wrong denominator: whoever came", "dp_fedavg", "aggregator", parts.DividesByWhoeverCame),
    Bug("the sum clipped in place of each update", "dp_fedavg", "local", parts.ClipsTheSumOnly),
    Bug(
        "noise scaled with the next clip norm",
        "dp_fedavg_adaptive",
        "perturber",
        parts.NoiseOfTheNextClipNorm,
        ("mechanism.quantile_rate=2", "budget.epsilon=8"),
        2000,
    ),
    Bug(
        "the quantile's bit for free",
        "dp_fedavg_adaptive",
        "perturber",
        parts.QuantileForFree,
        ("budget.epsilon=8", "mechanism.bit_stddev=0.36"),
        2000,
    ),
    Bug("shares drawn as if nobody vanished", "dropout_robust", "perturber", parts.SharesForEverybody, TOLERANT),
    Bug("shares divided by n, not by its root", "dropout_robust", "perturber", parts.SharesDividedByTheCount, PLAIN),
    Bug("thinning without fresh noise", "dropout_robust", "perturber", parts.ThinsWithoutFreshNoise, TOLERANT),
    Bug("thinning from the share's own stream", "dropout_robust", "perturber", parts.ThinsByTheSameStream, TOLERANT),
    Bug(
        "weights taken from what a client claims",
        "dropout_robust",
        "bounder",
        parts.TrustsTheClaimedSize,
        ("mechanism.record_limit=2", *PLAIN),
    ),
    Bug(
        "integer noise in float units",
        "dropout_robust",
        "perturber",
        parts.IntegerNoiseInFloatUnits,
        ("aggregate.kind=secure",),
        2000,
    ),
    Bug(
        "integer shares drawn as if nobody vanished",
        "dropout_robust",
        "perturber",
        parts.IntegerSharesForEverybody,
        ("aggregate.kind=secure", "aggregate.tolerance=0.4"),
        12_000,
    ),
    Bug(
        "integer shares divided by the cohort twice",
        "dropout_robust",
        "perturber",
        parts.IntegerSharesDividedTwice,
        ("aggregate.kind=secure",),
        2000,
    ),
    Bug(
        "integer noise reused across rounds",
        "dropout_robust",
        "perturber",
        parts.SameIntegersEveryRound,
        ("aggregate.kind=secure", *TWO_ROUNDS),
        2000,
    ),
    Bug(
        "integer thinning by a fixed part",
        "dropout_robust",
        "perturber",
        parts.ThinsByAFixedPart,
        ("aggregate.kind=secure", "aggregate.tolerance=0.4"),
        2000,
    ),
    Bug(
        "batch credited as sampled, coin forgotten",
        "dp_sgd",
        "local",
        parts.ForgetsTheCoin,
        ("mechanism.sampling_rate=0.1", "mechanism.noise_multiplier=0.7"),
    ),
    Bug("gradients vouched for, not clipped", "dp_sgd", "local", parts.VouchesForNothing),
    Bug("noise before clipping", "a_dpfl", "local", parts.NoiseBeforeClipping),
)
"""Every bug that an audit finds."""

CUT: tuple[Bug, ...] = (
    Bug("rows that are not finite, said to be sums", "fed_ldp", "bounder", parts.InfinityAsSums),
    Bug("clip skipped for one tensor", "fed_ldp", "bounder", parts.ClipsTheFirstTensorOnly),
    Bug("every tensor clipped by itself", "fed_ldp", "bounder", parts.ClipsTensorByTensor),
    Bug("rows that are not finite pass the clip", "fed_ldp", "bounder", parts.LetsInfinityThrough),
    Bug(
        "updates not kept near the last one",
        "fed_cad",
        "bounder",
        parts.ForgetsToStayNear,
        ("mechanism.difference=0.2", "run.rounds=3"),
    ),
    Bug(
        "clipped before it was scaled",
        "component_adaptive",
        "bounder",
        parts.ClipsBeforeItScales,
        (*TWO_ROUNDS, "mechanism.floor=0.01", "mechanism.decay=0", "budget.epsilon=50"),
    ),
)
"""Bugs of bounders that leak nothing: noise on a grid shortens rows that are longer than their stated norm. Where rows
are said to be sums, which nobody can shorten, the same bugs are among `BUGS`."""
