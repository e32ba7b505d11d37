"""Skellam shares in integers: exactly the noise that is charged, on the sum of rounded rows, whoever drops out."""

from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest
import torch
from scipy import stats

from aggregate.rounding import round_row
from played import bounded_of, summed_of
from sordino.aggregate.dither import Dither
from sordino.aggregate.integers import Grid
from sordino.aggregate.secure_sum import SecureSum
from sordino.errors import ProtocolError, RecipeError, SordinoError
from sordino.events import PoissonSampledDpEvent, Skellam
from sordino.perturb.integer_shares import IntegerShares
from sordino.random.streams import Streams
from sordino.stages import Bounded, Sent
from sordino.terms import Knobs, Survivors, Turn, Vanished

WIDTH, CLIP, Z = 3000, 0.5, 2.0
NONE = np.empty(0, np.int64)
GRID = Grid.fine(WIDTH, CLIP, 0.05)
TARGET = Z * CLIP * GRID.scale
KNOBS = {"noise_multiplier": Z, "clip_norm": CLIP}


def fits(samples: np.ndarray, stddev: float) -> bool:
    """Two-sided: the fourth moment of a Skellam of this size is a Gaussian's to 1 in 10,000."""
    statistic = float(np.square(samples / stddev).sum())
    tail = stats.chi2(samples.size).cdf(statistic)
    return bool(5e-5 < tail < 1 - 5e-5)


def assert_noise(samples: np.ndarray, stddev: float) -> None:
    assert fits(samples, stddev), (samples.std(), stddev)
    assert not fits(samples, stddev * 2 / 3) and not fits(samples, stddev * 3 / 2)


def bounded(turn: Turn, clients: np.ndarray, rows: torch.Tensor | None = None) -> Bounded:
    return bounded_of(turn, torch.zeros(len(clients), WIDTH) if rows is None else rows, clients)


def revealed_by(part: IntegerShares, sent: Sent, survivors: np.ndarray, turn: Turn) -> torch.Tensor:
    return part.reveal(sent.kept, Survivors(turn.round_, survivors), turn).rows


def summed(make_turn, upload=NONE, unmask=NONE, cohort=10, tolerance=0.4, fidelity="exact", rows=None, corrupt=0.0):
    part = IntegerShares(GRID, tolerance=tolerance, corrupt=corrupt)
    turn = make_turn(width=WIDTH, cohort=cohort, **KNOBS)
    senders = np.setdiff1d(np.arange(cohort), upload)
    group = bounded(turn, senders, None if rows is None else rows[senders])
    secure = SecureSum(float(cohort), tolerance, part.modulus_bits, fidelity, corrupt)
    return part, turn, summed_of(part, secure, turn, group, vanished=Vanished(NONE, upload, unmask))


@pytest.mark.parametrize("lost", [0, 1, 4])
def test_the_sum_carries_exactly_the_target_whoever_drops_out(lost, make_turn):
    _, _, total = summed(make_turn, upload=np.arange(lost))
    assert total.total.dtype == torch.int64
    assert_noise(total.total.numpy(), TARGET)


def test_what_leaves_a_client_carries_the_share_for_the_worst_cohort(make_turn):
    turn = make_turn(width=WIDTH, cohort=10, **KNOBS)
    for row in IntegerShares(GRID, tolerance=0.4).shield(bounded(turn, np.arange(10)), turn).message.rows.numpy():
        assert_noise(row, TARGET / np.sqrt(6))


def test_a_client_that_vanishes_before_it_reveals_leaves_more_noise(make_turn):
    _, _, total = summed(make_turn, unmask=np.array([2, 5, 7]))
    assert_noise(total.total.numpy(), TARGET * np.sqrt(3 / 6 + 7 / 10))
    assert not fits(total.total.numpy(), TARGET)


def test_with_colluders_the_honest_alone_carry_the_target(make_turn):
    part = IntegerShares(GRID, tolerance=0.2, corrupt=0.3)
    turn = make_turn(width=WIDTH, cohort=10, **KNOBS)
    sent = part.shield(bounded(turn, np.arange(10)), turn)
    stays = sent.message.rows - revealed_by(part, sent, np.arange(10), turn)
    assert_noise(stays[3:].sum(0).numpy(), TARGET)  # three of ten tell the server theirs


