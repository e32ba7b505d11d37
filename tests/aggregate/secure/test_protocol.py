"""The protocol: exact for every set of survivors, silent when there are too few, and fresh every round."""

from itertools import combinations, product

import numpy as np
import pytest

from sordino.aggregate.integers import reduce, word
from sordino.aggregate.secure.errors import TooFewClients
from sordino.aggregate.secure.graph import Topology, choose
from sordino.aggregate.secure.messages import Advertise, Masked, Shares
from sordino.aggregate.secure.policy import SumPolicy
from sordino.aggregate.secure.session import STAGES, play_exact, play_full, play_masked, secure_sum
from sordino.aggregate.secure.terms import SumTerms
from sordino.aggregate.secure.wire import MessageKind, Reader, open_client
from sordino.errors import RecipeError

FOUR = np.array([1, 4, 6, 9])
SPARSE = choose(100, dropout=0.1, corrupt=0.02, sparse_from=64, security_bits=10)


def vectors(clients, width, bits, seed=0):
    values = np.random.default_rng(seed).integers(0, 2**63, (len(clients), width)).astype(word(bits))
    return reduce(values, bits)


def total(rows, bits):
    return np.array([int(column) % 2**bits for column in rows.astype(object).sum(0)], word(bits))


def outcome(clients, dropouts, threshold):
    """Who should survive and who should answer, or None: an oracle apart from the session's own."""
    sent = {
        stage: [c for c in clients if all(c not in dropouts.get(s, ()) for s in STAGES[: i + 1])]
        for i, stage in enumerate(STAGES)
    }
    enough = all(len(who) >= threshold for who in sent.values())
    return (sent["mask"], sent["unmask"]) if enough else None


def check_sum(rows, clients, threshold, dropouts):
    """The sum is exact where the oracle says that there is one, and is refused where not."""
    expected = outcome(clients.tolist(), dropouts, threshold)
    call = {"clients": clients, "modulus_bits": 12, "topology": Topology(threshold, threshold), "dropouts": dropouts}
    if expected is None:
        for fidelity in ("exact", "masked", "full"):
            with pytest.raises(TooFewClients):
                secure_sum(rows, fidelity=fidelity, **call)
        return
    summed = secure_sum(rows, fidelity="full", **call)
    assert (summed.survivors.tolist(), summed.responders.tolist()) == expected, dropouts
    assert (summed.total == total(rows[np.isin(clients, expected[0])], 12)).all(), dropouts


@pytest.mark.parametrize("threshold", [2, 3])
def test_every_way_to_vanish_at_small_n(threshold):
    clients = FOUR[:3]
    rows = vectors(clients, 3, 12)
    for last in product([*STAGES, "never"], repeat=3):
        dropouts = {stage: {c for c, s in zip(clients.tolist(), last, strict=True) if s == stage} for stage in STAGES}
        check_sum(rows, clients, threshold, dropouts)


@pytest.mark.parametrize("stage", STAGES)
def test_every_subset_of_survivors(stage):
    clients = np.arange(5)
    rows = vectors(clients, 3, 12)
    for size in range(6):
        for lost in combinations(clients.tolist(), size):
            check_sum(rows, clients, 3, {stage: lost})


@pytest.mark.parametrize("case", range(3))
def test_random_dropouts_among_a_hundred(case):
    clients, rng = np.arange(100) * 3, np.random.default_rng(case)
    rows = vectors(clients, 11, 40, case)
    topology = Topology(51, 51) if case == 0 else SPARSE
    assert bool(topology.degree) == (case > 0)
    lost = rng.choice(clients, 49 if case == 0 else 8, replace=False)
    dropouts = {stage: set(part.tolist()) for stage, part in zip(STAGES, np.array_split(lost, 5), strict=True)}
    gone = [c for stage in STAGES[:3] for c in dropouts[stage]]
    summed = secure_sum(
        rows,
        clients=clients,
        modulus_bits=40,
        topology=topology,
        dropouts=dropouts,
        fidelity="full",
        round_=case,
        policy=SumPolicy(security_bits=10),
    )
    assert (summed.total == total(rows[~np.isin(clients, gone)], 40)).all()
    assert summed.survivors.tolist() == sorted(set(clients.tolist()) - set(gone))


