"""Loaders on small made files: what they return, and how they complain."""

from __future__ import annotations

import gzip
import json
import pickle
import struct
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest
import torch

from sordino.data import Records, federate, load
from sordino.data.loaders.idx import read_idx
from sordino.data.settings import PartitionSettings
from sordino.errors import DataError

RNG = np.random.default_rng(0)


def write_idx(path: Path, array: np.ndarray, zipped: bool = False) -> None:
    code = {"uint8": 8, "int32": 0x0C}[array.dtype.name]
    header = bytes([0, 0, code, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    data = header + array.astype(array.dtype.newbyteorder(">")).tobytes()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(data) if zipped else data)


def write_mnist(folder: Path, zipped: bool, dotted: bool = False) -> dict[str, np.ndarray]:
    arrays = {}
    for part, count in (("train", 12), ("t10k", 5)):
        for what, shape, kind in (("images", (count, 28, 28), "idx3"), ("labels", (count,), "idx1")):
            array = RNG.integers(0, 256 if what == "images" else 10, shape).astype(np.uint8)
            name = f"{part}-{what}{'.' if dotted else '-'}{kind}-ubyte" + (".gz" if zipped else "")
            write_idx(folder / name, array, zipped)
            arrays[f"{part}-{what}"] = array
    return arrays


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("mnist", "mnist"),
        ("mnist", "MNIST/raw"),
        ("fashion-mnist", "fashion-mnist"),
        ("fashion-mnist", "FashionMNIST/raw"),
    ],
)
@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("dotted", [False, True])
def test_idx_images_are_read_from_where_people_have_them(
    tmp_path: Path, name: str, place: str, zipped: bool, dotted: bool
) -> None:
    arrays = write_mnist(tmp_path / place, zipped, dotted)
    records = load(name, tmp_path)
    assert torch.equal(
        (records.train_x * 255).round().to(torch.uint8).squeeze(1), torch.from_numpy(arrays["train-images"])
    )
    assert records.train_y.tolist() == arrays["train-labels"].tolist()
    assert records.test_x.shape == (5, 1, 28, 28) and records.test_x.dtype == torch.float32
    assert records.test_y.tolist() == arrays["t10k-labels"].tolist()


def test_the_folder_may_be_the_data_sets_own(tmp_path: Path) -> None:
    write_mnist(tmp_path / "mnist", zipped=True)
    assert len(load("mnist", tmp_path / "mnist").train_y) == 12
    with pytest.raises(DataError, match="'fashion-mnist' is not in"):
        load("fashion-mnist", tmp_path / "mnist")


def test_the_folder_may_come_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_mnist(tmp_path / "mnist", zipped=True)
    monkeypatch.setenv("SORDINO_DATA", str(tmp_path))
    assert len(load("mnist").train_y) == 12


def test_idx_files_that_are_damaged_are_refused(tmp_path: Path) -> None:
    write_idx(tmp_path / "a", np.zeros((3, 4), np.uint8), zipped=True)
    whole = (tmp_path / "a").read_bytes()
    plain = gzip.decompress(whole)
    for data, sentence in [
        (whole[:-12], "damaged gzip"),
        (plain[:-1], "promises"),
        (plain + b"\0", "promises"),
        (plain[:6], "header"),
        (b"GIF89a", "not an IDX file"),
        (b"", "not an IDX file"),
    ]:
        (tmp_path / "b").write_bytes(data)
        with pytest.raises(DataError, match=sentence):
            read_idx(tmp_path / "b")


def test_a_missing_idx_file_is_named(tmp_path: Path) -> None:
    write_mnist(tmp_path / "mnist", zipped=False)
    (tmp_path / "mnist" / "t10k-labels-idx1-ubyte").unlink()
    with pytest.raises(DataError, match="lacks t10k-labels-idx1-ubyte"):
        load("mnist", tmp_path)


def test_writers_own_their_images(tmp_path: Path) -> None:
    arrays = write_mnist(tmp_path / "mnist", zipped=True)
    extended = np.zeros((12, 8), np.int32)
    extended[:, 0], extended[:, 2] = arrays["train-labels"], np.arange(12) % 3 + 100
    path = tmp_path / "mnist-writers" / "qmnist-train-labels-idx2-int.gz"
    write_idx(path, extended, zipped=True)
    federation = federate("mnist-writers", tmp_path, PartitionSettings("by_key"))
    assert federation.population == 3 and federation.partition.names == ("100", "101", "102")  # type: ignore[attr-defined]
    extended[0, 0] += 1
    write_idx(path, extended, zipped=True)
    with pytest.raises(DataError, match="their labels differ"):
        load("mnist-writers", tmp_path)
    write_idx(path, extended[:5], zipped=True)
    with pytest.raises(DataError, match="a row of extended labels for each"):
        load("mnist-writers", tmp_path)


