"""Messages: what is written is read back, and whatever else comes is refused by name."""

import zlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sordino.aggregate.integers import reduce, word
from sordino.aggregate.secure import messages
from sordino.aggregate.secure.errors import Malformed, OutOfTurn, WrongRound, WrongVector
from sordino.aggregate.secure.keys import Identity
from sordino.aggregate.secure.messages import Masked, pack_small, parse_small
from sordino.aggregate.secure.terms import Terms
from sordino.aggregate.secure.wire import Kind, Reader, from_client, from_server, open_client, open_server
from sordino.errors import ProtocolError, RecipeError

TERMS = Terms(round_=4, width=6, modulus_bits=20, threshold=2, smallest_cohort=2, reveals=True)

keys, secrets, signatures = (st.binary(min_size=n, max_size=n) for n in (32, 32, 64))
flags = arrays(bool, st.integers(0, 40))
advertise = st.builds(messages.Advertise, keys, keys, keys)
entry = st.builds(messages.Entry, st.integers(0, 2**64 - 1), advertise, signatures)
named = st.dictionaries(st.integers(0, 2**32 - 1), secrets, max_size=4)
small = arrays(np.int64, TERMS.width, elements=st.integers(-(2**63), 2**63 - 1))
BODIES = {
    messages.Advertise: advertise,
    messages.Roster: st.lists(entry, max_size=4, unique_by=lambda e: e.client).map(
        lambda entries: messages.Roster(tuple(sorted(entries, key=lambda e: e.client)))
    ),
    messages.Shares: st.builds(messages.Shares, secrets, st.lists(st.binary(min_size=80, max_size=80), max_size=4)),
    messages.Inbox: st.builds(messages.Inbox, flags, st.lists(st.binary(min_size=80, max_size=80), max_size=4)),
    messages.Survivors: st.builds(messages.Survivors, flags),
    messages.Consent: st.builds(messages.Consent, secrets),
    messages.Request: st.builds(
        messages.Request, flags, flags, st.dictionaries(st.integers(0, 2**32 - 1), signatures, max_size=4)
    ),
    messages.Unmask: st.builds(messages.Unmask, named, named, small),
}
TAKES_TERMS = (messages.Unmask, messages.Masked)


def parse(kind, data):
    return kind.parse(Reader(data), *([TERMS] if kind in TAKES_TERMS else []))


def same(a, b):
    return all(
        np.array_equal(x, y) if isinstance(x, np.ndarray) else x == y
        for x, y in zip(vars(a).values(), vars(b).values(), strict=True)
    )


@pytest.mark.parametrize("kind", BODIES)
@settings(deadline=None, max_examples=40)
@given(st.data())
def test_bodies_come_back_as_they_went(kind, data):
    body = data.draw(BODIES[kind])
    assert same(parse(kind, body.pack()), body)


@pytest.mark.parametrize("kind", BODIES)
@settings(deadline=None, max_examples=40)
@given(st.data())
def test_truncated_or_longer_bodies_are_malformed(kind, data):
    packed = data.draw(BODIES[kind]).pack()
    with pytest.raises(Malformed):
        parse(kind, packed[: data.draw(st.integers(0, len(packed) - 1))])
    with pytest.raises(Malformed):
        parse(kind, packed + data.draw(st.binary(min_size=1, max_size=9)))