@pytest.mark.parametrize("bits", [1, 7, 8, 16, 19, 32, 33, 64])
@pytest.mark.parametrize("degree", [0, 6])
def test_fidelities_agree(bits, degree):
    clients = np.array([1, 2, 3, 5, 8, 13, 21])
    rows = vectors(clients, 50, bits)
    revealed = {c: np.random.default_rng(c).integers(-9, 9, 50) for c in clients.tolist()}
    seen = []

    def reveal(client, survivors):
        seen.append((client, survivors))
        return revealed[client] * survivors

    sums = [
        secure_sum(
            rows, clients=clients, modulus_bits=bits, topology=Topology(4, 4, degree), fidelity=fidelity, round_=3,
            dropouts={"share": {2}, "mask": {8}, "unmask": {21}}, reveal=reveal,
        )
        for fidelity in ("exact", "masked", "full")
    ]  # fmt: skip
    assert all((s.total == sums[0].total).all() and s.total.dtype == word(bits) for s in sums)
    assert all(s.survivors.tolist() == [1, 3, 5, 13, 21] and s.responders.tolist() == [1, 3, 5, 13] for s in sums)
    assert sorted(set(seen)) == [(1, 5), (3, 5), (5, 5), (13, 5)]
    expected = rows[[0, 2, 3, 5, 6]].astype(object).sum(0) - 5 * sum(revealed[c] for c in (1, 3, 5, 13)).astype(object)
    assert [int(x) for x in sums[0].total] == [int(x) % 2**bits for x in expected]


def test_masked_vectors_are_masked():
    terms, rows = (
        SumTerms(1, tuple(FOUR.tolist()), 2000, 16, 3, 3),
        {c: np.full(2000, 7, np.uint16) for c in FOUR.tolist()},
    )
    heard = {}
    play_full(
        terms, FOUR, rows.__getitem__, {}, listen=lambda stage, client, data: heard.setdefault((stage, client), data)
    )
    seen = [
        Masked.parse(Reader(open_client(terms, MessageKind.MASKED, heard["mask", c]).body), terms).vector for c in FOUR
    ]
    counts = np.bincount(np.concatenate(seen) >> 8, minlength=256)
    assert ((counts - 31.25) ** 2 / 31.25).sum() < 255 + 5 * np.sqrt(2 * 255)
    assert np.abs(np.corrcoef(seen) - np.eye(4)).max() < 0.15


def test_nothing_is_ever_used_twice(cast):
    keys, boxes, commitments, masked = [], [], [], []
    for round_ in (4, 4, 5):  # also when a round is tried again, with the same people
        play = cast(round_=round_)
        play.finish()
        for message in play.said["advertise"].values():
            body = Advertise.parse(Reader(open_client(play.terms, MessageKind.ADVERTISE, message).body))
            keys += [body.share_key, body.mask_key]
        for message in play.said["share"].values():
            body = Shares.parse(Reader(open_client(play.terms, MessageKind.SHARES, message).body))
            commitments.append(body.commitment)
            boxes += body.sealed
        for client, message in play.said["mask"].items():
            vector = Masked.parse(Reader(open_client(play.terms, MessageKind.MASKED, message).body), play.terms).vector
            masked.append(reduce(vector - play.vector(client), 20).tobytes())  # what was added: the masks
    for drawn in (keys, boxes, commitments, masked):
        assert len(set(drawn)) == len(drawn) >= 15


@pytest.mark.parametrize("stage", STAGES)
def test_too_few_abort_and_the_next_round_works(cast, stage):
    play = cast()
    with pytest.raises(TooFewClients, match="needed"):
        play.finish(**{stage: (2, 3, 5)})
    again = cast(attempt=1)
    assert (again.finish().total == again.expected(2, 3, 5, 7, 11)).all()
    after = cast(round_=5)
    assert (
        after.finish(**{stage: (2, 3)}).total
        == after.expected(*((5, 7, 11) if stage in STAGES[:3] else (2, 3, 5, 7, 11)))
    ).all()


def test_traffic_is_what_was_sent():
    terms, rows = SumTerms(1, tuple(FOUR.tolist()), 100, 24, 3, 3), {c: np.zeros(100, np.uint32) for c in FOUR.tolist()}
    sizes = []
    summed = play_full(
        terms, FOUR, rows.__getitem__, {"mask": {9}}, listen=lambda *heard: sizes.append((heard[0], len(heard[2])))
    )
    for stage in STAGES:
        assert summed.traffic[stage].sent == sum(size for name, size in sizes if name == stage)
        assert summed.traffic[stage].clients == (4 if stage in STAGES[:2] else 3)
    assert 300 < summed.traffic["mask"].sent / 3 < 300 + 130
    assert summed.traffic["unmask"].received == 0 < summed.traffic["consent"].received


def test_plays_do_not_change_what_they_are_given():
    rows = vectors(FOUR, 5, 16)
    before, terms = rows.copy(), SumTerms(1, tuple(FOUR.tolist()), 5, 16, 3, 3)
    for play in (play_exact, play_masked, play_full):
        play(terms, FOUR, dict(zip(FOUR.tolist(), rows, strict=True)).__getitem__, {"mask": {4}})
    assert (rows == before).all()


@pytest.mark.parametrize(
    ("rows", "clients"),
    [
        (np.zeros((2, 3), np.uint64), [1, 2]),
        (np.zeros((2, 3), np.uint32), [2, 1]),
        (np.zeros((2, 3), np.uint32), [1, 2, 3]),
    ],
)
def test_vectors_must_fit_modulus_and_clients(rows, clients):
    with pytest.raises(RecipeError, match="residues"):
        secure_sum(rows, clients=np.array(clients), modulus_bits=20, topology=Topology(1, 1))
