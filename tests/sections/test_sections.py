"""Every setting has limits and says what it means; what is outside of them is refused by its field."""

import pytest

from sordino.data import DATASETS
from sordino.errors import RecipeError
from sordino.recipe import Recipe
from sordino.sections.data import DataSection


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("mechanism.clip_nrom=1", "did you mean mechanism.clip_norm"),
        ("mechanism.name=dp_sdg", "choose one of"),
        ("mechanism.clip_norm=-1", "mechanism.clip_norm"),
        ("mechanism.clip_norm=nan", "mechanism.clip_norm"),
        ("budget.delta=1", "budget.delta"),
        ("budget.epsilon=0", "budget.epsilon"),
        ("bugdet.epsilon=1", "did you mean budget"),
        ("select.kind=poisson", "select.rate"),
        ("select.kind=fixed", "select.size"),
        ("dropout.rate=1.0", "dropout.rate"),
        ("run.rounds=0", "run.rounds"),
        ("run.rounds=many", "run.rounds"),
        (f"run.rounds={'9' * 400}", "run.rounds"),
        (f"run.rounds={'[' * 50_000}", "run.rounds"),
        ("public.classes=9223372036854775808", "public.classes"),
        ("budget.delta=1e-320", "budget.delta"),
        ("mechanism.name=[]", "choose one of"),
        ("nonsense", "section.field=value"),
        ("data=5", "section.field=value"),
    ],
)
def test_a_wrong_setting_is_named_with_its_remedy(setting, says):
    with pytest.raises(RecipeError) as error:
        Recipe.load(None, [setting])
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_steps_and_epochs_exclude_each_other():
    with pytest.raises(RecipeError, match="set one of them"):
        Recipe.load(None, ["train.steps=3", "train.epochs=2"])


def test_every_section_documents_its_settings():
    for section, about in Recipe.model_fields.items():
        if section != "mechanism":
            for field, description in about.annotation.model_fields.items():
                assert description.description, f"{section}.{field}"


def test_what_a_reader_of_data_can_be_told_a_recipe_can_say():
    known = set(DataSection.model_fields)
    assert {option for name in ("csv", "npz") for option in DATASETS[name].options} <= known


@pytest.mark.parametrize("field", ["ledger.path", "ledger.witness", "data.folder", "data.file"])
def test_paths_that_no_file_can_have_are_refused_by_their_field(field):
    """They were taken, and ended in a traceback wherever the file was first asked for."""
    section, name = field.split(".")
    with pytest.raises(RecipeError, match=rf"{field}.*NUL"):
        Recipe.from_dict({section: {name: "a\0b"}})