def test_what_is_revealed_says_nothing_of_what_stays(make_turn):
    part, turn = IntegerShares(GRID, tolerance=0.5), make_turn(width=WIDTH, cohort=10, **KNOBS)
    sent = part.shield(bounded(turn, np.arange(10)), turn)
    revealed = revealed_by(part, sent, np.arange(10), turn)
    stays, gone = (sent.message.rows - revealed).numpy().ravel(), revealed.numpy().ravel()
    assert_noise(stays, TARGET / np.sqrt(10))
    assert_noise(gone, TARGET * np.sqrt(1 / 5 - 1 / 10))
    for a, b in ((stays, gone), (stays**2, gone**2), (stays**3, gone)):
        assert abs(np.corrcoef(a, b)[0, 1]) < 5 / np.sqrt(len(a))


def test_every_draw_is_fresh_and_repeats_by_seed(make_turn):
    part, turn = IntegerShares(GRID, tolerance=0.5), make_turn(width=WIDTH, cohort=4, **KNOBS)
    sent = part.shield(bounded(turn, np.arange(4)), turn)
    revealed = revealed_by(part, sent, np.arange(4), turn).numpy()
    later = part.shield(bounded(turn, np.arange(4)), turn.but(round_=2)).message.rows.numpy()
    rows = np.concatenate([sent.message.rows.numpy(), later])
    assert np.abs(np.corrcoef(rows) - np.eye(8)).max() < 0.1
    assert torch.equal(part.shield(bounded(turn, np.arange(4)), turn).message.rows, sent.message.rows)
    assert np.array_equal(revealed_by(part, replace(sent), np.arange(4), turn).numpy(), revealed)
    assert np.abs(np.corrcoef(revealed) - np.eye(4)).max() < 0.1


class Spy(Streams):
    """Keyed streams that remember which were opened."""

    opened: ClassVar[list[tuple[str, int, int]]] = []

    def generator(self, purpose, round_=0, client=-1):
        self.opened.append((purpose, round_, client))
        return super().generator(purpose, round_, client)

    def keys(self, purpose, round_, clients):
        self.opened.extend((purpose, round_, client) for client in clients.tolist())
        return super().keys(purpose, round_, clients)


def test_rounding_noise_and_splitting_never_share_a_stream(make_turn):
    Spy.opened.clear()
    part = IntegerShares(GRID, tolerance=0.5)
    for round_ in (1, 2):
        turn = replace(make_turn(round_, width=WIDTH, cohort=4, **KNOBS), randomness=Spy(0))
        revealed_by(part, part.shield(bounded(turn, np.arange(4)), turn), np.arange(4), turn)
    assert len(Spy.opened) == len(set(Spy.opened)) == 2 * 4 * 3
    assert {(round_, client) for _, round_, client in Spy.opened} == {(r, c) for r in (1, 2) for c in range(4)}


def test_a_client_alone_sends_the_same_row_as_in_a_chunk(make_turn):
    part, turn = IntegerShares(GRID, tolerance=0.5), make_turn(width=WIDTH, cohort=4, **KNOBS)
    whole = part.shield(bounded(turn, np.arange(4)), turn)
    alone = part.shield(bounded(turn, np.array([2])), turn)
    assert torch.equal(alone.message.rows[0], whole.message.rows[2])
    assert torch.equal(alone.kept.noise[0], whole.kept.noise[2])


@pytest.mark.parametrize("fidelity", ["exact", "masked", "full"])
def test_every_fidelity_gives_the_same_sum(fidelity, make_turn):
    lost, late = np.array([1]), np.array([4])
    rows = torch.randn(10, WIDTH, generator=torch.Generator().manual_seed(0)) * 1e-3
    part, turn, exact = summed(make_turn, lost, late, rows=rows)
    _, _, other = summed(make_turn, lost, late, fidelity=fidelity, rows=rows)
    assert torch.equal(other.total, exact.total) and np.array_equal(other.survivors, exact.survivors)
    released = part.release(other, turn)
    error = released.mean * 10 - rows[np.setdiff1d(np.arange(10), lost)].sum(0)
    assert error.std() == pytest.approx(Z * CLIP * np.sqrt(1 / 6 + 8 / 9), rel=0.1)
    assert released.stddev == pytest.approx(Z * CLIP * np.sqrt(1 / 6 + 8 / 9) / 10)  # what is really there


