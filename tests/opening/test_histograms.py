"""Label histograms: what leaves a client is noised once and charged once, and the ranking sees nothing else."""

import numpy as np
import pytest
import torch

from oracles import assert_normal
from sordino.data.federation import Federation
from sordino.events import GaussianDpEvent, Unbounded
from sordino.opening import histograms
from sordino.opening.histograms import LabelHistograms
from sordino.runs.round import Simulation

CLASSES = 10


def federation(clients=400, each=30, seed=0, skewed=()):
    labels = np.random.default_rng(seed).integers(0, CLASSES, (clients, each))
    for client in skewed:
        labels[client] = 3
    owners = np.repeat(np.arange(clients), each)
    x = torch.zeros(clients * each, 2)
    return Federation.of(x, torch.from_numpy(labels.ravel()), owners, test=None, classes=CLASSES), labels


def told(part, people, turn):
    """What every client tells the server."""
    return part.tell(people.gather(np.arange(people.population)), turn).numpy()


def opened(part, people, turn):
    """What the server makes of it."""
    return part.conclude(torch.from_numpy(told(part, people, turn)))


def test_exact_counts_are_the_labels_each_client_holds(make_turn):
    people, labels = federation(clients=50)
    counts = told(LabelHistograms(CLASSES, None), people, make_turn(0))
    expected = np.stack([np.bincount(row, minlength=CLASSES) for row in labels])
    np.testing.assert_array_equal(counts, expected)


def test_counts_do_not_depend_on_how_clients_are_chunked(make_turn):
    people, _ = federation(clients=50)
    part, everybody = LabelHistograms(CLASSES, 2.0), np.arange(50)
    simulation = Simulation(None, None, people, None, None)
    chunked = simulation.tell(part, make_turn(0), everybody, chunk=7)
    np.testing.assert_array_equal(chunked, told(part, people, make_turn(0)))


def test_what_leaves_a_client_carries_exactly_the_noise_that_is_charged(make_turn):
    people, _ = federation()
    exact = told(LabelHistograms(CLASSES, None), people, make_turn(0))
    noise = told(LabelHistograms(CLASSES, 3.0), people, make_turn(0)) - exact
    assert_normal(noise, 3.0)
    assert np.abs(np.corrcoef(noise.T) - np.eye(CLASSES)).max() < 0.25
    assert {event for _, event in LabelHistograms(CLASSES, 3.0).price()} == {GaussianDpEvent(3.0)}


def test_both_observers_are_charged_for_the_record_unit():
    kinds = {(g.unit, g.observer, g.adjacency) for g, _ in LabelHistograms(CLASSES, 3.0).price()}
    assert kinds == {("record", "server", "add_remove"), ("record", "outsider", "add_remove")}


def test_one_record_moves_one_count_by_one(make_turn):
    people, _ = federation(clients=3)
    less = Federation.of(
        people.train_x[1:], people.train_y[1:], np.repeat(np.arange(3), 30)[1:], test=None, classes=CLASSES
    )
    part = LabelHistograms(CLASSES, None)
    gap = told(part, people, make_turn(0)) - told(part, less, make_turn(0))
    assert np.linalg.norm(gap) == 1 and np.abs(gap).sum() == 1


def test_exact_histograms_are_unbounded():
    assert all(isinstance(event, Unbounded) for _, event in LabelHistograms(CLASSES, None).price())


def test_scores_are_post_processing_of_the_noisy_counts_alone(make_turn):
    one, _ = federation(seed=1)
    other, _ = federation(seed=2)
    part = LabelHistograms(CLASSES, 5.0)
    noisy = told(part, one, make_turn(0)) + 0.0
    made = part.conclude(torch.from_numpy(noisy))
    assert torch.equal(made["scores"], opened(part, one, make_turn(0))["scores"])
    # whoever holds other records and happens to tell the same is ranked the same
    elsewhere = told(LabelHistograms(CLASSES, None), other, make_turn(0))
    replayed = part.conclude(torch.from_numpy(elsewhere + (noisy - elsewhere)))
    assert torch.allclose(replayed["scores"], made["scores"], rtol=1e-9)


@pytest.mark.parametrize("noise", [None, 2.0])
def test_skewed_clients_rank_last(noise, make_turn):
    people, _ = federation(skewed=(7, 70, 170))
    knobs = opened(LabelHistograms(CLASSES, noise), people, make_turn(0))
    assert set(np.argsort(knobs["scores"].numpy())[:3]) == {7, 70, 170}
    assert knobs["label_shares"].sum() == pytest.approx(1)


def test_counts_that_noise_made_negative_give_a_uniform_client(make_turn):
    shares = histograms._shares(np.array([[-1.0, -2.0], [3.0, -1.0], [1.0, 3.0]]))
    np.testing.assert_allclose(shares, [[0.5, 0.5], [1, 0], [0.25, 0.75]])


def test_same_seed_same_release(make_turn):
    people, _ = federation(clients=20)
    part = LabelHistograms(CLASSES, 2.0)
    assert torch.equal(opened(part, people, make_turn(0))["scores"], opened(part, people, make_turn(0))["scores"])
    other = opened(part, people, make_turn(0, seed=9))
    assert not torch.equal(opened(part, people, make_turn(0))["scores"], other["scores"])
