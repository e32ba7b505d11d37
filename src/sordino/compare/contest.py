"""Who competes, in which class, and what each trial plays."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from sordino import recipe as recipes
from sordino.advise.by_features import STEPS_BY_FEATURES
from sordino.errors import RecipeError
from sordino.mechanisms import MECHANISMS
from sordino.mechanisms.spec import Variant
from sordino.recipe import Recipe
from sordino.tune.grid import STEPS, with_settings
from sordino.types import Observer, Trust, Unit

_EQUAL = ("data", "partition", "model", "budget", "ledger")
"""Sections that every contender takes from the common recipe, whatever its own says."""
_FIXED = {"mechanism.name": "name that mechanism as a contender", "run.seed": "--set run.seed=… is for everybody"}
"""Settings that no contender may have for itself either, and what to do instead."""
CEILING = "fedavg"
"""No privacy: nothing competes with it, everything is measured against it. It takes the plain mean of the updates."""
CHOOSER = "auto"
"""Chooses one of the others, so it is nobody's rival."""


@dataclass(frozen=True, order=True)
class Class:
    """What a promise is about. Only equals compete: the same ε hides other things from others elsewhere."""

    unit: Unit
    trust: Trust

    @property
    def observer(self) -> Observer:
        """The one whom the budget binds: the server, unless it is trusted."""
        return "outsider" if self.trust == "central" else "server"

    @property
    def title(self) -> str:
        """Returns the class in words."""
        who = {"local": "each message is private by itself", "distributed": "the server sees sums alone"}
        return f"{self.unit} against the {self.observer} ({who.get(self.trust, 'a trusted server adds the noise')})"


@dataclass(frozen=True)
class Contender:
    """A mechanism with its settings."""

    label: str
    recipe: Recipe
    fixed: frozenset[str] = frozenset()
    """Settings that were given to it alone, and are not tuned."""
    tuned: Mapping[float, tuple[str, ...]] = field(default_factory=dict)
    """By budget, the settings that were chosen on stand-in data."""
    left_open: frozenset[str] = frozenset()
    """Settings that follow from features, where the recipe names features and no step (`compare/following.py`)."""
    followed: Mapping[float, tuple[str, ...]] = field(default_factory=dict)
    """By budget, what follows from features."""

    def at(self, epsilon: float) -> Recipe:
        """Returns its recipe at a budget, as it is before anything is tuned."""
        return changed(with_settings(self.recipe, self.followed.get(epsilon, ())), {"budget.epsilon": epsilon})

    @property
    def kind(self) -> Class:
        """The class in which it competes."""
        chosen, entry = self.recipe.mechanism, MECHANISMS[self.recipe.mechanism.name]
        if chosen.mode == "faithful":
            return Class(entry.unit, entry.trust)
        return Class(entry.unit_of(chosen), entry.trust_of(chosen))


@dataclass(frozen=True, eq=False)
class Trial:
    """One run of the comparison."""

    contender: Contender
    epsilon: float
    seed: int
    folder: Path

    @cached_property
    def recipe(self) -> Recipe:
        """What is played: the contender's recipe with this budget and this seed."""
        chosen = with_settings(self.contender.at(self.epsilon), self.contender.tuned.get(self.epsilon, ()))
        return changed(chosen, {"run.seed": self.seed})


def contenders(
    wanted: Sequence[str],
    common: Recipe,
    own: Mapping[str, Sequence[str]],
    claimed: bool = False,
    rivals: bool = False,
    follow: bool = False,
) -> list[Contender]:
    """Returns contenders by mechanism name or by recipe file.

    Args:
        wanted: names of mechanisms, or paths of recipes, whose data, partition, model and budget are replaced.
        common: the recipe whose data, partition, model, budget and seed are everybody's.
        own: settings (`section.field=value`) of single contenders, by label.
        claimed: whether published mechanisms run as printed, calibrated by their own formula.
        rivals: whether everybody also meets its rivals: the named mechanisms without each of their ideas
            (`MechanismSpec.variants`), and everything plain, without a paper, in the same classes. Not as printed.
        follow: whether what a recipe with features leaves open is left to them (`compare/following.py`).

    Raises:
        RecipeError: a contender is unknown, is named twice, or asked for settings that it does not have.
    """
    made = [_contender(name, common, own, claimed, follow) for name in wanted]
    made = made if not rivals or claimed else _with_rivals(made, common, own, follow)
    labels = [contender.label for contender in made]
    for label in own:
        if label not in labels:
            raise RecipeError(f"--for {label} names no contender: use one of {', '.join(labels)}")
    twice = next((label for label in labels if labels.count(label) > 1), None)
    if twice is not None:
        raise RecipeError(f"{twice} competes twice: name every contender once, or give recipes different file names")
    return made


def trials(contenders: Sequence[Contender], epsilons: Sequence[float], seeds: Sequence[int], out: Path) -> list[Trial]:
    """Returns every run, seed by seed, so that an early look at the table is a fair one."""
    return [
        Trial(contender, epsilon, seed, out / contender.label / f"epsilon-{epsilon:g}" / f"seed-{seed}")
        for seed in seeds
        for epsilon in epsilons
        for contender in contenders
        # Without privacy there is nothing that a budget could change.
        if contender.recipe.mechanism.name != CEILING or epsilon == epsilons[0]
    ]