def test_without_noise_the_mean_is_the_survivors_mean(make_turn):
    rows = torch.randn(10, WIDTH, generator=torch.Generator().manual_seed(0)) * 1e-3
    part = IntegerShares(Grid.fine(WIDTH, CLIP, 0.001), tolerance=0.4)
    turn = make_turn(width=WIDTH, cohort=10, noise_multiplier=1e-9, clip_norm=CLIP)
    total = summed_of(part, SecureSum(10.0, 0.4, part.modulus_bits), turn, bounded(turn, np.arange(10), rows))
    assert torch.allclose(part.release(total, turn).mean, rows.mean(0), atol=3 / (part.rounding.scale * np.sqrt(10)))


@pytest.mark.parametrize("fidelity", ["exact", "full"])
@pytest.mark.parametrize(("upload", "unmask"), [(np.arange(5), NONE), (np.arange(3), np.arange(3, 6))])
def test_too_few_survivors_or_answers_abort(fidelity, upload, unmask, make_turn):
    with pytest.raises(ProtocolError):
        summed(make_turn, upload, unmask, fidelity=fidelity)


def test_the_price_is_the_skellam_event_of_the_rounded_vector():
    part = IntegerShares(GRID)
    events = {guarantee.observer: event for guarantee, event in part.price(Knobs(**KNOBS))}
    assert events["server"] == Skellam(TARGET**2, GRID.l2_sensitivity(), GRID.l1_sensitivity()) == events["outsider"]
    assert {g.adjacency for g, _ in part.price(Knobs(**KNOBS))} == {"zero_out", "add_remove"}
    assert events["server"].l2_sensitivity > CLIP * GRID.scale
    sampled = IntegerShares(GRID, "record", "add_remove", sampling_rate=0.1).price(Knobs(**KNOBS))
    assert all(event == PoissonSampledDpEvent(0.1, events["server"]) for _, event in sampled)


def test_a_clip_norm_that_grew_is_refused(make_turn):
    with pytest.raises(RecipeError, match="laid out"):
        turn = make_turn(width=WIDTH, cohort=2, noise_multiplier=1, clip_norm=1)
        IntegerShares(GRID).shield(bounded(turn, np.arange(2)), turn)


def test_the_modulus_holds_what_is_left_if_nobody_reveals(make_turn):
    part = IntegerShares(GRID, tolerance=0.9)
    turn = make_turn(width=WIDTH, cohort=100, **KNOBS)
    bits = part.modulus_bits(turn.terms)
    assert bits >= GRID.modulus_bits(100, TARGET**2 * 100 / 10)
    louder = turn.but(knobs=turn.knobs.but(noise_multiplier=2000.0))
    assert part.modulus_bits(louder.terms) > bits


def test_floats_are_refused_by_a_secure_sum(make_turn):
    turn = make_turn(width=WIDTH, cohort=2, **KNOBS)
    part = IntegerShares(GRID)
    message = replace(part.shield(bounded(turn, np.arange(2)), turn).message, rows=torch.zeros(2, WIDTH))
    secure = SecureSum(2.0, 0.0, part.modulus_bits)
    with pytest.raises(SordinoError, match="integers"):
        secure.add(secure.start(turn.terms, message.sensitivity), message)


def test_chunks_change_nothing(make_turn):
    part, turn = IntegerShares(GRID, tolerance=0.4), make_turn(width=WIDTH, cohort=10, **KNOBS)
    chunks = [bounded(turn, np.arange(a, b)) for a, b in ((0, 3), (3, 10))]
    whole = [bounded(turn, np.arange(10))]
    for fidelity in ("exact", "masked"):
        secure = SecureSum(10.0, 0.4, part.modulus_bits, fidelity)
        one, two = (summed_of(part, secure, turn, *groups).total for groups in (chunks, whole))
        assert torch.equal(one, two)


def test_records_are_rounded_without_a_norm_to_hold_to():
    dither = Dither.fine(WIDTH, CLIP, records=1000, inflation=0.05)
    event = dither.event(TARGET**2, "add_remove")
    assert event.l2_sensitivity == pytest.approx(1.05 * CLIP * dither.scale)
    row = np.random.default_rng(0).normal(size=WIDTH)  # far longer than one record's vector
    rounded = round_row(dither, row, np.random.default_rng(1))
    assert np.abs(rounded - row * dither.scale).max() < 1
    means = np.mean([round_row(dither, row, np.random.default_rng(s)) for s in range(400)], 0)
    assert np.abs(means - row * dither.scale).max() < 6 * 0.5 / 20