def cifar_batches() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    names = [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]
    return {
        name: (RNG.integers(0, 256, (4, 3, 32, 32)).astype(np.uint8), RNG.integers(0, 10, 4).astype(np.uint8))
        for name in names
    }


def write_binary(folder: Path, batches: dict[str, tuple[np.ndarray, np.ndarray]]) -> None:
    for name, (x, y) in batches.items():
        (folder / f"{name}.bin").write_bytes(np.concatenate([y[:, None], x.reshape(4, -1)], 1).tobytes())


def write_python(folder: Path, batches: dict[str, tuple[np.ndarray, np.ndarray]]) -> None:
    for name, (x, y) in batches.items():
        table = {b"data": x.reshape(4, -1), b"labels": y.tolist(), b"filenames": [b"a.png"] * 4}
        (folder / name).write_bytes(pickle.dumps(table, protocol=2))


def write_compact(folder: Path, batches: dict[str, tuple[np.ndarray, np.ndarray]]) -> None:
    for name, (x, y) in batches.items():
        planes = x.transpose(1, 0, 2, 3).copy()
        planes[0] -= planes[1]
        planes[2] -= planes[1]
        delta = np.diff(np.diff(planes, axis=3, prepend=np.uint8(0)), axis=2, prepend=np.uint8(0))
        np.savez_compressed(folder / f"{name}.npz", delta=delta, labels=y)


@pytest.mark.parametrize(
    ("place", "write"),
    [("cifar-10-batches-bin", write_binary), ("cifar-10-batches-py", write_python), ("cifar10", write_compact)],
)
def test_cifar_is_the_same_in_all_its_forms(tmp_path: Path, place: str, write: object) -> None:
    batches = cifar_batches()
    (tmp_path / place).mkdir()
    write(tmp_path / place, batches)  # type: ignore[operator]
    records = load("cifar10", tmp_path)
    train = np.concatenate([batches[f"data_batch_{i}"][0] for i in range(1, 6)])
    assert records.train_x.is_contiguous() and records.train_x.shape == (20, 3, 32, 32)
    assert np.array_equal((records.train_x * 255).round().numpy().astype(np.uint8), train)
    assert records.test_y.tolist() == batches["test_batch"][1].tolist()


class Villain:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        import os

        return os.system, ("echo harm > harmed",)


@pytest.mark.parametrize("villain", [Villain(), {b"data": np.array([Villain()], object), b"labels": [1]}])
def test_a_pickle_that_would_run_code_is_refused(
    tmp_path: Path, villain: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    write_python(folder, cifar_batches())
    (folder / "data_batch_3").write_bytes(pickle.dumps(villain))
    with pytest.raises(DataError, match=r"data_batch_3 is not a CIFAR-10 batch .*system"):
        load("cifar10", tmp_path)
    assert not (tmp_path / "harmed").exists()


@pytest.mark.parametrize(
    ("name", "data"), [("data_batch_2.bin", b"123"), ("data_batch_2", b"123"), ("data_batch_2.npz", b"123")]
)
def test_damaged_cifar_batches_are_named(tmp_path: Path, name: str, data: bytes) -> None:
    folder = tmp_path / "cifar10"
    folder.mkdir()
    write_binary(folder, {"data_batch_1": cifar_batches()["data_batch_1"]})
    with pytest.raises(DataError, match="lacks data_batch_2"):
        load("cifar10", tmp_path)
    (folder / name).write_bytes(data)
    with pytest.raises(DataError, match=name):
        load("cifar10", tmp_path)


ADULT = (
    "39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, 99999, 0, 40, "
    "Cuba, <=50K"
)


def write_adult(folder: Path, *lines: str) -> None:
    (folder / "adult").mkdir(exist_ok=True)
    (folder / "adult" / "adult.data").write_text("\n".join([*lines, ADULT, ""]) + "\n")
    (folder / "adult" / "adult.test").write_text(f"|1x3 Cross validator\n{ADULT.replace('<=', '>')}.\n")


def test_adult_has_a_public_encoding(tmp_path: Path) -> None:
    write_adult(tmp_path, ADULT.replace("State-gov", "?"))
    records = load("adult", tmp_path)
    assert records.train_x.shape == (2, 104) and records.train_y.tolist() == [0, 0] and records.test_y.tolist() == [1]
    unknown, known = records.train_x
    assert known[:5].tolist() == pytest.approx([(39 - 17) / 73, 13 / 16, 1.0, 0.0, 40 / 99])
    assert known[5:].sum() == 8 and unknown[5:].sum() == 7
    assert set(known[5:].tolist()) == {0.0, 1.0}
    # workclass is the first attribute and State-gov its sixth value; the country is the last, Cuba its thirteenth.
    assert known[5 + 5] == 1 and unknown[5 + 5] == 0
    assert known[104 - 41 + 12] == 1


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (ADULT.replace("39,", "old,"), r"adult.data, line 1: column age is 'old'"),
        (ADULT.replace("39,", "nan,"), r"adult.data, line 1: column age is nan"),
        (ADULT.replace("Cuba", "Atlantis"), "column native-country is 'Atlantis'"),
        (ADULT.replace("<=50K", "rich"), "column income is 'rich'"),
        ("1, 2, 3", "line 1 has 3 columns where 15"),
    ],
)
def test_adult_complains_by_line_and_column(tmp_path: Path, line: str, sentence: str) -> None:
    write_adult(tmp_path, line)
    with pytest.raises(DataError, match=sentence):
        load("adult", tmp_path)