def changed(recipe: Recipe, settings: Mapping[str, Any]) -> Recipe:
    """Returns the recipe with `section.field` values replaced, validated again."""
    tree = recipe.model_dump(exclude_none=True)
    for name, value in settings.items():
        section, field = name.split(".")
        tree[section][field] = value
    return Recipe.from_dict(tree)


def _with_rivals(
    made: list[Contender], common: Recipe, own: Mapping[str, Sequence[str]], follow: bool
) -> list[Contender]:
    """Returns the contenders, and behind them whom they have to beat."""
    known = {contender.label for contender in made}
    named = dict.fromkeys(contender.recipe.mechanism.name for contender in made)
    variants = [f"{name}-{variant.label}" for name in named for variant in MECHANISMS[name].variants]
    plain = [name for name, spec in MECHANISMS.items() if not spec.paper and name not in (CEILING, CHOOSER)]
    plain += [f"{name}-{variant.label}" for name in plain for variant in MECHANISMS[name].variants]
    classes = {contender.kind for contender in made if contender.recipe.mechanism.name != CEILING}
    wanted = [label for label in dict.fromkeys([*variants, *plain]) if label not in known]
    more = [_contender(label, common, own, False, follow) for label in wanted]
    return [*made, *(one for one in more if one.kind in classes)]


def _variant(label: str) -> tuple[str, Variant] | None:
    """Returns the mechanism and the variant that a label names, `MECHANISM-variant`."""
    name, _, rest = label.partition("-")
    found = [variant for variant in MECHANISMS[name].variants if variant.label == rest] if name in MECHANISMS else []
    return (name, found[0]) if found else None


def _contender(name: str, common: Recipe, own: Mapping[str, Sequence[str]], claimed: bool, follow: bool) -> Contender:
    label = Path(name).stem if name.endswith(".toml") else name
    tree, asked = common.model_dump(exclude_none=True), common
    if name.endswith(".toml"):
        asked = Recipe.load(Path(name)).but(**{section: getattr(common, section) for section in _EQUAL})
        theirs = asked.model_dump(exclude_none=True)
        seed = tree["run"]["seed"]
        tree = {**theirs, **{section: tree[section] for section in _EQUAL}}
        tree["run"] = {**tree["run"], "seed": seed}
    elif (variant := _variant(name)) is not None:
        tree["mechanism"] = _mechanism(tree, variant[0])
        for setting in variant[1].settings:
            recipes.put(tree, setting)
    elif name not in MECHANISMS:
        raise RecipeError(f"{name!r} is neither a mechanism nor a recipe file: choose from {', '.join(MECHANISMS)}")
    else:
        tree["mechanism"] = _mechanism(tree, name)
    if claimed and MECHANISMS[tree["mechanism"]["name"]].paper:
        tree["mechanism"]["mode"] = "faithful"
    if tree["mechanism"]["name"] == CEILING:
        # a server step that suits clipped updates overshoots with whole ones, and would be no ceiling
        tree["server"] = {}
    for setting in own.get(label, ()):
        _check_own(label, setting)
        if setting.partition("=")[0].strip() in STEPS:
            tree["server"] = {field: value for field, value in tree["server"].items() if f"server.{field}" not in STEPS}
        recipes.put(tree, setting)
    fixed = frozenset(setting.partition("=")[0].strip() for setting in own.get(label, ()))
    left = _left_open(asked, tree["mechanism"]["name"], fixed) if follow else frozenset()
    if left:
        tree["server"].pop("learning_rate", None)  # the embedded recipe's, which suits pixels
    return Contender(label, Recipe.from_dict(tree), fixed, left_open=left)


def _left_open(asked: Recipe, mechanism: str, fixed: Collection[str]) -> frozenset[str]:
    """Returns which of `STEPS_BY_FEATURES` a contender's recipe leaves open, if its step is left open at all."""
    if mechanism == CEILING or not asked.leaves_step_to_features or set(STEPS) & set(fixed):
        return frozenset()
    given = {f"run.{one}" for one in asked.run.model_fields_set}
    if asked.mechanism.name == mechanism:
        given |= {f"mechanism.{one}" for one in asked.mechanism.model_fields_set}
    return frozenset(STEPS_BY_FEATURES) - given - set(fixed)


def _mechanism(tree: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Returns a mechanism's table: the common recipe's own, or its defaults and the clip norm that a path goes with."""
    mine: dict[str, Any] = tree["mechanism"]
    if mine["name"] == name:
        return {**mine}
    return {"name": name} | ({"clip_norm": mine["clip_norm"]} if "path" in tree["server"] else {})


def _check_own(label: str, setting: str) -> None:
    """Raises a RecipeError for a setting that would make the comparison unfair."""
    name = setting.partition("=")[0].strip()
    section = name.partition(".")[0]
    remedy = f"--set {setting} is for everybody" if section in _EQUAL else _FIXED.get(name)
    if remedy is not None:
        raise RecipeError(f"--for {label}:{setting} would make the comparison unfair: {remedy}")
