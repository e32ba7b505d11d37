"""What classifier and regressor share: parameters, the run that trains them, and outputs of the trained model."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Mapping
from numbers import Integral
from pathlib import Path
from typing import Any, Literal, Self, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import Tags
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data
from torch import Tensor, nn

from sordino.advise.by_features import settled
from sordino.data.features import FeatureSettings
from sordino.data.federation import Federation
from sordino.data.public import FARTHEST, PublicCounts
from sordino.data.ranges import Outside, scaled
from sordino.data.records import require_owners
from sordino.errors import DataError, RecipeError, SordinoWarning
from sordino.estimators.declared import Undeclared, count_of, own_words, ranges_of
from sordino.mechanisms import MECHANISMS
from sordino.recipe import Recipe
from sordino.runs.run import run

_MECHANISMS = {
    ("record", "central"): "dp_sgd",
    ("record", "distributed"): "dp_sgd",
    ("client", "central"): "dp_fedavg",
    ("client", "distributed"): "dropout_robust",
    ("client", "local"): "fed_ldp",
}
"""What is used where no mechanism is named, by unit and trust."""


class PrivateEstimator(BaseEstimator):
    """A model that is trained by `sordino.run`, with its certificate.

    **Formal guarantees**: those of the certificate. Only declared numbers, releases and the seed or the operating
    system's entropy shape the model; `n_features_in_` and names of features are taken as public. A pickle carries
    `document_`, the certificate that may be published, and leaves `certificate_` with whoever called `fit`.
    **Edge cases**: every `fit` is a release of its own. Without `ledger` each forgets the others, as its certificate
    says; with one, the budget covers all of them, and a fit that would exceed it raises `BudgetExceeded`.
    """

    def __init__(
        self,
        *,
        epsilon: float | None = 1.0,
        delta: float = 1e-5,
        unit: str = "record",
        trust: str = "central",
        mechanism: str | None = None,
        options: dict[str, Any] | None = None,
        feature_ranges: Any = None,
        outside: Outside = "refuse",
        records: int | str | None = None,
        population: int | str | None = None,
        model: str | nn.Module = "linear",
        hidden: tuple[int, ...] = (32,),
        features: Literal["none", "random"] = "none",
        rounds: int | None = None,
        learning_rate: float | None = None,
        ledger: str | Path | None = None,
        federation: str | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        """Keeps the settings as they are; they are checked by `fit`.

        Args:
            epsilon: the budget of every unit; None only with `options={"noise_multiplier": …}`.
            delta: the budget's δ.
            unit: whose presence is hidden: `record` (a row of X), or `client` (all rows of a group).
            trust: who adds noise: `central`, `distributed` (secure sums over groups) or `local` (client unit).
            mechanism: by name (`sordino mechanisms`); by default the plain one for unit and trust.
            options: further settings of the mechanism, such as `clip_norm` or `sampling_rate`.
            feature_ranges: declared (lowest, highest): one pair, one for each feature, or a mapping; or `unscaled`.
            outside: whether `fit` refuses values outside their range, or clips them; `predict` always clips.
            records: declared number of training rows, or `observed`; fewer (a fold) are warned about, not refused.
            population: declared number of groups, or `observed`; one without groups.
            model: `linear`, `mlp`, another of sordino's by name, or a torch module of your own.
            hidden: widths of hidden layers (`mlp`).
            features: `random`: cosines of 1,000 public random frequencies of each scaled row, of norm 1; what is left
                open (bias, clip norm, rounds, step) then follows from declared numbers, as in a recipe.
            rounds: number of noisy steps (default: 40, or what follows from features).
            learning_rate: server step size; by default the mechanism's, or what follows from features.
            ledger: a file that remembers what was spent, over fits and programs.
            federation: the name under which the ledger knows these data.
            random_state: None draws from the operating system; a seed repeats, and stamps the certificate simulation.
        """
        self.epsilon = epsilon
        self.delta = delta
        self.unit = unit
        self.trust = trust
        self.mechanism = mechanism
        self.options = options
        self.feature_ranges = feature_ranges
        self.outside = outside
        self.records = records
        self.population = population
        self.model = model
        self.hidden = hidden
        self.features = features
        self.rounds = rounds
        self.learning_rate = learning_rate
        self.ledger = ledger
        self.federation = federation
        self.random_state = random_state

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = self.random_state is None
        return tags

    def __getstate__(self) -> dict[str, Any]:
        """Returns what a pickle carries: what may be published, and so not how many were there and who paid most."""
        return {name: value for name, value in super().__getstate__().items() if name != "certificate_"}

    def _train(self, X: NDArray[Any], y: Tensor, classes: int, groups: Any) -> Self:
        """Trains on rows that were validated, and keeps model and certificate."""
        federation = self._federation(X, y, classes, groups)
        own = self.model if isinstance(self.model, nn.Module) else None
        with own_words(), tempfile.TemporaryDirectory() as folder:
            recipe = Recipe.begin(self._sections() | {"public": federation.declared})
            if own is None:
                recipe = settled(recipe, federation.declared, federation.input_shape).recipe
            outcome = run(
                recipe.but(run={"evaluate_every": recipe.run.rounds}),
                model=own,
                federation=federation,
                out=Path(folder) / "run",
                progress=False,
            )
        self.model_ = outcome.model
        self.certificate_ = outcome.certificate
        self.document_ = outcome.document
        self.n_iter_ = outcome.rounds
        return self

    def _federation(self, X: NDArray[Any], y: Tensor, classes: int, groups: Any) -> Federation:
        if groups is None and self.unit == "client":
            raise Undeclared("groups is missing: unit is 'client', so say in fit(X, y, groups=…) whose each row is")
        if self.outside not in get_args(Outside):
            raise Undeclared(f"outside is {self.outside!r}: choose one of {', '.join(get_args(Outside))}")
        owners = np.zeros(len(X), np.int64) if groups is None else _owners(X, groups)
        self._ranges = ranges_of(self.feature_ranges, list(getattr(self, "feature_names_in_", ())), X.shape[1])
        people = 1 if groups is None else count_of("population", self.population, len(np.unique(owners)))
        told = PublicCounts(people, self._expected(len(X)), classes, test=True, part=True)
        if self.features not in ("none", "random"):
            raise Undeclared(f"features is {self.features!r}: choose none or random; the others are made of images")
        with own_words():
            x, name = self._scaled(X, self.outside), self.federation or "X"
            return Federation.of(x, y, owners, None, classes, 0, name, told, read=np.asarray(X, np.float32))

    def _expected(self, found: int) -> int:
        """Returns the declared number of rows; far fewer may be a fold's, which a warning says."""
        expected = count_of("records", self.records, found)
        if FARTHEST * found < expected:
            warnings.warn(
                f"records is {expected}, and X has {found} rows: fine for a fold of a search, whose steps are "
                f"{expected / found:.3g} times as short as on all rows; else declare a number nearer to the truth",
                SordinoWarning,
                stacklevel=5,
            )
        return expected

    def _sections(self) -> dict[str, Any]:
        name = self.mechanism or _MECHANISMS.get((self.unit, self.trust))
        if name is None:
            raise RecipeError(
                f"no mechanism has unit {self.unit!r} under {self.trust!r} trust: choose record or client with central "
                "or distributed trust, or client with local trust"
            )
        if self.options is not None and not isinstance(self.options, Mapping):
            raise RecipeError(f"options is {self.options!r}: give the mechanism's settings by name, or None")
        mechanism = self._asked(name)
        chosen = self.random_state
        drawn: Any = chosen.randint(2**31) if isinstance(chosen, np.random.RandomState) else chosen
        if drawn is not None and not isinstance(drawn, Integral):
            raise RecipeError(f"random_state is {drawn!r}: give a whole number, a RandomState, or None")
        seed = {"entropy": True} if drawn is None else {"seed": int(drawn), "entropy": False}
        widths: Any = self.hidden
        hidden = (int(widths),) if isinstance(widths, Integral) else tuple(widths)
        model = {} if isinstance(self.model, nn.Module) else {"name": self.model, "hidden": hidden}
        return {
            "mechanism": mechanism,
            "budget": {"epsilon": "none" if self.epsilon is None else self.epsilon, "delta": self.delta},
            "run": seed if self.rounds is None else {"rounds": self.rounds, **seed},
            "data": {} if self.features == "none" else {"features": self.features, "cache": "none"},
            "model": model,
            "server": {} if self.learning_rate is None else {"learning_rate": self.learning_rate},
            "ledger": {"path": self.ledger, "federation": self.federation},
        }

    def _asked(self, name: str) -> dict[str, Any]:
        """Returns the mechanism's settings; its unit and trust are the estimator's, or it is refused.

        Raises:
            RecipeError: the mechanism hides something else, or trusts somebody else, than the estimator was told.
        """
        settings: dict[str, Any] = {"name": name, **(self.options or {})}
        if (spec := MECHANISMS.get(name)) is None:
            return settings  # a recipe says which there are
        for what in ("unit", "trust"):
            wanted, fixed = getattr(self, what), getattr(spec, what)
            has = settings.setdefault(what, wanted) if what in spec.options.model_fields else fixed
            if has != wanted:
                raise RecipeError(
                    f"{what} is {wanted!r}, and mechanism {name!r} has {what} {has!r}: set {what}={has!r}, or choose "
                    "another mechanism"
                )
        return settings

    def _scaled(self, X: NDArray[Any], outside: Outside) -> Tensor:
        """Returns rows scaled by their ranges."""
        x = torch.from_numpy(np.array(X, dtype=np.float32))
        return scaled("X", x, self._ranges, outside=outside) if self._ranges else x

    def _outputs(self, X: Any) -> NDArray[np.float64]:
        """Returns what the trained model says of each row."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False)
        with torch.no_grad():
            out: Tensor = self.model_(FeatureSettings(self.features)(self._scaled(X, "clip")))
        return np.asarray(out.double().numpy())


def _owners(X: NDArray[Any], groups: Any) -> NDArray[Any]:
    """Returns whose each row is.

    Raises:
        Undeclared: a row is nobody's, or somebody's twice.
    """
    check_consistent_length(X, groups)
    owners = np.asarray(groups)
    gaps = "groups must name one owner for each row: give a list of names or numbers without gaps"
    if owners.ndim != 1:
        raise Undeclared(gaps)
    try:
        require_owners("groups", owners)
    except DataError as error:
        raise Undeclared(f"{gaps} ({error})") from None
    return owners
