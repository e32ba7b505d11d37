"""Federations from a data frame, data loaders and a CSV file: the same people whichever way they come in."""

import warnings

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import sordino
from sordino.data import PartitionSettings, federate
from sordino.data.federation import Federation
from sordino.data.public import PublicCounts
from sordino.errors import DataError, SordinoError, SordinoWarning


class Frame(dict):
    """What is needed of a data frame: columns, and columns by name."""

    @property
    def columns(self):
        return list(self)


def table():
    rows = range(40)
    return Frame(
        age=[20 + k for k in rows],
        dose=[k % 5 / 5 for k in rows],
        ill=["yes" if k % 3 else "no" for k in rows],
        ward=[f"ward {k // 4}" for k in rows],
    )


def test_a_data_frame_has_its_owners_names_and_classes():
    made = sordino.Federation.from_dataframe(table(), "ill", "ward", class_names=["no", "yes"], test=0.2)
    assert made.class_names == ("no", "yes")
    assert (made.population, made.classes, made.input_shape) == (8, 2, (2,))
    assert len(made.test_y) == 8 and set(made.names) <= {f"ward {k}" for k in range(10)}
    kept = made.gather(np.array([0]))
    assert kept.y.tolist() == [int(k % 3 > 0) for k in range(40) if f"ward {k // 4}" == made.names[0]]


def test_declared_ranges_scale_and_are_not_applied_twice(tmp_path):
    ranges = {"age": (0, 120), "dose": (0, 1)}
    made = sordino.Federation.from_dataframe(
        table(), "ill", "ward", class_names=["no", "yes"], ranges=ranges, public=sordino.PublicCounts(8, 32, 2)
    )
    assert made.train_x.abs().max() <= 1
    outcome = sordino.run(federation=made, out=tmp_path / "run", run={"rounds": 1}, budget={"epsilon": 9})
    assert torch.equal(outcome.context.federation.train_x, made.train_x)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"label": "sick"}, "no column 'sick'"),
        ({"label": "ill"}, "holds names: list them in class_names"),
        ({"label": "age"}, "column 'ill' holds something that is no number"),
        ({"label": "ill", "class_names": ["no"]}, "holds 'yes', which class_names lacks"),
    ],
)
def test_a_data_frame_that_does_not_fit_is_one_sentence(options, words):
    with pytest.raises(DataError, match=words):
        sordino.Federation.from_dataframe(table(), client="ward", **options)


def test_a_csv_is_read_as_the_command_line_reads_it(tmp_path):
    rows = ["a,b,who,label", *(f"{k},{k % 5},p{k // 4},{k % 2}" for k in range(40))]
    (tmp_path / "t.csv").write_text("\n".join(rows))
    made = sordino.Federation.from_csv(tmp_path / "t.csv", client="who")
    same = federate("csv", partition=PartitionSettings("by_key"), file=tmp_path / "t.csv", client="who")
    assert torch.equal(made.train_x, same.train_x) and made.names == same.names and made.population == 8


def test_a_data_loader_a_client():
    parts = {f"clinic {k}": TensorDataset(torch.randn(5 + k, 3), torch.arange(5 + k) % 2) for k in range(3)}
    made = sordino.Federation.from_dataloaders({name: DataLoader(one, batch_size=2) for name, one in parts.items()})
    assert made.names == ("clinic 0", "clinic 1", "clinic 2") and made.sizes().tolist() == [5, 6, 7]
    assert torch.equal(made.gather(np.array([2])).x, parts["clinic 2"].tensors[0])
    shown = sordino.Federation.from_dataloaders(
        [DataLoader(one) for one in parts.values()], test=DataLoader(parts["clinic 0"])
    )
    assert len(shown.test_y) == 5 and shown.population == 3
    with pytest.raises(DataError, match="empty"):
        sordino.Federation.from_dataloaders([[]])