HEART = "63.0,1.0,1.0,150.0,300.0,1.0,2.0,165.0,0.0,2.0,3.0,0.0,6.0,{}"


def write_heart(folder: Path) -> None:
    (folder / "heart-disease").mkdir()
    for i, hospital in enumerate(("cleveland", "hungarian", "switzerland", "va")):
        lines = [HEART.format(k % 5) for k in range(10 + i)]
        lines += [HEART.format(1).replace("300.0", "?"), HEART.format(0).replace("6.0", "?")]
        (folder / "heart-disease" / f"processed.{hospital}.data").write_text("\n".join(lines) + "\n")


def test_heart_disease_keeps_hospitals_apart(tmp_path: Path) -> None:
    write_heart(tmp_path)
    records = load("heart-disease", tmp_path)
    # A patient without cholesterol is dropped; one without thal is not, since that column is.
    sizes = [11, 12, 13, 14]
    tested = [int(np.ceil(0.34 * n)) for n in sizes]
    assert len(records.test_y) == sum(tested)
    names, counts = np.unique(records.owners, return_counts=True)  # type: ignore[arg-type]
    assert names.tolist() == ["cleveland", "hungarian", "switzerland", "va"]
    assert counts.tolist() == [n - t for n, t in zip(sizes, tested, strict=True)]
    expected = [1.3, 1.0, 1.0, 1.0, 1.0, 1, 1, 0, 1, 0, 0, 0, 0, 0, 1]
    assert torch.allclose(records.train_x, torch.tensor(expected).expand_as(records.train_x))
    assert set(records.train_y.tolist()) == {0, 1}
    path = tmp_path / "heart-disease" / "processed.va.data"
    path.write_text(HEART.format(0).replace("63.0,1.0,1.0", "63.0,1.0,9.0"))
    with pytest.raises(DataError, match=r"processed.va.data, line 1: column cp is 9.0"):
        load("heart-disease", tmp_path)


def write_leaf(folder: Path, part: str, users: dict[str, int], broken: object = None) -> None:
    (folder / part).mkdir(parents=True, exist_ok=True)
    data = {user: {"x": RNG.random((n, 784)).tolist(), "y": [i % 62 for i in range(n)]} for user, n in users.items()}
    if broken is not None:
        data["bad"] = broken  # type: ignore[assignment]
    table = {"users": list(data), "num_samples": [len(u["y"]) for u in data.values()], "user_data": data}
    (folder / part / f"all_data_{len(users)}.json").write_text(json.dumps(table))


