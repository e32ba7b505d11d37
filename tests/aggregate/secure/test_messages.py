"""Messages: what is written is read back, and whatever else comes is refused by name."""

import zlib
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sordino.aggregate.integers import reduce, word
from sordino.aggregate.secure import messages, wire
from sordino.aggregate.secure.errors import Malformed, OutOfTurn, WrongRound, WrongVector
from sordino.aggregate.secure.keys import Identity
from sordino.aggregate.secure.messages import Masked
from sordino.aggregate.secure.small import pack_small, parse_small
from sordino.aggregate.secure.terms import SumMechanism, SumTerms
from sordino.aggregate.secure.wire import (
    MessageKind,
    Reader,
    from_client,
    from_server,
    most_bytes,
    open_client,
    open_server,
)
from sordino.errors import ProtocolError, RecipeError

TERMS = SumTerms(4, (1, 5, 17), 6, 20, threshold=2, smallest_cohort=2, reveals=True)

keys, secrets, signatures = (st.binary(min_size=n, max_size=n) for n in (32, 16, 64))
flags = arrays(bool, st.integers(0, 40))
advertise = st.builds(messages.Advertise, keys, keys)
entry = st.builds(messages.RosterEntry, st.integers(0, 2**64 - 1), advertise, signatures)
places = st.integers(0, 2**32 - 1)
named = st.dictionaries(places, secrets, max_size=4)
small = arrays(np.int64, TERMS.width, elements=st.integers(-(2**63), 2**63 - 1))


def by_place(size):
    return st.dictionaries(places, st.binary(min_size=size, max_size=size), max_size=4)


BODIES = {
    messages.Advertise: advertise,
    messages.Roster: st.lists(entry, max_size=4, unique_by=lambda e: e.client).map(
        lambda entries: messages.Roster.of(sorted(entries, key=lambda e: e.client))
    ),
    messages.Shares: st.builds(
        messages.Shares, keys, by_place(32), st.lists(st.binary(min_size=80, max_size=80), max_size=4)
    ),
    messages.Inbox: st.builds(messages.Inbox, flags, by_place(112)),
    messages.SurvivorList: st.builds(messages.SurvivorList, flags, by_place(64)),
    messages.Consent: st.builds(messages.Consent, keys, signatures, by_place(32)),
    messages.UnmaskRequest: st.builds(messages.UnmaskRequest, by_place(64)),
    messages.Unmask: st.builds(messages.Unmask, named, named, small),
}
TAKES_TERMS = (messages.Unmask, messages.Masked)


def parse(kind, data):
    return kind.parse(Reader(data), *([TERMS] if kind in TAKES_TERMS else []))