def test_pixels_are_treated_alike_whichever_way_they_come_in(tmp_path):
    x = np.random.default_rng(0).integers(0, 256, (20, 1, 4, 4), dtype=np.uint8)
    y = np.arange(20) % 2
    np.savez(tmp_path / "x.npz", x=x, y=y, test_x=x[:2], test_y=y[:2])
    from_file = federate("npz", file=tmp_path / "x.npz", normalise="none").train_x
    for given in (x, torch.from_numpy(x)):
        assert torch.equal(sordino.Federation.of(given, y, test=None).train_x, from_file)
    loaded = sordino.Federation.from_dataloaders([DataLoader(TensorDataset(torch.from_numpy(x), torch.from_numpy(y)))])
    assert torch.equal(loaded.train_x, from_file)


def test_nobody_stands_on_both_sides_of_the_split():
    owners = np.repeat(np.arange(30), 4)
    x = owners[:, None].astype(np.float32)
    made = sordino.Federation.of(x, owners % 2, clients=owners)
    assert not set(made.train_x[:, 0].tolist()) & set(made.test_x[:, 0].tolist())


@pytest.mark.parametrize(("scale", "ranges", "warned"), [(1000.0, None, True), (1.0, None, False), (1000.0, 1, False)])
def test_features_of_very_different_scale_are_told_of_unless_ranges_are_declared(scale, ranges, warned, tmp_path):
    x = torch.rand(100, 2) * torch.tensor([1.0, scale])
    declared = {"ranges": {"0": (0, 1), "1": (0, scale)}} if ranges else {}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        sordino.run(
            federation=sordino.Federation.of(x, (x[:, 0] > 0.5).long()),
            public={"population": 80, "records": 80, "classes": 2, **declared},
            run={"rounds": 1},
            out=tmp_path / "run",
        )
    told = [str(one.message) for one in caught if one.category is SordinoWarning]
    assert any("public.ranges" in sentence and "do not publish" in sentence for sentence in told) == warned


def test_features_that_are_made_have_no_ranges_to_declare(tmp_path):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        sordino.run(
            federation=sordino.Federation.of(x := torch.rand(100, 2), (x[:, 0] > 0.5).long()),
            public={"population": 80, "records": 80, "classes": 2},
            data={"features": "random", "feature_norm": "none"},
            run={"rounds": 1},
            out=tmp_path / "run",
        )
    assert not [one for one in caught if "public.ranges" in str(one.message)]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"clients": 2.5}, "clients must be a whole number"),
        ({"clients": [None] * 8}, "one owner for each record"),
        ({"clients": np.zeros((8, 2))}, "one owner for each record"),
        ({"clients": [1.0, 2.0, np.nan, *[3.0] * 5]}, "record 2 names no owner"),
        ({"clients": [*"abcdefg", " "]}, "record 7 names no owner"),
        ({"test": "half"}, "test is 'half'"),
        ({"test": (np.ones((2, 3)), np.ones(2, int))}, r"test records have the shapes \(3,\)"),
        ({"x": [["a", "b"]] * 8}, "inputs must be numbers"),
        ({"x": [[1.0], [2.0, 3.0]]}, "inputs must be numbers"),
        ({"x": torch.eye(8).to_sparse()}, r"sparse tensor: call to_dense\(\)"),
        ({"x": np.ones((8, 2)) + 1j}, "inputs must be real numbers"),
        ({"y": np.zeros((8, 2), int)}, "one class for each record"),
    ],
)
def test_arrays_that_cannot_be_are_told_in_a_sentence(change, sentence):
    given = {"x": np.ones((8, 2)), "y": np.arange(8) % 2, "clients": 4} | change
    with pytest.raises(DataError, match=sentence):
        sordino.Federation.of(**given)