@pytest.mark.parametrize("place", ["femnist", "femnist/data"])
def test_leaf_users_own_their_records(tmp_path: Path, place: str) -> None:
    write_leaf(tmp_path / place, "train", {"f01": 3, "f02": 5})
    write_leaf(tmp_path / place, "train", {"f03": 2})
    write_leaf(tmp_path / place, "test", {"f01": 1})
    federation = federate("femnist", tmp_path, PartitionSettings("by_key"), normalise="none")
    assert federation.input_shape == (1, 28, 28) and federation.classes == 62
    assert federation.sizes().tolist() == [3, 5, 2] and len(federation.test_y) == 1


@pytest.mark.parametrize(
    ("broken", "sentence"),
    [
        ({"x": ["to be"], "y": [1]}, "user bad has records that are not lists of numbers"),
        ({"x": [[1.0] * 784], "y": [1, 2]}, "user bad has 1 inputs and 2 labels"),
        ({"x": [[float("nan")] * 784], "y": [1]}, "user bad, record 0 is not finite"),
        ({"y": [1]}, "is not LEAF json"),
    ],
)
def test_leaf_complains_by_file_and_user(tmp_path: Path, broken: object, sentence: str) -> None:
    write_leaf(tmp_path / "femnist", "train", {"f01": 3}, broken)
    write_leaf(tmp_path / "femnist", "test", {"f01": 1})
    with pytest.raises(DataError, match=sentence):
        load("femnist", tmp_path)


def test_leaf_needs_a_test_folder(tmp_path: Path) -> None:
    write_leaf(tmp_path / "leaf", "train", {"u": 3})
    with pytest.raises(DataError, match=r"test has no \.json files"):
        load("leaf", tmp_path)
    (tmp_path / "leaf" / "train" / "all_data_1.json").write_text("{")
    with pytest.raises(DataError, match="is not LEAF json"):
        load("leaf", tmp_path)


def test_wisdm_reads_rows_after_the_header(tmp_path: Path) -> None:
    row = ",".join(["7", "{user}", *["0.1"] * 30, "0", "8.4", "1.7", "2000", "?", "1500", *["5"] * 7, "{activity}"])
    lines = [
        row.format(user=u, activity=a)
        for u in (3, 4)
        for a in ("Walking", "Sitting", "Jogging", "Standing", "Upstairs")
    ]
    (tmp_path / "wisdm").mkdir()
    path = tmp_path / "wisdm" / "WISDM_ar_v1.1_transformed.arff"
    path.write_text('@relation r\n@attribute "UNIQUE_ID" numeric\n@data\n' + "\n".join(lines) + "\n")
    records = load("wisdm", tmp_path)
    assert records.train_x.shape == (5, 43) and len(records.test_y) == 5
    assert len(set(records.owners.tolist())) == 1, "nobody stands on both sides"  # type: ignore[union-attr]
    assert records.train_x[0, [0, 31, 33, 34, 42]].tolist() == pytest.approx([0.1, 0.84, 0.4, 0.0, 0.5])
    path.write_text("@data\n" + row.format(user=3, activity="Flying"))
    with pytest.raises(DataError, match="column class is 'Flying'"):
        load("wisdm", tmp_path)


def own(tmp_path: Path, text: str, **options: object) -> Records:
    (tmp_path / "mine.csv").write_text(text)
    return load("csv", tmp_path, file="mine.csv", **options)


def test_csv_columns_have_their_roles(tmp_path: Path) -> None:
    lines = "\n".join(f"{i},{i / 10},{'abcd'[i % 4]},{i % 3},x" for i in range(20))
    records = own(tmp_path, "id,a,who,label,note\n" + lines, client="who", drop=["note", "id"], test=0.25)
    assert records.columns == ("a",)
    assert records.train_x.shape == (15, 1) and len(records.test_y) == 5 and records.classes == 3
    for x, y, owner in zip(records.train_x[:, 0], records.train_y, records.owners, strict=True):  # type: ignore[arg-type]
        i = round(float(x) * 10)
        assert (int(y), owner) == (i % 3, "abcd"[i % 4])


def test_csv_targets_may_be_names_or_numbers(tmp_path: Path) -> None:
    named = own(tmp_path, "a,kind\n1,yes\n2,no\n", label="kind", class_names=["no", "yes"], test=0.0)
    assert named.train_y.tolist() == [1, 0] and named.classes == 2
    regression = own(tmp_path, "a,label\n1,0.5\n2,3\n", test=0.0)
    assert regression.classes == 0 and regression.train_y.tolist() == [0.5, 3.0]
    asked = own(tmp_path, "a,label\n1,1\n2,3\n", test=0.0, classes=0)
    assert asked.classes == 0 and asked.train_y.dtype == torch.float32