def same(a, b):
    return all(
        np.array_equal(x, y) if isinstance(x, np.ndarray) else x == y
        for x, y in ((getattr(a, f.name), getattr(b, f.name)) for f in fields(a))
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
def test_vectors_travel_in_as_many_bits_as_their_modulus_has(bits, width, random):
    terms = replace(TERMS, modulus_bits=bits, width=width)
    vector = reduce(np.array([random.getrandbits(64) for _ in range(width)], np.uint64).astype(word(bits)), bits)
    packed = Masked(vector, {}).pack(terms)
    assert len(packed) == 9 + width * (bits // 8) + -(-width * (bits % 8) // 8)
    assert (Masked.parse(Reader(packed), terms).vector == vector).all()


@pytest.mark.parametrize(
    "changes", [{"width": 7}, {"width": 5}, {"modulus_bits": 21}, {"modulus_bits": 16}, {"modulus_bits": 64}]
)
def test_vectors_of_another_shape_are_refused(changes):
    other = replace(TERMS, **changes)
    packed = Masked(np.zeros(other.width, word(other.modulus_bits)), {}).pack(other)
    with pytest.raises(WrongVector):
        Masked.parse(Reader(packed), TERMS)


@pytest.mark.parametrize("width", [1, 3, 5])
def test_bits_behind_the_last_entry_are_refused(width):
    terms = replace(TERMS, modulus_bits=20, width=width)
    packed = bytearray(Masked(np.zeros(width, np.uint32), {}).pack(terms))
    packed[-1] |= 1
    with pytest.raises(WrongVector, match="padded"):
        Masked.parse(Reader(packed), terms)


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
    message = from_client(TERMS, MessageKind.CONSENT, 17, b"body", identity)
    signed = open_client(TERMS, MessageKind.CONSENT, message)
    assert (signed.sender, bytes(signed.body)) == (17, b"body")
    signed.verify(identity.public)
    with pytest.raises(OutOfTurn):
        open_client(TERMS, MessageKind.MASKED, message)
    for changes in (
        {"round_": 5},
        {"attempt": 1},
        {"width": 7},
        {"federation": "other"},
        {"run": "other"},
        {"clients": (1, 5, 18)},
        {"mechanism": b"m" * 32},
        {"corrupt": 1},
        {"margin": 1},
        {"threshold": 1},
        {"degree": 2},
    ):
        with pytest.raises(WrongRound):
            open_client(replace(TERMS, **changes), MessageKind.CONSENT, message)
    for broken in (message[:60], b"", b"SRDN", b"X" + message[1:], message[:4] + b"\x01" + message[5:]):
        with pytest.raises(Malformed):
            open_client(TERMS, MessageKind.CONSENT, broken)


def test_the_format_is_version_4():
    # golden: changing this changes the wire format, and needs a new version
    terms = SumTerms(round_=258, clients=(3, 4, 7), width=3, modulus_bits=20, threshold=2, smallest_cohort=2)
    vector = np.array([1, 2**19, 2**20 - 1], np.uint32)
    message = from_server(terms, MessageKind.MASKED, Masked(vector, {}).pack(terms))
    assert message.hex() == (
        "5352444e" "04" "05" "0201000000000000" + terms.context.hex() + "00000000" "14" "03000000"
        "0100" "0000" "ffff" "08f0"
    )  # fmt: skip
    assert terms.context.hex() == "732ed229f5689549c7a4d0d8aef761a8ca650e72a899ec7869bed99e1979accd"


@pytest.mark.parametrize("kind", list(MessageKind))
def test_what_is_too_long_is_refused_before_anything_is_hashed_or_read(kind, monkeypatch):
    assert TERMS.context  # is hashed once, beforehand
    monkeypatch.setattr(wire.hashlib, "sha256", None)
    long = from_server(TERMS, kind, bytes(most_bytes(TERMS, kind) + 8 + 64 + 1))
    for opener in (open_client, open_server):
        with pytest.raises(Malformed, match="too many"):
            opener(TERMS, kind, long)


@settings(deadline=None, max_examples=100)
@given(st.binary(max_size=300), st.integers(0, 200))
def test_terms_come_back_or_are_refused_by_name(data, cut):
    packed = replace(TERMS, federation="f", run="r", mechanism=b"m" * 32).pack()
    assert SumTerms.parse(packed).pack() == packed
    for damaged in (data, packed[:cut], packed + data[:1] if data else packed[:-1], packed[:cut] + data):
        if damaged != packed:
            try:
                assert SumTerms.parse(damaged).pack() == damaged
            except Malformed:
                continue


@settings(deadline=None, max_examples=200)
@given(st.binary(max_size=200), st.sampled_from(list(MessageKind)))
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
        {"degree": 1, "threshold": 3, "smallest_cohort": 3},
        {"round_": -1},
        {"clients": ()},
        {"clients": (-1, 5, 17)},
        {"clients": (1, 5, 2**64)},
        {"clients": (5, 1, 17)},
        {"clients": (1, 1, 17)},
        {"mechanism": b""},
        {"corrupt": -1},
        {"margin": -1},
        {"run": "x" * 256},
    ],
)
def test_impossible_terms_are_refused(changes):
    with pytest.raises(RecipeError):
        replace(TERMS, **changes)


def test_every_setting_is_bound_into_the_context():
    other = SumTerms(5, (1, 5), 7, 21, 1, 3, 2, 1, 1, False, 1, b"m" * 32, "other", "other", True)
    for field in fields(other):
        assert replace(TERMS, **{field.name: getattr(other, field.name)}).context != TERMS.context
    assert len(TERMS.context) == 32


def test_the_mechanism_s_digest_tells_all_its_numbers_apart():
    numbers = SumMechanism(1.0, 2.0, 3.0, 4, 5, 6)
    for field in fields(numbers):
        assert replace(numbers, **{field.name: 9}).digest != numbers.digest