def test_records_that_name_no_owner_are_refused_and_not_made_a_client(tmp_path):
    """Somebody holds them; as a client called "nan" they would be hidden beside their owner, not with it."""
    (tmp_path / "own.csv").write_text("x,label,who\n1,0,anna\n2,1,\n3,0,bert\n")
    with pytest.raises(DataError, match="line 3: column who is empty"):
        Federation.from_csv(tmp_path / "own.csv", client="who")
    np.savez(tmp_path / "own.npz", x=np.ones((3, 1)), y=np.array([0, 1, 0]), client=np.array(["a", "", "b"]))
    with pytest.raises(DataError, match="record 1 names no owner"):
        federate("npz", file=tmp_path / "own.npz")
    for column in (["anna", None, "bert"], ["anna", np.nan, "bert"], [1.0, np.nan, 2.0]):
        frame = Frame({"x": [1.0, 2.0, 3.0], "label": [0, 1, 0], "who": np.array(column, object)})
        with pytest.raises(DataError, match="record 1 names no owner"):
            Federation.from_dataframe(frame, "label", "who")


@pytest.mark.parametrize("change", [{"mechanism": "dp_sgd"}, {"federation": np.ones(3)}, {"model": print}])
def test_what_a_run_cannot_take_is_told_in_a_sentence(change, tmp_path):
    with pytest.raises(SordinoError, match=f"{next(iter(change))} is"):
        sordino.run(out=tmp_path / "r", **change)
    assert not (tmp_path / "r").exists()


def test_a_column_of_names_points_to_whose_records_they_are(tmp_path):
    path = tmp_path / "patients.csv"
    path.write_text("ward,age,label\nnorth,40,0\nsouth,50,1\n")
    with pytest.raises(DataError, match=r"column ward is 'north'.*data\.client says whose.*data\.drop leaves it out"):
        sordino.Federation.from_csv(path)


@pytest.mark.parametrize("how", ["arrays", "frame", "file"])
def test_declared_ranges_scale_the_records(how, tmp_path):
    """They were taken for applied and never were: the run then trained on what nobody had scaled."""
    x, y = np.array([[0.0], [50.0], [100.0], [25.0]] * 3), np.array([0, 1, 0, 1] * 3)
    public = PublicCounts(ranges={"*": (0.0, 100.0)})
    if how == "arrays":
        made = Federation.of(x, y, test=None, public=public)
    elif how == "frame":
        pandas = pytest.importorskip("pandas")
        made = Federation.from_dataframe(pandas.DataFrame({"age": x[:, 0], "y": y}), "y", test=None, public=public)
    else:
        lines = "\n".join(f"{age:g},{label}" for age, label in zip(x[:, 0], y, strict=True))
        (tmp_path / "people.csv").write_text("age,label\n" + lines + "\n")
        made = Federation.from_csv(tmp_path / "people.csv", test=0.0, public=public)
    assert sorted(set(made.train_x[:, 0].tolist())) == [-1.0, -0.5, 0.0, 1.0]
    assert made.declared.ranges == {"*": (0.0, 100.0)}


def test_data_loaders_of_different_shapes_are_named():
    loaders = {"anna": [(torch.ones(4, 5), torch.zeros(4).long())], "bert": [(torch.ones(4, 3), torch.zeros(4).long())]}
    with pytest.raises(DataError, match=r"of bert yields records of shape \(3,\).* that of anna \(5,\)"):
        sordino.Federation.from_dataloaders(loaders)
    with pytest.raises(DataError, match="of 0, batch 1 yields records of shape"):
        sordino.Federation.from_dataloaders([[*loaders["anna"], *loaders["bert"]]])


@pytest.mark.parametrize(
    "batches",
    [
        DataLoader(TensorDataset(torch.randn(8, 5), torch.randn(8, 3), torch.zeros(8).long()), batch_size=4),
        [{"x": torch.randn(8, 5), "y": torch.zeros(8).long()}],
        TensorDataset(torch.randn(8, 5), torch.zeros(8).long()),
        ["ab"],
    ],
    ids=["three tensors", "mappings", "a data set", "words"],
)
def test_what_is_no_pair_of_tensors_is_one_sentence(batches):
    with pytest.raises(DataError, match=r"data loader of '0' must yield pairs \(inputs, labels\)"):
        sordino.Federation.from_dataloaders([batches])