@pytest.mark.parametrize(
    ("text", "options", "sentence"),
    [
        ("a,label\n1,0\nx,1\n", {}, r"mine.csv, line 3: column a is 'x'"),
        ("a,label\n1,0\n,1\n", {}, r"line 3: column a is empty"),
        ("a,label\n1,0\nnan,1\n", {}, r"line 3: column a is empty"),
        ("a,label\n1,0\ninf,1\n", {}, r"line 3: column a is 'inf'"),
        ("a,label\n1,0\n2\n", {}, "line 3 has 1 column where 2 are expected\\."),
        ("a,b\n1,0\n", {}, "no column 'label' in its first line, which names a, b"),
        ("a,label\n1,0\n", {"client": "who"}, "no column 'who'"),
        (
            "a,label\n1,0.5\n",
            {"classes": 2},
            "labels that are not 0 … 1, such as 0.5: .* public.classes = 0 if a number",
        ),
        ("a,label\n1,1\n1,2\n", {"classes": 2}, r"such as 2: .*class_names = \[\"1\", \"2\"\] where they begin at 1"),
        ("a,label\n1,0\n1,2\n", {"classes": 2}, "such as 2: list them in data.class_names, declare more"),
        ("a,label\n1,\n", {}, "line 2: column label is empty: fill in"),
        ("a,label\n1,NA\n", {}, "line 2: column label is empty: fill in"),
        ("a,label\n1,0\n", {"client": "label"}, "data.label and data.client both name the column 'label'"),
        (
            'a,label\n1,0\n\n"2,0\n3,0\n',
            {},
            r'line 4 has 1 column where .*: a quote \("\) opens there and goes on to line 5',
        ),
        ("a,label\n1,maybe\n", {"class_names": ["no", "yes"]}, "column label is 'maybe'"),
        ("label\n1\n", {}, "0 feature columns"),
        ("a,label\n", {}, "0 records"),
        ("", {}, "is empty"),
        ("a,label\n1,0\n", {"colour": 1}, "data.colour is set, but 'csv' has no such option"),
        ("a,label\n1,0\n", {"test": 2.0}, r"data.test is 2.0"),
    ],
)
def test_csv_complains_in_one_sentence(tmp_path: Path, text: str, options: dict[str, object], sentence: str) -> None:
    with pytest.raises(DataError, match=sentence) as error:
        own(tmp_path, text, **options)
    assert "\n" not in str(error.value)


def test_own_files_must_be_named_and_exist(tmp_path: Path) -> None:
    for name in ("csv", "npz"):
        with pytest.raises(DataError, match=r"data\.file is missing"):
            load(name, tmp_path)
        with pytest.raises(DataError, match=r"nowhere is missing.*data\.file"):
            load(name, tmp_path, file="nowhere")


def test_own_files_are_looked_for_here_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder" / "mine.csv").write_text("a,label\n1,0\n")
    assert load("csv", tmp_path / "folder", file="mine.csv", test=0.0).train_x.tolist() == [[1.0]]
    (tmp_path / "mine.csv").write_text("a,label\n2,0\n")
    assert load("csv", tmp_path / "folder", file="mine.csv", test=0.0).train_x.tolist() == [[2.0]]


def test_npz_arrays_have_their_roles(tmp_path: Path) -> None:
    x, y = RNG.integers(0, 256, (10, 1, 4, 4)).astype(np.uint8), np.arange(10) % 3
    np.savez(tmp_path / "a.npz", x=x, y=y, client=np.arange(10) % 2, test_x=x[:2], test_y=y[:2])
    records = load("npz", tmp_path, file="a.npz")
    assert torch.equal((records.train_x * 255).round(), torch.from_numpy(x).float())
    assert records.classes == 3 and len(records.test_y) == 2 and records.owners.tolist() == [0, 1] * 5  # type: ignore[union-attr]
    np.savez(tmp_path / "b.npz", x=x.astype(float), y=y / 2, client=np.arange(10))
    records = load("npz", tmp_path, file="b.npz")
    assert records.classes == 0 and len(records.test_y) == 2 and len(records.owners) == 8  # type: ignore[arg-type]
    assert records.train_x.max() > 1  # only bytes are taken for pixels


