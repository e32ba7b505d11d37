"""Client rows on disk: memory stays that of the rows in hand, and a file that does not fit its index is refused."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from sordino.errors import DataError
from sordino.runs.client_store import ClientStore

ids = np.arange


def written(path, clients=4, width=3):
    store = ClientStore(path)
    store.write(ids(clients), torch.arange(clients * width, dtype=torch.float32).view(clients, width))
    return store, dict(store.commit())


def index(slots):
    return np.array(list(slots)), np.array(list(slots.values()))


def test_a_file_that_is_gone_or_too_short_is_refused(tmp_path):
    path = tmp_path / "rows"
    _, slots = written(path)
    for damage in (lambda: path.write_bytes(path.read_bytes()[:-4]), path.unlink):
        damage()
        with pytest.raises(DataError, match="whole folder"):
            ClientStore(path).restore(*index(slots), 3)


def test_a_file_that_shrinks_while_it_is_used_is_refused(tmp_path):
    store, _ = written(tmp_path / "rows")
    (tmp_path / "rows").write_bytes(b"")
    with pytest.raises(DataError, match="too short"):
        store.read(ids(4))


@pytest.mark.parametrize("place", ["memory", "disk"])
def test_rows_of_another_width_are_refused(place, tmp_path):
    store, _ = written(tmp_path / "rows" if place == "disk" else None)
    with pytest.raises(DataError, match="shape"):
        store.write(ids(2), torch.zeros(2, 5))
    with pytest.raises(DataError, match="shape"):
        store.write(ids(3), torch.zeros(2, 3))


def test_what_is_given_and_what_is_returned_can_be_changed_without_harm(tmp_path):
    for path in (None, tmp_path / "rows"):
        store, rows = ClientStore(path), torch.ones(1, 3)
        store.write(ids(1), rows)
        store.commit()
        rows.zero_()
        store.read(ids(1))[0].zero_()
        assert store.read(ids(1))[0].tolist() == [[1, 1, 1]]


def test_disk_holds_one_row_a_client_and_one_a_member_of_a_cohort(tmp_path):
    store = ClientStore(tmp_path / "rows")
    rng = np.random.default_rng(0)
    for _ in range(40):
        store.write(rng.choice(100, 10, replace=False), torch.zeros(10, 64))
        store.commit()
    assert (tmp_path / "rows").stat().st_size <= (100 + 10) * 64 * 4


def test_memory_does_not_grow_with_the_number_of_clients(tmp_path):
    """A fiftieth of the full scale: 2,000 clients of two vectors of 26,010 parameters are 416 MB of rows."""
    script = Path(__file__).parents[2] / "benchmarks" / "store.py"
    sizes = ["--clients", "2000", "--cohort", "100", "--rounds", "2", "--folder", str(tmp_path), "--json"]
    done = subprocess.run([sys.executable, script, *sizes], capture_output=True, text=True, check=True)
    told = json.loads(done.stdout)
    assert told["disk_mb"] > 400
    assert told["memory_mb"] < 150
