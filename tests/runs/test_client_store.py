"""Private rows of clients: committed with the round, kept through a crash, freed for others."""

import numpy as np
import pytest
import torch

from sordino.runs.client_store import ClientStore


def ids(*clients):
    return np.array(clients, np.int64)


@pytest.fixture(params=["memory", "disk"])
def path(request, tmp_path):
    return tmp_path / "clients.f32" if request.param == "disk" else None


def test_rows_count_from_the_commit_on(path):
    store = ClientStore(path)
    store.write(ids(5, 900_000), torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    assert not store.read(ids(5))[1].any()
    store.commit()
    rows, known = store.read(ids(900_000, 7, 5))
    assert known.tolist() == [True, False, True]
    assert rows.tolist() == [[3, 4], [0, 0], [1, 2]]


def test_an_uncommitted_round_is_forgotten_on_restore(tmp_path):
    store = ClientStore(tmp_path / "rows")
    store.write(ids(1, 2), torch.ones(2, 3))
    slots = dict(store.commit())
    store.write(ids(1), torch.full((1, 3), 9.0))

    again = ClientStore(tmp_path / "rows")
    again.restore(np.array(list(slots)), np.array(list(slots.values())), 3)
    assert again.read(ids(1))[0].tolist() == [[1, 1, 1]]
    again.write(ids(1), torch.full((1, 3), 5.0))
    again.commit()
    assert again.read(ids(1, 2))[0].tolist() == [[5, 5, 5], [1, 1, 1]]


def test_a_write_never_touches_a_committed_row(path):
    store = ClientStore(path)
    rng = np.random.default_rng(0)
    truth: dict[int, float] = {}
    for round_ in range(30):
        clients = rng.choice(50, 8, replace=False)
        before = store.read(np.array(sorted(truth), np.int64))[0][:, 0].tolist() if truth else []
        store.write(clients, torch.full((8, 2), float(round_)))
        assert before == [truth[c] for c in sorted(truth)]
        store.commit()
        truth |= {int(c): float(round_) for c in clients}
    assert store._top <= 50 + 8


def test_writing_twice_in_a_round_keeps_the_last(path):
    store = ClientStore(path)
    store.write(ids(3), torch.zeros(1, 2))
    store.write(ids(3), torch.ones(1, 2))
    store.commit()
    assert store.read(ids(3))[0].tolist() == [[1, 1]]