@pytest.mark.parametrize("kind", [*BODIES, messages.Masked])
@settings(deadline=None, max_examples=150)
@given(st.binary(max_size=400))
def test_any_bytes_are_parsed_or_refused_by_name(kind, data):
    try:
        body = parse(kind, data)
    except ProtocolError:
        return
    if kind is not messages.Unmask:  # a Huffman code can be written in many ways; all else in one
        assert body.pack(*([TERMS] if kind in TAKES_TERMS else [])) == data


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 64), st.integers(1, 40), st.randoms(use_true_random=False))
def test_vectors_travel_in_as_few_bytes_as_their_modulus_needs(bits, width, random):
    terms = replace(TERMS, modulus_bits=bits, width=width)
    vector = reduce(np.array([random.getrandbits(64) for _ in range(width)], np.uint64).astype(word(bits)), bits)
    packed = Masked(vector).pack(terms)
    assert len(packed) == 5 + width * -(-bits // 8)
    assert (Masked.parse(Reader(packed), terms).vector == vector).all()


@pytest.mark.parametrize(
    "changes", [{"width": 7}, {"width": 5}, {"modulus_bits": 21}, {"modulus_bits": 16}, {"modulus_bits": 64}]
)
def test_vectors_of_another_shape_are_refused(changes):
    other = replace(TERMS, **changes)
    packed = Masked(np.zeros(other.width, word(other.modulus_bits))).pack(other)
    with pytest.raises(WrongVector):
        Masked.parse(Reader(packed), TERMS)


def test_entries_beyond_the_modulus_are_refused():
    packed = Masked(np.full(6, 2**20, np.uint32)).pack(TERMS)
    with pytest.raises(WrongVector, match="residues"):
        Masked.parse(Reader(packed), TERMS)


@given(arrays(np.int64, st.integers(1, 50), elements=st.integers(-(2**63), 2**63 - 1)))
def test_small_integers_come_back(values):
    assert (parse_small(Reader(pack_small(values)), len(values)) == values).all()


@pytest.mark.parametrize("stddev", [0.5, 6.0, 300.0])
def test_small_integers_travel_close_to_their_entropy(stddev):
    values = np.rint(np.random.default_rng(0).normal(0, stddev, 50_000)).astype(np.int64)
    counts = np.unique_counts(values).counts / len(values)
    entropy = -(counts * np.log2(counts)).sum()
    bits = 8 * len(pack_small(values)) / len(values)
    assert entropy - 0.01 < bits < 1.15 * entropy + 0.3


def test_a_bomb_is_not_expanded():
    bomb = bytes([1]) + zlib.compress(bytes(10**7))
    with pytest.raises(Malformed, match="6 entries"):
        parse_small(Reader(bomb), 6)
    for damaged in (
        bytes([3]) + bomb[1:],
        bomb[:1] + b"nonsense",
        pack_small(np.arange(5)),
        pack_small(np.arange(6))[:-1],
    ):
        with pytest.raises(Malformed):
            parse_small(Reader(damaged), 6)


def test_envelopes_name_round_terms_kind_and_sender():
    identity = Identity()
    message = from_client(TERMS, Kind.CONSENT, 17, b"body", identity)
    signed = open_client(TERMS, Kind.CONSENT, message)
    assert (signed.sender, bytes(signed.body)) == (17, b"body")
    signed.verify(identity.public)
    with pytest.raises(OutOfTurn):
        open_client(TERMS, Kind.MASKED, message)
    for changes in (
        {"round_": 5},
        {"attempt": 1},
        {"width": 7},
        {"federation": "other"},
        {"threshold": 1},
        {"degree": 2},
    ):
        with pytest.raises(WrongRound):
            open_client(replace(TERMS, **changes), Kind.CONSENT, message)
    for broken in (message[:60], b"", b"SRDN", b"X" + message[1:], message[:4] + b"\x02" + message[5:]):
        with pytest.raises(Malformed):
            open_client(TERMS, Kind.CONSENT, broken)


def test_the_format_is_version_1():
    # golden: changing this changes the wire format, and needs a new version
    terms = Terms(round_=258, width=3, modulus_bits=24, threshold=2, smallest_cohort=2)
    vector = np.array([1, 2**23, 2**24 - 1], np.uint32)
    message = from_server(terms, Kind.MASKED, Masked(vector).pack(terms))
    assert message.hex() == (
        "5352444e" "01" "05" "0201000000000000" + terms.context.hex() + "18" "03000000" "010000" "000080" "ffffff"
    )  # fmt: skip
    assert terms.context.hex() == "f050f7309b3355fd0f97173dca9a6fee"


@settings(deadline=None, max_examples=200)
@given(st.binary(max_size=200), st.sampled_from(list(Kind)))
def test_any_bytes_behind_a_valid_header_are_refused_or_read(data, kind):
    for wrapped in (data, from_server(TERMS, kind, data)):
        for opener in (open_client, open_server):
            try:
                opener(TERMS, kind, wrapped)
            except ProtocolError:
                continue


@pytest.mark.parametrize(
    "changes",
    [
        {"threshold": 0},
        {"threshold": 3},
        {"modulus_bits": 0},
        {"modulus_bits": 65},
        {"width": 0},
        {"degree": 3},
        {"round_": -1},
    ],
)
def test_impossible_terms_are_refused(changes):
    with pytest.raises(RecipeError):
        replace(TERMS, **changes)


def test_every_setting_is_bound_into_the_context():
    other = Terms(5, 7, 21, 1, 3, 2, False, 1, "other")
    for name in vars(other):
        if name != "context":
            assert replace(TERMS, **{name: getattr(other, name)}).context != TERMS.context
