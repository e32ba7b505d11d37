"""Federations: what is gathered is what is held, and bad data is refused by name and place."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
import torch

from sordino.data import NORMALISE, Federation, PartitionSettings, federate, load
from sordino.data.disjoint import iid
from sordino.data.public import PublicCounts
from sordino.errors import DataError


def small(**changes: object) -> Federation:
    fields: dict[str, object] = {
        "name": "made",
        "train_x": torch.arange(12.0).view(6, 2),
        "train_y": torch.tensor([0, 1, 2, 0, 1, 2]),
        "test_x": torch.zeros(2, 2),
        "test_y": torch.tensor([0, 1]),
        "classes": 3,
        "partition": iid(6, 3, seed=0),
    }
    return Federation(**{**fields, **changes})  # type: ignore[arg-type]


def test_gather_returns_each_clients_own_records() -> None:
    federation = small()
    data = federation.gather(np.array([2, 0]))
    assert data.sizes.tolist() == federation.sizes(np.array([2, 0])).tolist() == [2, 2]
    for k, client in enumerate([2, 0]):
        _, records = federation.partition.indices(np.array([client]))
        mine = slice(data.offsets[k], data.offsets[k + 1])
        assert torch.equal(data.x[mine], federation.train_x[records])
        assert torch.equal(data.y[mine], federation.train_y[records])
    assert federation.sizes().sum() == 6 and federation.population == 3 and federation.input_shape == (2,)


def test_an_empty_cohort_is_no_error() -> None:
    data = small().gather(np.array([], np.int64))
    assert len(data.x) == 0 and data.offsets.tolist() == [0]


@pytest.mark.parametrize("clients", [[3], [-1]])
def test_a_stranger_in_the_cohort_is_refused(clients: list[int]) -> None:
    with pytest.raises(DataError, match="outside 0 … 2"):
        small().gather(np.array(clients))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("part", ["train", "test"])
def test_values_that_are_not_finite_are_named(value: float, part: str) -> None:
    x = torch.zeros(6 if part == "train" else 2, 2)
    x[1, 1] = value
    with pytest.raises(DataError, match=rf"made \({part}\): record 1, feature 1 is"):
        small(**{f"{part}_x": x})


def test_finite_but_huge_values_pass() -> None:
    assert small(train_x=torch.full((6, 2), 3e38)).population == 3


def test_nan_is_found_deep_inside() -> None:
    x = torch.zeros(20_000, 3)
    x[19_000, 2] = float("nan")
    with pytest.raises(DataError, match="record 19000, feature 2 is nan"):
        Federation.of(x, torch.zeros(20_000, dtype=torch.int64), test=None)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"train_y": torch.tensor([0, 1, 2, 0, 1, 3])}, "record 5 has label 3"),
        ({"train_y": torch.tensor([0, 1, 2, 0, 1, -1])}, "record 5 has label -1"),
        ({"train_y": torch.tensor([0, 1])}, "6 inputs but 2 labels"),
        ({"train_y": torch.zeros(6)}, "classes=0 for regression"),
        ({"train_x": torch.zeros(0, 2), "train_y": torch.zeros(0, dtype=torch.int64)}, "no training records"),
    ],
)
def test_labels_that_do_not_fit_are_refused(changes: dict[str, object], sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        small(**changes)


def test_of_makes_every_record_a_client_by_default() -> None:
    federation = Federation.of(np.random.default_rng(0).normal(size=(50, 3)), np.arange(50) % 4)
    assert (federation.population, len(federation.test_y), federation.classes) == (40, 10, 4)
    assert federation.train_x.dtype == torch.float32 and federation.train_y.dtype == torch.int64
    held = torch.cat([federation.train_x, federation.test_x])
    assert len(torch.unique(held, dim=0)) == 50


def test_of_takes_owners_counts_and_test_sets() -> None:
    x, y = torch.arange(30.0).view(30, 1), torch.arange(30) % 2
    owners = np.array(["ann", "bob", "eve"]).repeat(10)
    federation = Federation.of(x, y, clients=owners, test=None)
    assert federation.population == 3 and len(federation.test_x) == 0
    assert federation.gather(np.array([1])).x.flatten().tolist() == list(range(10, 20))
    assert Federation.of(x, y, clients=np.int64(7), test=(x[:4], y[:4])).population == 7
    split = Federation.of(x, y, clients=owners, test=0.5)
    assert {len(torch.unique(side // 10)) for side in (split.train_x, split.test_x)} == {1, 2}
    assert not set((split.train_x // 10).flatten().tolist()) & set((split.test_x // 10).flatten().tolist())


def test_of_keeps_floats_as_regression_targets() -> None:
    federation = Federation.of(np.zeros((10, 2)), np.linspace(0, 1, 10))
    assert federation.classes == 0 and federation.train_y.dtype == torch.float32
    assert Federation.of(np.zeros((10, 2)), np.arange(10), classes=0).train_y.dtype == torch.float32


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"clients": 0}, "at least one client"),
        ({"clients": 99}, "only 8 training records"),
        ({"clients": ["a"] * 3}, "3 owners for 10 records"),
        ({"test": 1.0}, "test is 1.0"),
        ({"y": np.zeros(9, int)}, "10 inputs but 9 labels"),
        ({"y": np.array(["cat"] * 10)}, "labels must be numbers"),
    ],
)
def test_of_refuses_what_does_not_fit(arguments: dict[str, object], sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        Federation.of(**{"x": np.zeros((10, 2)), "y": np.zeros(10, int), **arguments})  # type: ignore[arg-type]


def test_digits_are_split_once_and_for_all() -> None:
    from sklearn.datasets import load_digits

    records, again = load("digits"), load("digits")
    assert records.train_x.shape == (1437, 1, 8, 8) and records.test_x.shape == (360, 1, 8, 8)
    assert torch.equal(records.train_x, again.train_x)
    assert records.train_x.min() == 0 and records.train_x.max() == 1
    ours = torch.cat([records.train_x, records.test_x]).flatten(1) * 16
    theirs = torch.from_numpy(load_digits().data).float()
    assert torch.equal(ours[np.lexsort(ours.T.numpy())], theirs[np.lexsort(theirs.T.numpy())])
    assert np.bincount(records.test_y).min() > 25


def test_federate_defaults_to_one_image_a_person() -> None:
    federation = federate()
    assert (federation.population, federation.classes, federation.input_shape) == (1437, 10, (1, 8, 8))
    assert (federation.sizes() == 1).all() and federation.public_x is None


def test_federate_depends_on_the_seed_but_not_its_test_set() -> None:
    settings = PartitionSettings("dirichlet", clients=20, alpha=0.3)
    one, same, other = (federate(partition=settings, seed=seed) for seed in (1, 1, 2))
    everybody = np.arange(20)
    assert torch.equal(one.gather(everybody).x, same.gather(everybody).x)
    assert not torch.equal(one.gather(everybody).y, other.gather(everybody).y)
    assert torch.equal(one.test_x, other.test_x)


def test_public_records_are_nobodys() -> None:
    federation = federate(public_fraction=0.1, normalise="none")
    assert federation.public_x is not None and federation.public_y is not None
    assert len(federation.public_x) == 144 and federation.population == 1437 - 144
    private = {row.numpy().tobytes() for row in federation.gather(np.arange(federation.population)).x}
    public = {row.numpy().tobytes() for row in federation.public_x}
    assert len(private) + len(public) == 1437 and not private & public


@pytest.mark.parametrize(
    "fields", [{"name": "digit"}, {"normalise": "zscore"}, {"public_fraction": 1.0}, {"file": "x"}]
)
def test_federate_names_the_field_that_is_wrong(fields: dict[str, object]) -> None:
    with pytest.raises(DataError, match=f"data.{next(iter(fields))}"):
        federate(**fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", NORMALISE)
def test_normalisation_treats_each_record_alone(name: str) -> None:
    x = torch.rand(5, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    together, alone = NORMALISE[name](x), torch.cat([NORMALISE[name](record[None]) for record in x])
    assert torch.equal(together, alone) and together.shape == x.shape


def test_normalisations_do_what_they_say() -> None:
    x = torch.rand(5, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    standard = NORMALISE["standard"](x).flatten(1)
    assert torch.allclose(standard.mean(1), torch.zeros(5), atol=1e-5)
    assert torch.allclose(standard.std(1, correction=0), torch.ones(5), atol=1e-4)
    assert torch.allclose(NORMALISE["unit"](x).flatten(1).norm(dim=1), torch.ones(5))
    assert torch.equal(NORMALISE["centre"](x), 2 * x - 1)
    assert torch.equal(NORMALISE["auto"](x), NORMALISE["standard"](x))
    table = x.flatten(1)
    assert torch.equal(NORMALISE["auto"](table), table) and torch.equal(NORMALISE["none"](x), x)
    for name in ("standard", "unit"):
        assert torch.equal(NORMALISE[name](torch.zeros(2, 3)), torch.zeros(2, 3))


X, Y = np.random.default_rng(0).normal(size=(20, 3)), np.arange(20) % 2


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"x": X[:, :0]}, "a record must hold one number at least"),
        ({"x": X[:0], "y": Y[:0]}, "there are no training records"),
        ({"x": torch.empty(20, 3, device="meta")}, "meta device"),
        ({"x": scipy.sparse.csr_array(X)}, "sparse matrix: call toarray"),
        ({"x": np.ma.masked_array(X, mask=X > 1)}, "masked values"),
        ({"y": Y * 10**9}, "makes 1000000001 classes of fewer records"),
        ({"y": np.where(np.arange(20) == 13, np.nan, Y)}, "target: record 13, feature 0 is nan"),
        ({"y": np.where(np.arange(20) == 13, 7, Y), "classes": 2}, "record 13 has label 7"),
        ({"clients": True}, "clients must be a whole number"),
        ({"test": X}, "test is array.*give a share, a pair"),
        ({"test": 1}, "test is 1: give a share"),
        ({"test": True}, "test is True: give a share"),
        *(({"classes": wrong}, "give how many there are") for wrong in (1, -1, True, "2", 2.5, float("nan"))),
        ({"public": {"people": 3}}, "public has no 'people': it takes population, records"),
        ({"public": "yes"}, "public has no 'yes'"),
    ],
)
def test_odd_arguments_are_one_sentence(given: dict[str, object], said: str) -> None:
    with pytest.raises(DataError, match=said):
        Federation.of(**{"x": X, "y": Y, **given})  # type: ignore[arg-type]


def test_what_can_only_mean_one_thing_is_taken() -> None:
    usual = Federation.of(X, Y, public=PublicCounts(records=16))
    fixed = X.copy()
    fixed.flags.writeable = False
    for same in (
        Federation.of(torch.tensor(X, requires_grad=True), Y),
        Federation.of(X.astype(">f8"), Y),
        Federation.of(fixed, Y),
        Federation.of(X[::-1][::-1], Y),
        Federation.of(X, Y[:, None]),
        Federation.of(X, Y.astype(float), classes=2),
        Federation.of(X, Y, classes=2.0),  # type: ignore[arg-type]
        Federation.of(X, Y, public={"records": 16}),
    ):
        assert torch.equal(same.train_x, usual.train_x) and torch.equal(same.train_y, usual.train_y)
        assert same.classes == 2
    assert Federation.of(X, Y, public={"records": 16}).declared == usual.declared
    pair = Federation.of(X, Y, test=[X[:4], Y[:4]])  # type: ignore[arg-type]
    assert (len(pair.train_y), len(pair.test_y)) == (20, 4)


def test_records_of_one_class_have_two() -> None:
    """A model with one output was right on any share of them, by the sign of that output."""
    assert Federation.of(X, Y * 0).classes == 2


def test_whole_numbers_to_predict_may_be_declared_later() -> None:
    made = Federation.of(X, Y)
    told = made.declare(PublicCounts(20, 16, 0))
    assert told.classes == 0 and told.train_y.dtype == told.test_y.dtype == torch.float32
    assert torch.equal(told.train_y, Federation.of(X, Y, classes=0).train_y)
    with pytest.raises(DataError, match="classes is 1"):
        made.declare(PublicCounts(20, 16, 1))


def test_a_federation_shows_no_record() -> None:
    shown = repr(Federation.of(X, Y, clients=4, name="ward"))
    assert shown == "<Federation 'ward': 4 clients, 16 training records of shape (3,), 2 classes, 4 test records>"
    assert "numbers to predict" in repr(Federation.of(X, Y.astype(float)))