@pytest.mark.parametrize(
    ("arrays", "sentence"),
    [
        ({"x": np.zeros((3, 2))}, "lacks the array 'y'; it has x"),
        ({"x": np.zeros((3, 2)), "y": np.zeros(2, int)}, "as many rows"),
        ({"x": np.zeros((3, 2)), "y": np.zeros(3, int), "client": np.zeros(2)}, "as many rows"),
        ({"x": np.array([[0, 1], [np.nan, 0]]), "y": np.zeros(2, int)}, r"bad.npz, x: record 1, feature 0 is nan"),
        ({"x": np.zeros((2, 2)), "y": np.array([0, np.inf])}, r"bad.npz, y: record 1, feature 0 is inf"),
        ({"x": np.zeros((2, 2)), "y": np.zeros(2, int), "test_x": np.zeros((1, 2))}, "lacks the array 'test_y'"),
        ({"x": np.array([{}, {}], object), "y": np.zeros(2, int)}, "plain arrays"),
        ({"x": np.full((2, 2), 1j), "y": np.zeros(2, int)}, "complex numbers: give real ones"),
    ],
)
def test_npz_complains_by_array(tmp_path: Path, arrays: dict[str, np.ndarray], sentence: str) -> None:
    np.savez(tmp_path / "bad.npz", **arrays)  # type: ignore[arg-type]
    with pytest.raises(DataError, match=sentence):
        load("npz", tmp_path, file="bad.npz")


def test_a_file_that_is_no_npz_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bad.npz").write_bytes(b"hello")
    with pytest.raises(DataError, match=r"numpy\.savez"):
        load("npz", tmp_path, file="bad.npz")


@pytest.mark.parametrize(
    "name",
    ["mnist", "fashion-mnist", "mnist-writers", "cifar10", "adult", "heart-disease", "femnist", "femnist-digits"],
)
def test_missing_data_says_how_to_get_it(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataError, match=rf"data '{name}' is not in .*: (put|unpack|run) .*SORDINO_DATA"):
        load(name, tmp_path)


def test_digits_are_what_is_left_of_leafs_characters(tmp_path: Path) -> None:
    write_leaf(tmp_path / "femnist", "train", {"f01": 12, "f02": 3})
    write_leaf(tmp_path / "femnist", "test", {"f01": 11})
    every = federate("femnist", tmp_path, PartitionSettings("by_key"), normalise="none")
    digits = federate("femnist-digits", tmp_path, PartitionSettings("by_key"), normalise="none")
    assert digits.classes == 10 and digits.sizes().tolist() == [10, 3] and len(digits.test_y) == 10
    assert torch.allclose(digits.train_x[:10], 1 - every.train_x[:10])


class Hdf5:
    """Stands in for h5py: a file is a dictionary."""

    files: ClassVar[dict[str, dict[str, object]]] = {}

    def __init__(self, path: Path, mode: str) -> None:
        self.path = path

    def __enter__(self) -> dict[str, object]:
        return self.files[self.path.name]

    def __exit__(self, *_: object) -> None:
        pass


def test_googles_digits_keep_their_writers_and_are_turned_to_ink_on_paper(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def written(n: int) -> dict[str, np.ndarray]:
        return {"pixels": np.full((n, 28, 28), 0.75, np.float32), "label": np.arange(n, dtype=np.int32) % 10}

    train, test = "fed_emnist_digitsonly_train.h5", "fed_emnist_digitsonly_test.h5"
    Hdf5.files = {train: {"examples": {"b": written(4), "a": written(2)}}, test: {"examples": {"a": written(3)}}}
    for name in (train, test):
        (tmp_path / "femnist-digits").mkdir(exist_ok=True)
        (tmp_path / "femnist-digits" / name).write_bytes(b"")
    with monkeypatch.context() as without, pytest.raises(DataError, match="install h5py"):
        without.setitem(sys.modules, "h5py", None)
        load("femnist-digits", tmp_path)
    monkeypatch.setitem(sys.modules, "h5py", SimpleNamespace(File=Hdf5))
    federation = federate("femnist-digits", tmp_path, PartitionSettings("by_key"), normalise="none")
    assert federation.sizes().tolist() == [2, 4] and federation.input_shape == (1, 28, 28)
    assert federation.train_y.tolist() == [0, 1, 0, 1, 2, 3] and torch.all(federation.train_x == 0.25)
    Hdf5.files[train] = {}
    with pytest.raises(DataError, match="download it again"):
        load("femnist-digits", tmp_path)
