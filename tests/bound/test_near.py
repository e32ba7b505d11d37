"""Updates near the client's own last one: two bounds at once, against what was really sent."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sordino.bound.near import Near
from sordino.client_state import ClientState, NoiseMemory, remembered
from sordino.runs.client_store import ClientStore
from sordino.stages import Update

WIDTH = 6
IDS = np.array([3, 7, 11])


def update(rows, clients=IDS, state=None):
    return Update(clients, rows, np.ones(len(rows), np.int64), state=state)


def after(rows, difference=0.5, newcomers=0):
    """The state of clients that sent these rows last, and of so many more that never took part."""
    numbers = torch.tensor([[1.0, difference]]).expand(len(rows), 2)
    state = remembered(IDS[: len(rows)], rows, torch.zeros_like(rows), numbers)
    nobody = torch.zeros(newcomers, state.rows.shape[1])
    return ClientState(torch.cat([state.rows, nobody]), np.append(state.known, np.zeros(newcomers, bool)))


@settings(max_examples=150, deadline=None)
@given(
    rows=st.lists(st.lists(st.floats(width=32), min_size=WIDTH, max_size=WIDTH), min_size=3, max_size=3),
    seed=st.integers(0, 10_000),
    clip_norm=st.floats(1e-2, 1e2),
    difference=st.floats(1e-5, 1.0),
)
def test_both_bounds_hold_whatever_comes_in(rows, seed, clip_norm, difference, turn_factory):
    turn = turn_factory(clip_norm=clip_norm, difference=difference)
    first = torch.randn(3, WIDTH, generator=torch.Generator().manual_seed(seed)) * clip_norm
    last = Near().bound(update(first), turn).rows
    now = Near().bound(update(torch.tensor(rows), state=after(last)), turn).rows
    assert torch.isfinite(now).all()
    assert (now.double().norm(dim=1) <= clip_norm).all()
    if difference < 1:
        assert ((now.double() - last.double()).norm(dim=1) <= difference * clip_norm).all()


def test_an_update_is_pulled_along_the_line_to_the_last_one(make_turn):
    turn = make_turn(clip_norm=1.0, difference=0.2)
    state = after(torch.tensor([[0.5, 0, 0, 0, 0, 0.0]]), newcomers=1)
    rows = torch.tensor([[0.5, 0.8, 0, 0, 0, 0], [0.1, 0, 0, 0, 0, 0]])
    bounded = Near().bound(update(rows, IDS[:2], state), turn)
    assert torch.allclose(bounded.rows[0], torch.tensor([0.5, 0.2, 0, 0, 0, 0]), atol=1e-5)
    assert torch.equal(bounded.rows[1], torch.tensor([0.1, 0, 0, 0, 0, 0]))
    assert bounded.clipped.tolist() == [True, False]


def test_newcomers_are_clipped_alone_and_close_updates_are_left_alone(make_turn):
    turn = make_turn(clip_norm=1.0, difference=0.2)
    state = after(torch.full((1, WIDTH), 0.1), newcomers=1)
    rows = torch.full((2, WIDTH), 0.12)
    assert torch.equal(Near().bound(update(rows, IDS[:2], state), turn).rows, rows)
    for nothing in (after(torch.zeros(0, WIDTH), newcomers=1), ClientState.blank(1), None):
        far = Near().bound(update(torch.full((1, WIDTH), 9.0), IDS[1:2], nothing), turn)
        assert far.rows.norm() == pytest.approx(1.0, rel=1e-4)


def test_with_a_difference_of_one_nothing_is_pulled(make_turn):
    turn = make_turn(clip_norm=1.0, difference=1.0)
    state = after(torch.tensor([[1.0, 0, 0, 0, 0, 0]]))
    opposite = torch.tensor([[-1.0, 0, 0, 0, 0, 0]])
    assert torch.equal(Near().bound(update(opposite, IDS[:1], state), turn).rows, opposite)


def test_a_private_difference_is_the_clients_own(make_turn):
    turn = make_turn(clip_norm=1.0, difference=0.5)
    state = after(torch.zeros(3, WIDTH), difference=0.25)
    rows = torch.tensor([[1.0, 0, 0, 0, 0, 0]]).expand(3, WIDTH)
    assert torch.allclose(
        Near(private=True).bound(update(rows, state=state), turn).rows[:, 0], torch.tensor(0.25), atol=1e-5
    )
    assert torch.allclose(Near().bound(update(rows, state=state), turn).rows[:, 0], torch.tensor(0.5), atol=1e-5)


def test_memory_goes_through_the_store_and_back():
    store = ClientStore()
    rows, noise = torch.randn(3, WIDTH), torch.randn(3, WIDTH)
    store.remember(IDS, remembered(IDS, rows, noise, torch.tensor([[0.5, 0.1], [0.6, 0.2], [0.7, 0.3]])))
    assert not NoiseMemory.recall(store.state(IDS), WIDTH, 0.9).known.any()
    store.commit()
    back = NoiseMemory.recall(store.state(np.array([11, 99, 3])), WIDTH, 0.9)
    assert back.known.tolist() == [True, False, True]
    assert torch.equal(back.update[[0, 2]], rows[[2, 0]])
    assert torch.equal(back.message[[0, 2]], noise[[2, 0]])
    assert back.variance.tolist() == pytest.approx([0.7, 1.0, 0.5])
    assert back.difference.tolist() == pytest.approx([0.3, 0.9, 0.1])
