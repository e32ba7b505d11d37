"""Noise that is correlated in time: the recursion, what leaves a client, and what its past gives away."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles import assert_normal, fits_normal
from played import bounded_of, summed_of
from sordino.account.accountants.published import fed_cad_schedule
from sordino.aggregate.plain import PlainSum
from sordino.client_state import NoiseMemory
from sordino.events import CorrelatedGaussian, Guarantee, Unbounded
from sordino.perturb.correlated import CorrelatedNoise, recursion
from sordino.perturb.gaussian import LocalGaussian
from sordino.runs.client_store import ClientStore
from sordino.terms import Knobs

CLIENTS, WIDTH = np.array([2, 5, 8]), 5000
KNOBS = {"noise_multiplier": 1.5, "clip_norm": 0.4, "difference": 0.3}
SIGMA = 0.6


def stream(make_turn, rounds, part=None, who=None, rows=None, **knobs):
    """Lets clients take part in rounds; returns their messages by round."""
    part, store, out = part or CorrelatedNoise(), ClientStore(), []
    for t in range(1, rounds + 1):
        turn = make_turn(t, width=WIDTH, **{**KNOBS, **knobs})
        clients = CLIENTS if who is None else who(t)
        values = torch.zeros(len(clients), WIDTH) if rows is None else rows(t, clients)
        sent = part.shield(bounded_of(turn, values, clients, state=store.state(clients)), turn)
        store.remember(clients, sent.state)
        store.commit()
        out.append(sent.message)
    return out, store


def recalled(store, difference):
    return NoiseMemory.recall(store.state(CLIENTS), WIDTH, difference)


def constant(difference, rounds):
    variance, out = torch.ones(1, dtype=torch.float64), []
    for t in range(rounds):
        reuse, fresh, variance = recursion(
            variance, torch.tensor([difference], dtype=torch.float64), torch.tensor([t > 0])
        )
        out.append((float(reuse), float(fresh), float(variance)))
    return np.array(out)


@pytest.mark.parametrize(
    ("difference", "printed"),
    [
        (0.3, [1, 0.671141, 0.578001, 0.541199, 0.524825, 0.517158]),
        (0.5, [1, 0.8, 0.761905, 0.752941, 0.750733, 0.750183]),
        (0.7, [1, 0.917431, 0.910664, 0.910060, 0.910005, 0.910000]),
    ],
)
def test_the_recursion_is_the_papers_closed_form(difference, printed):
    got = constant(difference, 6)
    t = np.arange(1, 7)
    closed = (2 * difference - difference**2) / (1 - (1 - difference) ** (2 * t))
    assert np.allclose(got[:, 2], printed, atol=5e-7)
    assert np.allclose(got[:, 2], closed, rtol=1e-12)
    v, r, s = fed_cad_schedule(difference, 6)
    assert np.allclose(got, np.stack([r, s, v], axis=1), rtol=1e-12)


@settings(max_examples=200, deadline=None)
@given(
    path=st.lists(st.floats(0.01, 1.0), min_size=1, max_size=12), start=st.floats(0.01, 1.0), seed=st.integers(0, 99)
)
def test_fresh_noise_covers_the_innovation_on_any_path_of_differences(path, start, seed):
    """‖(1−r)u + r(u − u′)‖ ≤ a·C for any u, u′ in the ball with ‖u − u′‖ ≤ D·C: r must not exceed 1."""
    variance = torch.tensor([start], dtype=torch.float64)
    rng = np.random.default_rng(seed)
    for difference in path:
        reuse, fresh, after = recursion(variance, torch.tensor([difference], dtype=torch.float64), torch.tensor([True]))
        assert 0 <= float(reuse) <= 1
        last = rng.normal(size=3)
        last /= np.linalg.norm(last)
        for toward in (last, -last, rng.normal(size=3)):
            now = last - difference * toward / np.linalg.norm(toward)
            now /= max(1.0, np.linalg.norm(now))
            assert np.linalg.norm(now - float(reuse) * last) <= float(fresh) + 1e-12
        assert float(after) == pytest.approx(float(fresh) ** 2 + float(reuse) ** 2 * float(variance))
        for other in np.linspace(0, 1, 21):  # no other share that is allowed leaves less noise
            assert float(after) <= (1 - other * (1 - difference)) ** 2 + other**2 * float(variance) + 1e-12
        variance = after


def test_what_leaves_a_client_has_the_recursions_variance_and_its_correlation(make_turn):
    messages, _ = stream(make_turn, 5)
    plan = constant(0.3, 5)
    noise = [m.rows.numpy() for m in messages]
    for t in range(5):
        assert_normal(noise[t], SIGMA * np.sqrt(plan[t, 2]))
    for t in range(1, 5):
        fresh = noise[t] - plan[t, 0] * noise[t - 1]
        assert_normal(fresh, SIGMA * plan[t, 1])
        for earlier in noise[:t]:  # fresh noise has nothing to do with anything that was sent before
            assert abs(np.corrcoef(fresh.ravel(), earlier.ravel())[0, 1]) < 5 / np.sqrt(fresh.size)


def test_clients_have_noise_of_their_own_and_repeat_by_seed(make_turn):
    (one, two), _ = stream(make_turn, 2)
    assert np.abs(np.corrcoef(np.concatenate([one.rows, two.rows])[:3]) - np.eye(3)).max() < 0.08
    (again, _), _ = stream(make_turn, 2)
    assert torch.equal(one.rows, again.rows)
    other, _ = stream(lambda *a, **k: make_turn(*a, seed=1, **k), 1)
    assert not (other[0].rows == one.rows).any()


def test_a_client_that_skips_rounds_goes_on_from_its_own_last_message(make_turn):
    # client 8 takes part in rounds 1, 4 and 5 only: its t counts its own participations
    who = lambda t: CLIENTS if t in (1, 4, 5) else CLIENTS[:2]  # noqa: E731
    messages, store = stream(make_turn, 5, who=who)
    plan = constant(0.3, 5)
    first, fourth, fifth = (messages[t].rows[2].numpy() for t in (0, 3, 4))
    assert_normal(fourth, SIGMA * np.sqrt(plan[1, 2]))
    assert_normal(fourth - plan[1, 0] * first, SIGMA * plan[1, 1])
    assert_normal(fifth - plan[2, 0] * fourth, SIGMA * plan[2, 1])
    assert recalled(store, 0.3).variance.tolist() == pytest.approx([plan[4, 2], plan[4, 2], plan[2, 2]], rel=1e-6)


def test_state_survives_a_restart(make_turn, tmp_path):
    def play(path, restart):
        store, out = ClientStore(path), []
        for t in (1, 2, 3):
            turn = make_turn(t, width=WIDTH, **KNOBS)
            rows = torch.full((3, WIDTH), 0.001 * t)
            sent = CorrelatedNoise().shield(bounded_of(turn, rows, CLIENTS, state=store.state(CLIENTS)), turn)
            store.remember(CLIENTS, sent.state)
            out.append(sent.message.rows)
            slots = store.commit()
            if restart:
                store = ClientStore(path)
                store.restore(np.array(list(slots)), np.array(list(slots.values())), 2 * WIDTH + 2)
        return torch.stack(out)

    assert torch.equal(play(tmp_path / "a", restart=True), play(None, restart=False))


def test_with_a_difference_of_one_it_is_fed_ldp_to_the_bit(make_turn):
    messages, _ = stream(make_turn, 3, difference=1.0)
    for t, message in enumerate(messages, 1):
        turn = make_turn(t, width=WIDTH, **KNOBS)
        sent = LocalGaussian().shield(bounded_of(turn, torch.zeros(3, WIDTH), CLIENTS), turn)
        assert torch.equal(message.rows, sent.message.rows)


def test_the_gap_estimates_the_distance_of_updates_without_bias(make_turn):
    direction = torch.zeros(WIDTH)
    direction[0] = 1.0
    rows = lambda t, clients: (0.1 * (t % 2) * direction).expand(len(clients), WIDTH)  # noqa: E731
    messages, _ = stream(make_turn, 40, rows=rows, noise_multiplier=0.05)
    assert not messages[0].side["gap"].any()
    gaps = torch.stack([m.side["gap"][:, 0] for m in messages[1:]])
    assert (messages[1].side["gap"][:, 1] == 1).all()
    # each estimate errs by about √(2d)·(σC)²·κ; over 117 of them the mean is 0.1² within five standard errors
    assert abs(float(gaps.mean()) - 0.01) < 5 * float(gaps.std()) / gaps.numel() ** 0.5
    assert float(gaps.std()) < 0.05


def test_the_noise_that_is_told_is_that_of_the_mean(make_turn):
    part = CorrelatedNoise()
    _, store = stream(make_turn, 2)
    turn = make_turn(3, width=WIDTH, cohort=9, **KNOBS)
    third = bounded_of(turn, torch.zeros(3, WIDTH), CLIENTS, state=store.state(CLIENTS))
    released = part.release(summed_of(part, PlainSum(2.0), turn, third), turn)
    assert_normal(released.mean.numpy(), released.stddev)
    assert not fits_normal(released.mean.numpy(), SIGMA * np.sqrt(3) / 2)


def test_prices():
    knobs = Knobs(0.4, 1.5)
    assert dict(CorrelatedNoise().price(knobs)) == {
        Guarantee("client", "server", "zero_out"): CorrelatedGaussian(1.5),
        Guarantee("client", "outsider", "zero_out"): CorrelatedGaussian(1.5),
    }
    assert {event for _, event in CorrelatedNoise("replace").price(knobs)} == {CorrelatedGaussian(0.75)}
    assert all(isinstance(event, Unbounded) for _, event in CorrelatedNoise(private=True).price(knobs))


def test_a_private_difference_follows_the_private_norms_as_printed(make_turn):
    direction = torch.zeros(WIDTH)
    direction[0] = 1.0
    # with D = 0.3 and updates that moved by 0.1·C: D ← 0.6·0.3 + 0.4·0.1
    rows = lambda t, clients: (0.04 * t * direction).expand(len(clients), WIDTH)  # noqa: E731
    part = CorrelatedNoise(private=True, obsolete=0.4)
    _, store = stream(make_turn, 1, part, rows=rows)
    assert recalled(store, 0.9).difference.tolist() == pytest.approx([0.3] * 3)
    _, store = stream(make_turn, 2, part, rows=rows)
    assert recalled(store, 0.9).difference.tolist() == pytest.approx([0.6 * 0.3 + 0.4 * 0.1] * 3)
    noisy = CorrelatedNoise(private=True, obsolete=0.4, difference_stddev=0.05)
    _, store = stream(make_turn, 2, noisy, rows=rows)
    assert len(set(recalled(store, 0.9).difference.tolist())) == 3


@pytest.mark.parametrize(("difference", "ratio"), [(0.3, 2.126), (0.5, 1.925), (0.7, 1.564)])
def test_less_noise_in_each_message_is_more_noise_in_their_sum(difference, ratio, make_turn):
    """A model adds messages up, and reused noise adds up faster than fresh noise (docs/mechanisms/fed_cad.md)."""
    messages, _ = stream(make_turn, 8, difference=difference)
    total = torch.stack([message.rows for message in messages]).sum(0).numpy()
    assert_normal(total, SIGMA * np.sqrt(8 * ratio))
    assert not fits_normal(total, SIGMA * np.sqrt(8))


@pytest.mark.parametrize(("difference", "kept", "ratio"), [(0.2, 0.3, 0.587), (0.2, 0.8, 1.639), (0.5, 0.3, 1.015)])
def test_a_model_that_forgets_has_less_of_reused_noise_below_a_share_that_it_keeps(difference, kept, ratio, make_turn):
    """What is left of 30 rounds' noise in a model that keeps a share of itself a round, over that of fresh noise."""
    messages, _ = stream(make_turn, 30, difference=difference)
    left = torch.zeros_like(messages[0].rows)
    for message in messages:
        left = kept * left + message.rows
    whole = SIGMA * np.sqrt(ratio / (1 - kept**2))
    assert_normal(left.numpy(), whole)
    assert not fits_normal(left.numpy(), whole * 1.1)
    reused = 1 - difference
    assert (ratio < 1) == (kept < reused / (2 - reused**2))
