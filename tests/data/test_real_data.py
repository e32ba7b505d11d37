"""Loaders on the real files, where they are there: sizes, labels and owners as published."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from sordino.data import DATASETS, NORMALISE, PartitionSettings, federate, load


@pytest.fixture
def folder(data_folder: Path, request: pytest.FixtureRequest) -> Path:
    name = request.node.callspec.params["name"]
    if DATASETS[name].found(data_folder) is None:
        pytest.skip(f"{name} is not there")
    return data_folder


FIXED = [
    name for name, dataset in DATASETS.items() if dataset.train is not None and dataset.places and name != "cifar10"
]


@pytest.mark.parametrize("name", ["wisdm", "heart-disease"])
def test_classes_go_by_their_names(name: str, folder: Path) -> None:
    named = federate(name, folder).class_names
    assert named == DATASETS[name].class_names and len(named) == DATASETS[name].classes


@pytest.mark.parametrize("name", FIXED)
def test_the_catalogue_tells_the_truth(name: str, folder: Path) -> None:
    dataset, records = DATASETS[name], load(name, folder)
    assert (len(records.train_y), len(records.test_y), records.classes) == (
        dataset.train,
        dataset.test,
        dataset.classes,
    )
    assert len(dataset.class_names) in (0, dataset.classes)
    assert (records.owners is None) == (dataset.natural_key is None)
    if records.owners is not None:
        assert len(np.unique(records.owners)) == dataset.natural_clients


# Counts of the classes as the sources publish them.
@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("mnist", [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]),
        ("fashion-mnist", [6000] * 10),
        ("adult", [24720, 7841]),
    ],
)
def test_class_counts_are_the_published_ones(name: str, counts: list[int], folder: Path) -> None:
    records = load(name, folder)
    assert np.bincount(records.train_y).tolist() == counts


@pytest.mark.parametrize("name", ["cifar10"])
def test_cifar_is_the_published_one(name: str, folder: Path) -> None:
    records = load(name, folder)
    assert np.bincount(records.train_y).tolist() == [5000] * 10
    assert np.bincount(records.test_y).tolist() == [1000] * 10
    assert records.train_x.mean((0, 2, 3)).tolist() == pytest.approx([0.4914, 0.4822, 0.4465], abs=1e-4)


@pytest.mark.parametrize("name", ["heart-disease"])
def test_hospitals_have_flambys_patients(name: str, folder: Path) -> None:
    federation = federate(name, folder, PartitionSettings("by_key"))
    assert federation.sizes().tolist() == [199, 172, 30, 85]


@pytest.mark.parametrize("name", ["mnist-writers"])
def test_writers_hold_what_they_wrote(name: str, folder: Path) -> None:
    federation = federate(name, folder, PartitionSettings("by_key"))
    sizes = federation.sizes()
    assert (federation.population, sizes.min(), sizes.max(), int(np.median(sizes))) == (539, 19, 131, 116)


@pytest.mark.parametrize("name", ["heart-disease", "adult", "wisdm", "mnist", "fashion-mnist"])
def test_public_scales_leave_something_to_learn(name: str, folder: Path) -> None:
    """A plain classifier learns from our encoding about what is usual for the set (wisdm: on people it never saw)."""
    from sklearn.linear_model import LogisticRegression

    usual = {"heart-disease": 0.75, "adult": 0.82, "wisdm": 0.68, "mnist": 0.85, "fashion-mnist": 0.77}[name]
    records = load(name, folder)
    train, test = (NORMALISE["auto"](x).flatten(1).numpy() for x in (records.train_x[:5000], records.test_x))
    model = LogisticRegression(max_iter=100, tol=1e-2).fit(train, records.train_y[:5000].numpy())
    assert model.score(test, records.test_y.numpy()) > usual


MILLION = """
from pathlib import Path
import numpy as np
from sordino.data import PartitionSettings, federate

federation = federate({name!r}, {folder!r}, PartitionSettings("dirichlet", clients=1_000_000, size=60))
records = len(federation.gather(np.random.default_rng(0).choice(federation.population, 1000, replace=False)).y)
peak = Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]  # ru_maxrss counts who started us, too
print(federation.population, records, peak)
"""


@pytest.mark.parametrize("name", ["fashion-mnist"])
def test_a_million_clients_start_within_two_gigabytes(name: str, folder: Path) -> None:
    script = MILLION.format(name=name, folder=str(folder))
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    population, records, kilobytes = (float(word) for word in answer)
    assert (population, records) == (1_000_000, 60_000)
    assert kilobytes < 2e6
