"""A recipe: everything that a run does, as one validated TOML document."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import tomli_w
from pydantic import (
    BaseModel,
    Field,
    ValidationError,
    model_validator,
)

from sordino.errors import RecipeError
from sordino.mechanisms import MECHANISMS
from sordino.mechanisms.spec import Options
from sordino.printable import quoted
from sordino.sections.budget import BudgetSection, LedgerSection
from sordino.sections.data import DataSection, PartitionSection, PublicSection
from sordino.sections.mechanism import DEFAULT_MECHANISM, UNKNOWN_MECHANISM, MechanismSection
from sordino.sections.rounds import AggregateSection, DropoutSection, RunSection, SelectSection
from sordino.sections.section import Section
from sordino.sections.training import ModelSection, OpeningSection, ServerSection, TrainSection

_DEFAULT = Path(__file__).with_name("default.toml")
"""The embedded default: what runs when no recipe is named."""
_STEP = {("server", "learning_rate"), ("mechanism", "clip_norm"), ("run", "rounds")}
"""What of it says how long a step is, and how many there are."""


class Recipe(Section):
    """A run."""

    mechanism: MechanismSection = Field(default_factory=MECHANISMS[DEFAULT_MECHANISM].options)
    data: DataSection = Field(default_factory=DataSection)
    public: PublicSection = Field(default_factory=PublicSection)
    partition: PartitionSection = Field(default_factory=PartitionSection)
    model: ModelSection = Field(default_factory=ModelSection)
    train: TrainSection = Field(default_factory=TrainSection)
    server: ServerSection = Field(default_factory=ServerSection)
    opening: OpeningSection = Field(default_factory=OpeningSection)
    select: SelectSection = Field(default_factory=SelectSection)
    dropout: DropoutSection = Field(default_factory=DropoutSection)
    aggregate: AggregateSection = Field(default_factory=AggregateSection)
    budget: BudgetSection = Field(default_factory=BudgetSection)
    run: RunSection = Field(default_factory=RunSection)
    ledger: LedgerSection = Field(default_factory=LedgerSection)

    @model_validator(mode="wrap")
    @classmethod
    def _usual(cls, value: Any, validated: Callable[[Any], Recipe]) -> Recipe:
        """Begins from the embedded recipe where no mechanism is named: the same defaults on every way in.

        Its step gives way to the features': it counts as left open where these say what it should be.
        """
        mine = value.get("mechanism", {}) if isinstance(value, Mapping) else {"name": ""}
        if not isinstance(mine, Mapping) or "name" in mine:
            return validated(value)
        whole, embedded = dict(value), list[tuple[str, str]]()
        for section, usual in _parse(_DEFAULT).items():
            given = whole.get(section, {})
            if isinstance(given, Mapping):
                steps = section == "server" and "path" in given  # which takes the place of a learning rate
                whole[section] = dict(given) if steps else usual | dict(given)
                embedded += [(section, field) for field in usual if field not in given]
        recipe = validated(whole)
        for section, field in set(embedded) & _STEP if recipe._could_follow else ():
            getattr(recipe, section).model_fields_set.discard(field)
        return recipe

    @model_validator(mode="before")
    @classmethod
    def _owners(cls, value: Any) -> Any:
        """Makes owners the clients where the recipe says who they are, and nothing about how records are dealt out."""
        if not isinstance(value, Mapping):
            return value
        data, deal = value.get("data"), value.get("partition", {})
        file = data.get("file") if isinstance(data, Mapping) else None
        several = isinstance(file, (list, tuple)) or "*" in str(file or "")
        named = isinstance(data, Mapping) and (data.get("client") or several)
        if named and isinstance(deal, Mapping) and "kind" not in deal:
            return {**value, "partition": {**deal, "kind": "by_key"}}
        return value

    @property
    def follows_features(self) -> bool:
        """Whether what the recipe leaves open follows from its features, as `leaves_step_to_features` asks, for a
        mechanism that calibrates constant noise (`advise/by_features.py`).
        """
        return self.leaves_step_to_features and self._could_follow

    @property
    def leaves_step_to_features(self) -> bool:
        """Whether rows have norm 1, the model is linear, the budget is one of ε, and nobody has chosen a step.

        **Edge cases**: a recipe that was written out whole (by `sordino recipe`, or in a run folder) leaves nothing
        open: a step that is missing there is the mechanism's own, as it was when the recipe was written.
        """
        given = self.server.model_fields_set
        written_out = {"momentum", "weight_decay", "average"} <= given
        return self._has_unit_rows and not written_out and not {"path", "learning_rate"} & given

    @property
    def _could_follow(self) -> bool:
        return self._has_unit_rows and MECHANISMS[self.mechanism.name].prepares and self.mechanism.mode == "certified"

    @property
    def _has_unit_rows(self) -> bool:
        rows = self.data.features != "none" and self.data.feature_norm != "none"
        linear = self.model.name == "linear" and self.model.loss in ("auto", "cross_entropy")
        return rows and linear and self.budget.epsilon is not None

    @classmethod
    def load(cls, path: Path | str | None = None, settings: Sequence[str] = ()) -> Recipe:
        """Reads a TOML recipe (None: `begin`, the embedded default) and applies `section.field=value` settings.

        Raises:
            RecipeError: one sentence that names the field and the remedy.
        """
        if path is None:
            return cls.begin(settings=settings)
        tree = _parse(Path(path))
        if not any(part != {} for part in tree.values()):  # an empty file, comments, sections without settings
            raise RecipeError(
                f"recipe {path} sets nothing: write settings into it (`sordino recipe` prints the default's), or leave "
                "it out to begin with the default"
            )
        for setting in settings:
            put(tree, setting)
        return cls.from_dict(tree)

    @classmethod
    def begin(cls, tree: Mapping[str, Any] | None = None, settings: Sequence[str] = ()) -> Recipe:
        """Returns a recipe from single sections and settings alone: `sordino run --set …`, `sordino.run(budget=…)`.

        Without another mechanism it is the embedded recipe with these changed; another mechanism brings its own
        defaults.

        Raises:
            RecipeError: one sentence that names the field and the remedy.
        """
        whole = {name: dict(part) if isinstance(part, Mapping) else part for name, part in (tree or {}).items()}
        for setting in settings:
            put(whole, setting)
        mine = whole.get("mechanism")
        if isinstance(mine, dict) and mine.get("name") == DEFAULT_MECHANISM:
            mine.pop("name")
        return cls.from_dict(whole)

    @classmethod
    def from_dict(cls, tree: Mapping[str, Any]) -> Recipe:
        """Validates nested dictionaries, or sections as objects, as a recipe.

        Raises:
            RecipeError: one sentence that names the field and the remedy.
        """
        try:
            return cls.model_validate(dict(tree))
        except ValidationError as error:
            raise RecipeError(_sentence(error)) from None

    def but(self, **sections: Any) -> Recipe:
        """Returns the recipe with sections changed: an object replaces one, a dictionary changes some of its fields.

        A mechanism under another name starts from that mechanism's own defaults.

        >>> Recipe().but(budget={"epsilon": 2}, mechanism={"name": "fed_ldp"}).mechanism.name
        'fed_ldp'
        """
        if not sections:
            return self
        tree: dict[str, Any] = {name: getattr(self, name) for name in type(self).model_fields}
        for name, value in sections.items():
            tree[name] = _merged(tree.get(name), value)
        return self.from_dict(tree)

    def to_toml(self) -> str:
        """Returns the recipe as TOML, with every default written out."""
        tree = self.model_dump(mode="json", exclude_none=True)
        if self.budget.epsilon is None:
            tree["budget"]["epsilon"] = "none"  # TOML has no null, and leaving it out would mean the default
        return tomli_w.dumps(tree)


def _merged(section: Any, value: Any) -> Any:
    if not isinstance(value, Mapping) or not isinstance(section, BaseModel):
        return value
    if isinstance(section, Options) and value.get("name", section.name) != section.name:
        return dict(value)
    return (
        section.model_dump(exclude_unset=True)
        | ({"name": section.name} if isinstance(section, Options) else {})
        | dict(value)
    )


def _parse(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))  # Windows editors put a mark in front
    except OSError as error:
        raise RecipeError(f"recipe {path} cannot be read ({error.strerror}): check the path") from None
    except UnicodeDecodeError:
        raise RecipeError(f"recipe {path} is no text in UTF-8: save it as UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise RecipeError(f"recipe {path} is not valid TOML ({error}): correct that line") from None
    except RecursionError:
        raise RecipeError(f"recipe {path} nests too deeply: a recipe has sections, and settings in them") from None


def put(tree: dict[str, Any], setting: str) -> None:
    """Writes one `section.field=value` into the tree; the value is TOML, or else a bare string."""
    name, sep, text = setting.partition("=")
    path = name.strip().split(".")
    if not sep or len(path) < 2 or not all(path):
        meant = next((section for section, fields in _sections().items() if name.strip() in fields), "")
        example = (
            f"did you mean {meant}.{name.strip()}={text or '…'}?" if meant else "write, e.g., mechanism.clip_norm=0.5"
        )
        raise RecipeError(f"--set {setting!r} is not of the form section.field=value: {example}")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except (tomllib.TOMLDecodeError, RecursionError):
        value = text.strip()
    for part in path[:-1]:
        tree = tree.setdefault(part, {})
        if not isinstance(tree, dict):
            raise RecipeError(f"--set {setting!r}: {part} is not a section; see `sordino recipe --explain`")
    tree[path[-1]] = value


def _sentence(error: ValidationError) -> str:
    """Turns pydantic's first complaint into one sentence."""
    first = error.errors()[0]
    place = [str(part) for part in first["loc"]]
    field = ".".join(place)
    if first["type"] == "extra_forbidden":
        return f"{field} is not a setting{_nearest(place)}; `sordino recipe --explain` lists them all"
    if first["type"] in ("model_type", "model_attributes_type"):
        return (
            f"{field} is a table of settings, not {quoted(first['input'])}: write [{field}] and one setting a line "
            "below it"
        )
    if first["type"] == UNKNOWN_MECHANISM:
        name = first["ctx"]["tag"]
        close = difflib.get_close_matches(str(name).casefold().replace("-", "_"), MECHANISMS, 1)
        meant = f" (did you mean {close[0]}?)" if close else ""
        return (
            f"mechanism.name is {quoted(name)}, which is not a mechanism{meant}: choose one of {', '.join(MECHANISMS)}"
        )
    if first["type"] == "string_unicode":
        return f"{field} is {first['input']!r}, which is not valid text: write it in UTF-8"
    message = re.sub(r"0\.0{6,}\d+", lambda found: f"{float(found[0]):g}", first["msg"].removeprefix("Value error, "))
    given = "" if first["type"] == "value_error" else f" (it is {quoted(first['input'])})"
    said = f": {message[0].lower()}{message[1:]}"
    if message.startswith("Input should be "):
        said = f" must be {message.removeprefix('Input should be ').replace('valid tuple', 'list in [ and ]')}"
    return f"{field}{said}{given}; `sordino recipe --explain` says what it takes"


def _nearest(place: list[str]) -> str:
    names: dict[str, Any] = dict(Recipe.model_fields)
    if len(place) > 1 and place[0] == "mechanism":
        names = {name: None for entry in MECHANISMS.values() for name in entry.options.model_fields}
        if place[-1] in names:
            return " of this mechanism"
    elif len(place) > 1 and place[0] in names:
        names = _sections()[place[0]]
    close = difflib.get_close_matches(place[-1], names, 1)
    elsewhere = [section for section, fields in _sections().items() if place[-1] in fields]
    if elsewhere:  # the right name in the wrong table, or in none
        return f" (did you mean {elsewhere[0]}.{place[-1]}?)"
    return f" (did you mean {'.'.join([*place[:-1], close[0]])}?)" if close else ""


def _sections() -> dict[str, dict[str, Any]]:
    """Returns the settings of every table but the mechanism's."""
    kinds = {name: about.annotation for name, about in Recipe.model_fields.items() if name != "mechanism"}
    return {name: dict(getattr(kind, "model_fields", {})) for name, kind in kinds.items()}
