"""What is declared public: what is missing is proposed, what is contradicted is named, and nothing else is used."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from sordino.data import Federation, PartitionSettings, PublicCounts, federate
from sordino.errors import DataError, RecipeError
from sordino.recipe import Recipe
from sordino.runs.setup import assemble, load


def own(**changes: object) -> Federation:
    x = torch.arange(80.0).view(40, 2)
    fields: dict[str, object] = {"clients": np.arange(40) // 4, "test": None}
    return Federation.of(x, torch.arange(40) % 2, **{**fields, **changes})  # type: ignore[arg-type]


def recipe(*settings: str) -> Recipe:
    return Recipe.load(None, ["mechanism.name=dp_fedavg", "run.rounds=2", *settings])


def test_own_data_must_be_declared_and_the_lines_are_proposed() -> None:
    with pytest.raises(DataError) as error:
        assemble(recipe(), federation=own())
    assert "[public] population = 10, records = 40, classes = 2 " in str(error.value)
    with pytest.raises(DataError) as error:
        assemble(recipe("public.population=10", "public.classes=2"), federation=own())
    assert "[public] records = 40 " in str(error.value)
    told = ("public.population=10", "public.records=40", "public.classes=2")
    assert assemble(recipe(*told), federation=own()).federation.declared == PublicCounts(10, 40, 2)


def test_a_proposal_of_no_classes_says_that_a_number_is_predicted(tmp_path) -> None:
    """Labels of −1 and 1 are taken for numbers, and a newcomer declared what was proposed."""
    (tmp_path / "own.csv").write_text("a,label\n0.1,-1\n0.2,1\n0.3,-1\n0.4,1\n0.5,1\n")
    with pytest.raises(DataError, match=r"classes = 0 to the recipe .*list them in data.class_names"):
        load(recipe("data.name=csv", f"data.file={tmp_path / 'own.csv'}"))
    with pytest.raises(DataError) as error:
        assemble(recipe(), federation=own())
    assert "class_names" not in str(error.value)


def test_labels_that_begin_at_one_are_told_apart_from_a_class_that_nobody_has(tmp_path) -> None:
    (tmp_path / "own.csv").write_text("a,label\n0.1,1\n0.2,2\n0.3,1\n0.4,2\n0.5,2\n")
    own_file = ("data.name=csv", f"data.file={tmp_path / 'own.csv'}", "partition.clients=2")
    with pytest.raises(DataError, match=r"classes = 3 to the recipe .*list them in data.class_names, and declare 2"):
        load(recipe(*own_file))
    listed = recipe(*own_file, 'data.class_names=["1", "2"]')
    with pytest.raises(DataError, match="records must be declared") as error:
        load(listed)
    assert "classes" not in str(error.value)  # they are listed


def test_a_proposal_can_be_declared_whole() -> None:
    context = assemble(recipe().but(public=own().proposed()), federation=own())
    assert context.federation.declared == PublicCounts(10, 40, 2) == own(public=own().proposed()).declared


@pytest.mark.parametrize(
    ("told", "sentence"),
    [
        (PublicCounts(9, 40, 2), "public.population is 9, but the data hold 10 clients"),
        (PublicCounts(21, 40, 2), "public.population is 21, but the data hold 10 clients, less than half"),
        (PublicCounts(10, 19, 2), "public.records is 19, but the data hold 40 records"),
        (PublicCounts(10, 81, 2), "public.records is 81, but the data hold 40 records, less than half"),
        (PublicCounts(10, 40, 2, most_records=3), "public.most_records is 3, but a client holds more"),
        (PublicCounts(10, 40, 2, least_records=5), "public.least_records is 5, but a client holds fewer"),
        (PublicCounts(10, 40, 1), "classes is 1: give how many there are"),
    ],
)
def test_a_declaration_that_the_data_contradict_is_named(told: PublicCounts, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        own().declare(told)


def test_one_client_is_called_one_client() -> None:
    alone = Federation.of(torch.zeros(4, 2), torch.tensor([0, 1, 0, 1]), clients=1, test=None, name="own")
    with pytest.raises(DataError, match="the data hold 1 client, less than half"):
        alone.declare(PublicCounts(10, 4, 2))


def test_a_part_of_what_is_declared_may_be_far_less_and_never_more() -> None:
    whole = assemble(recipe(), federation=own(public=PublicCounts(10, 40, 2)))
    part = assemble(recipe(), federation=own(public=PublicCounts(10, 400, 2, part=True)))
    assert part.federation.declared.total == 400
    assert [part.mechanism.planned, part.mechanism.unit] == [whole.mechanism.planned, whole.mechanism.unit]
    with pytest.raises(DataError, match=r"public.records is 19, but the data hold 40 records"):
        own().declare(PublicCounts(10, 19, 2, part=True))
    with pytest.raises(DataError, match=r"public.population is 21, but the data hold 10 clients, less than half"):
        own().declare(PublicCounts(21, 40, 2, part=True))


def test_the_models_output_has_as_many_classes_as_are_declared() -> None:
    context = assemble(recipe(), federation=own(public=PublicCounts(10, 40, 5)))
    assert context.federation.classes == 5 and context.layout.shapes[-1] == (5,)


def test_benchmarks_know_their_counts_from_constants_and_settings() -> None:
    assert federate().declared == PublicCounts(1437, 1437, 10, 1, 1, True, True)
    some = federate(partition=PartitionSettings("iid", clients=100), public_fraction=0.1).declared
    assert some == PublicCounts(100, 1437 - 144, 10, 13, 12, True, True)
    drawn = federate(partition=PartitionSettings("dirichlet", clients=20, size=30)).declared
    assert drawn == PublicCounts(20, 600, 10, None, None, True, True)
    skewed = [federate(partition=PartitionSettings("quantity_skew", clients=20), seed=seed).declared for seed in (1, 2)]
    assert skewed[0] == skewed[1] == PublicCounts(20, 1437, 10, None, None, True, True)


def test_a_users_file_is_not_a_benchmark(tmp_path) -> None:
    lines = ["age,chol,who,label", *(f"{20 + k},{150 + k},{k // 2},{k % 2}" for k in range(40))]
    (tmp_path / "own.csv").write_text("\n".join(lines))
    settings = [f"data.file={str(tmp_path / 'own.csv')!r}", "data.name=csv", "data.client=who", "partition.kind=by_key"]
    with pytest.raises(DataError, match=r"\[public\] population = 16, records = 32, classes = 2 "):
        load(recipe(*settings))
    told = [*settings, "public.population=16", "public.records=32", "public.classes=2"]
    federation = load(recipe(*told))
    assert federation.population == 16 and not federation.test_public
    scaled = load(recipe(*told, "public.ranges={age = [0, 100], chol = [100, 200]}"))
    assert torch.allclose(scaled.train_x, federation.train_x / 50 - torch.tensor([1.0, 3.0]), atol=1e-6)
    again = assemble(recipe(*told, "public.ranges={age = [0, 100], chol = [100, 200]}"), federation=scaled)
    assert torch.equal(again.federation.train_x, scaled.train_x)
    with pytest.raises(DataError, match=r"in feature age, outside the declared range \[0, 50\]"):
        load(recipe(*told, "public.ranges={age = [0, 50]}"))
    clipped = load(recipe(*told, "public.ranges={age = [0, 50]}", "data.outside=clip"))
    assert clipped.train_x[:, 0].max() == 1 and torch.equal(clipped.train_x[:, 1], federation.train_x[:, 1])
    with pytest.raises(DataError, match="feature 'weight', but csv has age, chol"):
        load(recipe(*told, "public.ranges={weight = [0, 50]}"))


def test_scaling_looks_at_no_other_record() -> None:
    told = replace(own().proposed(), population=11, ranges={"*": (0.0, 100.0)})
    all_of_them = assemble(recipe().but(public=told), federation=own()).federation.train_x
    x = torch.arange(80.0).view(40, 2)[:36]
    fewer = Federation.of(x, torch.arange(36) % 2, np.arange(36) // 4, test=None)
    assert torch.equal(assemble(recipe().but(public=told), federation=fewer).federation.train_x, all_of_them[:36])


def test_nobody_stands_on_both_sides_of_the_test_split() -> None:
    federation = own(test=0.3)
    assert len(federation.test_x) == 12
    people = [set((side[:, 0] // 8).tolist()) for side in (federation.train_x, federation.test_x)]
    assert not people[0] & people[1] and len(people[0] | people[1]) == 10


def test_a_target_on_private_test_records_is_refused() -> None:
    federation = own(test=0.3)
    told = federation.proposed()
    with pytest.raises(RecipeError, match=r"run\.target"):
        assemble(recipe("run.target=0.9").but(public=told), federation=federation)
    public = assemble(recipe("run.target=0.9").but(public=replace(told, test=True)), federation=federation)
    assert public.federation.test_public
    assert assemble(recipe("run.target=0.9")).federation.test_public


@pytest.mark.parametrize(("owners", "aside"), [(2, 20), (4, 10), (1, 8), (40, 8)])
def test_few_owners_leave_one_of_them_for_testing(owners: int, aside: int) -> None:
    assert len(own(clients=np.arange(40) * owners // 40, test=0.2).test_x) == aside
