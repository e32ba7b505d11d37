"""Malice that must fail cleanly: every row of the table in docs/secure-aggregation.md, by name."""

import copy
import os
import re
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sordino.aggregate.secure import keys as keys_module
from sordino.aggregate.secure.client import SumClient
from sordino.aggregate.secure.errors import (
    BadShare,
    BadSignature,
    ForeignShare,
    KeySwapped,
    Malformed,
    OutOfTurn,
    SplitView,
    TooFewClients,
    WrongRound,
    WrongVector,
)
from sordino.aggregate.secure.keys import Agreement, Identity
from sordino.aggregate.secure.messages import (
    Advertise,
    Consent,
    Inbox,
    Masked,
    Roster,
    RosterEntry,
    Shares,
    SurvivorList,
    Unmask,
    UnmaskRequest,
)
from sordino.aggregate.secure.session import STAGES
from sordino.aggregate.secure.wire import (
    HEADER,
    MessageKind,
    Reader,
    fingerprint,
    from_client,
    from_server,
    open_client,
    open_server,
)
from sordino.errors import ProtocolError

from .conftest import IDENTITIES, IDS, POLICY, REGISTRY

ANSWERS = {
    "share": MessageKind.ROSTER,
    "mask": MessageKind.INBOX,
    "consent": MessageKind.SURVIVORS,
    "unmask": MessageKind.REQUEST,
}
SENT = dict(
    zip(
        STAGES,
        (MessageKind.ADVERTISE, MessageKind.SHARES, MessageKind.MASKED, MessageKind.CONSENT, MessageKind.UNMASK),
        strict=True,
    )
)


def heard(play, client, stage, kind):
    """What the server told a client, opened."""
    return kind.parse(open_server(play.terms, ANSWERS[stage], play.heard[client]))


def lie(play, stage, body):
    """What a server sends that says something else."""
    return from_server(play.terms, ANSWERS[stage], body.pack())


def refused(play, stage, client, message, error):
    """The client refuses, and is as it was: it says nothing of another stage, and answers the truth once."""
    for _ in range(2):
        with pytest.raises(error):
            play.say(stage, client, message)
    for other in STAGES:
        if other != stage:
            with pytest.raises(OutOfTurn):
                play.say(other, client)
    assert play.say(stage, client)
    with pytest.raises(OutOfTurn):
        play.say(stage, client)


# A server that wants both secrets of one peer


def test_a_client_hands_out_one_secret_of_each_peer(cast):
    play = cast().until("unmask", mask=(3,))
    said = unmasking(play, 2)
    assert sorted(said.seeds) == [0, 2, 3, 4] and sorted(said.keys) == [1]
    with pytest.raises(OutOfTurn):
        play.say("unmask", 2)


# A server that lies about who is alive


def consent_of(play, message):
    return Consent.parse(Reader(open_client(play.terms, MessageKind.CONSENT, message).body))


def two_stories(cast):
    """Tells clients 2 and 5 that client 11 is gone, and everybody else the truth."""
    play = cast().until("consent")
    told = heard(play, 2, "consent", SurvivorList)
    without = told.alive.copy()
    without[4] = False
    told_otherwise = lie(play, "consent", SurvivorList(without, {}))
    consents = {c: play.say("consent", c, told_otherwise if c in (2, 5) else None) for c in IDS}
    signatures = {c: consent_of(play, message).names for c, message in consents.items()}
    return play, told.alive, without, consents, signatures


def test_consents_to_another_story_are_noticed_by_the_clients(cast):
    play, alive, without, _, signatures = two_stories(cast)
    everyone = {place: signatures[c] for place, c in enumerate(IDS)}
    for client, seeds in ((3, alive), (2, without)):
        others = {place: s for place, s in everyone.items() if IDS[place] != client and seeds[place]}
        with pytest.raises(SplitView):
            play.say("unmask", client, lie(play, "unmask", UnmaskRequest(others)))


def test_passing_on_only_the_consents_that_fit_is_not_enough(cast):
    play, _, _, _, signatures = two_stories(cast)
    with pytest.raises(SplitView, match="2 clients agree"):  # client 2 with client 5, and three are needed
        play.say("unmask", 2, lie(play, "unmask", UnmaskRequest({2: signatures[5]})))


def test_consents_to_another_story_are_noticed_by_an_honest_server(cast):
    play, _, _, consents, _ = two_stories(cast)
    with pytest.raises(SplitView):
        play.server.receive(consents[2])
    play.server.receive(consents[3])


def test_forged_and_foreign_consents_do_not_count(cast):
    for place in (1, 99):
        play = cast().until("unmask", mask=(3,)) if place == 1 else cast().until("unmask")
        asked = heard(play, 2, "unmask", UnmaskRequest)
        asked = UnmaskRequest({2: asked.consents[2], 3: asked.consents[3], place: os.urandom(64)})
        refused(play, "unmask", 2, lie(play, "unmask", asked), SplitView)
    play = cast().until("unmask")
    own = heard(play, 2, "unmask", UnmaskRequest).consents[0]
    refused(play, "unmask", 2, lie(play, "unmask", UnmaskRequest({0: own, 3: own})), SplitView)


@pytest.mark.parametrize("stage", ["mask", "consent"])
def test_a_client_that_is_left_out_goes_no_further(cast, stage):
    play = cast().until(stage)
    kind = Inbox if stage == "mask" else SurvivorList
    told = heard(play, 2, stage, kind)
    name = "sharers" if stage == "mask" else "alive"
    flags = getattr(told, name).copy()
    flags[0] = False
    refused(play, stage, 2, lie(play, stage, replace(told, **{name: flags})), SplitView)


def test_survivors_who_never_shared_are_not_believed(cast):
    play = cast().until("consent", share=(3,))
    refused(play, "consent", 2, lie(play, "consent", SurvivorList(np.ones(5, bool), {})), SplitView)


@pytest.mark.parametrize("stage", ["share", "mask", "consent"])
def test_a_sum_of_too_few_is_refused_by_the_clients_themselves(cast, stage):
    play = cast().until(stage)
    few = np.array([True, True, False, False, False])
    told = {
        "share": lambda: Roster.of(lines(play)[:2]),
        "mask": lambda: Inbox(few, {1: heard(play, 2, "mask", Inbox).boxes[1]}),
        "consent": lambda: SurvivorList(few, {}),
    }[stage]()
    refused(play, stage, 2, lie(play, stage, told), TooFewClients)


@pytest.mark.parametrize("stage", ["mask", "consent"])
def test_lists_of_another_length_than_the_roster_are_malformed(cast, stage):
    play = cast().until(stage)
    long = np.ones(6, bool)
    told = {
        "mask": lambda: Inbox(long, heard(play, 2, "mask", Inbox).boxes),
        "consent": lambda: SurvivorList(long, {}),
    }[stage]()
    refused(play, stage, 2, lie(play, stage, told), Malformed)


# A server, or somebody on the way, that replays a previous round


@pytest.mark.parametrize("stage", list(ANSWERS))
def test_a_server_s_message_of_another_round_is_refused(cast, stage):
    old, new = cast(round_=3).until(stage), cast().until(stage)
    refused(new, stage, 2, old.heard[2], WrongRound)


@pytest.mark.parametrize(("stage", "error"), [("share", KeySwapped), ("unmask", SplitView)])
def test_a_server_s_message_of_another_round_is_refused_under_a_new_header(cast, stage, error):
    old, new = cast(round_=3).until(stage), cast().until(stage)
    refused(new, stage, 2, new.heard[2][:HEADER] + old.heard[2][HEADER:], error)


def test_boxes_of_another_round_under_a_new_header_are_complained_about(cast):
    old, new = cast(round_=3).until("mask"), cast().until("mask")
    said = new.say("mask", 2, new.heard[2][:HEADER] + old.heard[2][HEADER:])
    masked = Masked.parse(Reader(open_client(new.terms, MessageKind.MASKED, said).body), new.terms)
    assert sorted(masked.complaints) == [1, 2, 3, 4]
    with pytest.raises(ForeignShare):
        new.server.receive(said)


@pytest.mark.parametrize("stage", STAGES)
def test_a_client_s_message_of_another_round_is_refused(cast, stage):
    old, new = cast(round_=3), cast().until(stage)
    old.finish()
    with pytest.raises(WrongRound):
        new.server.receive(old.said[stage][2])
    with pytest.raises((BadSignature, ProtocolError)):
        new.server.receive(new.say(stage, 2)[:HEADER] + old.said[stage][2][HEADER:])


def test_another_attempt_or_federation_is_another_round(cast):
    for changes in (
        {"attempt": 1},
        {"federation": "elsewhere"},
        {"run": "another"},
        {"mechanism": b"m" * 32},
        {"threshold": 4, "smallest_cohort": 4},
        {"degree": 4},
    ):
        old, new = cast(**changes).until("share"), cast().until("share")
        refused(new, "share", 2, old.heard[2], WrongRound)


# A server that swaps public keys


def lines(play):
    roster = heard(play, 2, "share", Roster)
    return [roster.entry(place) for place in range(roster.size)]


def swapped(play, place, **changes):
    entries = lines(play)
    entries[place] = replace(entries[place], **changes)
    return Roster.of(entries)


def test_a_swapped_key_is_noticed_by_the_signature(cast):
    for name in ("share_key", "mask_key"):
        play = cast().until("share")
        keys = lines(play)[3].keys
        roster = swapped(play, 3, keys=replace(keys, **{name: Agreement().public}))
        refused(play, "share", 2, lie(play, "share", roster), KeySwapped)


def impostor(play, client):
    """Keys in a client's name, properly signed by somebody else."""
    stranger = Identity()
    keys = Advertise(Agreement().public, Agreement().public)
    signature = stranger.sign(fingerprint(play.terms, MessageKind.ADVERTISE, client, keys.pack()))
    return RosterEntry(client, keys, signature)


def test_a_swapped_identity_is_noticed_by_the_registry(cast):
    play = cast().until("share")
    fake = impostor(play, 7)
    roster = swapped(play, 3, keys=fake.keys, signature=fake.signature)
    refused(play, "share", 2, lie(play, "share", roster), KeySwapped)


def test_an_invented_client_is_noticed_by_the_registry(cast):
    play = cast().until("share")
    roster = Roster.of([*lines(play)[:4], impostor(play, 99)])
    refused(play, "share", 2, lie(play, "share", roster), KeySwapped)


def test_a_client_that_is_registered_otherwise_does_not_begin(cast):
    with pytest.raises(KeySwapped, match="register"):
        SumClient(cast().terms, 2, Identity(), REGISTRY, POLICY)


def test_our_own_keys_and_their_repetition_are_noticed(cast):
    for place, other in ((0, 1), (1, 0), (2, 3)):
        play = cast().until("share")
        stolen = lines(play)[other].keys
        refused(play, "share", 2, lie(play, "share", swapped(play, place, keys=stolen)), KeySwapped)
    play = cast().until("share")
    refused(play, "share", 2, lie(play, "share", Roster.of(lines(play)[1:])), KeySwapped)


def test_a_peer_that_signs_somebody_else_s_key_as_its_own_is_noticed(cast):
    play = cast().until("share")
    stolen = lines(play)[2].keys.share_key
    keys = Advertise(stolen, Agreement().public)
    signature = IDENTITIES[7].sign(fingerprint(play.terms, MessageKind.ADVERTISE, 7, keys.pack()))
    refused(play, "share", 2, lie(play, "share", swapped(play, 3, keys=keys, signature=signature)), KeySwapped)


def test_a_key_without_secrets_is_refused(cast):
    play = cast().until("share")
    keys = Advertise(bytes(32), Agreement().public)  # a point of low order
    signature = IDENTITIES[7].sign(fingerprint(play.terms, MessageKind.ADVERTISE, 7, keys.pack()))
    refused(play, "share", 2, lie(play, "share", swapped(play, 3, keys=keys, signature=signature)), KeySwapped)


@pytest.mark.parametrize("which", ["share_key", "mask_key"])
@pytest.mark.parametrize("point", sorted(keys_module._LOW_ORDER))
def test_one_client_s_key_without_secrets_does_not_stop_the_others(cast, which, point):
    # the server let it in, and everybody who had a mask or a box with it refused to go on: nobody was to blame
    with pytest.raises(KeySwapped):
        Agreement().with_(point.to_bytes(32, "little"))
    play = cast()
    keys = replace(Advertise(Agreement().public, Agreement().public), **{which: point.to_bytes(32, "little")})
    with pytest.raises(KeySwapped, match="client 7 sent keys"):
        play.server.receive(from_client(play.terms, MessageKind.ADVERTISE, 7, keys.pack(), IDENTITIES[7]))
    opened = play.finish(advertise=(7,))
    rest = [client for client in IDS if client != 7]
    assert (opened.total == play.expected(*rest)).all() and list(opened.blamed) == [7]


def test_a_roster_out_of_order_is_malformed(cast):
    play = cast().until("share")
    refused(play, "share", 2, lie(play, "share", Roster.of(lines(play)[::-1])), Malformed)


def test_a_stranger_is_not_let_in_by_the_server(cast):
    play, stranger = cast(), Identity()
    keys = Advertise(Agreement().public, Agreement().public)
    with pytest.raises(BadSignature):
        play.server.receive(from_client(play.terms, MessageKind.ADVERTISE, 7, keys.pack(), stranger))
    with pytest.raises(OutOfTurn):
        play.server.receive(from_client(play.terms, MessageKind.ADVERTISE, 99, keys.pack(), stranger))


# Shares for somebody else


def test_a_share_that_was_sealed_for_somebody_else_is_not_kept(cast):
    play = cast().until("mask")
    mine, yours = heard(play, 2, "mask", Inbox), heard(play, 3, "mask", Inbox)
    said = play.say("mask", 2, lie(play, "mask", replace(mine, boxes={**mine.boxes, 2: yours.boxes[2]})))
    masked = Masked.parse(Reader(open_client(play.terms, MessageKind.MASKED, said).body), play.terms)
    assert list(masked.complaints) == [2]


def test_boxes_that_are_missing_or_of_somebody_else_are_refused(cast):
    play = cast().until("mask", share=(11,))
    mine = heard(play, 2, "mask", Inbox)
    for boxes in (
        {place: box for place, box in mine.boxes.items() if place != 1},
        {**mine.boxes, 4: mine.boxes[1]},
        {**mine.boxes, 0: mine.boxes[1]},
        {**mine.boxes, 77: mine.boxes[1]},
    ):
        with pytest.raises(SplitView):
            play.say("mask", 2, lie(play, "mask", replace(mine, boxes=boxes)))
    assert play.say("mask", 2)


def unmasking(play, client):
    return Unmask.parse(
        Reader(open_client(play.terms, MessageKind.UNMASK, play.say("unmask", client)).body), play.terms
    )


def signed(play, stage, client, body):
    return from_client(play.terms, SENT[stage], client, body.pack(), IDENTITIES[client])


def test_shares_of_somebody_that_nobody_asked_about_are_refused(cast):
    play = cast().until("unmask", mask=(3,))
    honest = unmasking(play, 2)
    for seeds, keys in (
        ({**honest.seeds, 1: honest.keys[1]}, honest.keys),
        (honest.seeds, {**honest.keys, 2: honest.seeds[2]}),
        ({place: s for place, s in honest.seeds.items() if place != 4}, honest.keys),
        ({**honest.seeds, 77: honest.seeds[2]}, honest.keys),
    ):
        with pytest.raises(ForeignShare):
            play.server.receive(signed(play, "unmask", 2, Unmask(seeds, keys)))
    assert play.server.receive(signed(play, "unmask", 2, honest)) == 2


@pytest.mark.parametrize("kind", ["seeds", "keys"])
def test_a_wrong_share_is_dropped_and_pinned_on_its_holder(cast, kind):
    play = cast().until("unmask", mask=(3,))
    honest = unmasking(play, 2)
    place, share = next(iter(getattr(honest, kind).items()))
    wrong = replace(honest, **{kind: {**getattr(honest, kind), place: bytes([share[0] ^ 1]) + share[1:]}})
    with pytest.raises(BadShare, match="client 2 returned"):
        play.server.receive(signed(play, "unmask", 2, wrong))
    for client in (5, 7, 11):
        play.server.receive(play.say("unmask", client))
    opened = play.server.open()
    assert (opened.total == play.expected(2, 5, 7, 11)).all() and list(opened.blamed) == [2]


def test_too_few_sealed_shares_are_malformed(cast):
    play = cast().until("share")
    honest = Shares.parse(Reader(open_client(play.terms, MessageKind.SHARES, play.say("share", 2)).body))
    for sealed in (honest.sealed[1:], honest.sealed[2:]):
        with pytest.raises(Malformed):
            play.server.receive(signed(play, "share", 2, replace(honest, sealed=sealed)))


# A client that sends nonsense


class Packed:
    """A body that is what it is."""

    def __init__(self, data):
        self.data = data

    def pack(self):
        return self.data


def test_a_vector_of_the_wrong_length_or_modulus_is_refused(cast):
    play = cast().until("mask")
    for changes, kind in (
        ({"width": 8}, np.uint32),
        ({"modulus_bits": 32}, np.uint32),
        ({"modulus_bits": 16}, np.uint16),
    ):
        terms = replace(play.terms, **changes)
        body = Packed(Masked(np.zeros(terms.width, kind), {}).pack(terms))
        with pytest.raises(WrongVector):
            play.server.receive(signed(play, "mask", 2, body))
    padded = bytearray(Masked(np.zeros(9, np.uint32), {}).pack(play.terms))  # 9 entries of 20 bits end within a byte
    padded[-1] |= 1
    with pytest.raises(WrongVector):
        play.server.receive(signed(play, "mask", 2, Packed(bytes(padded))))
    assert (play.finish().total == play.expected(*IDS)).all()


@pytest.mark.parametrize(
    "vector",
    [np.zeros(8, np.uint32), np.zeros(9, np.uint64), np.full(9, 2**20, np.uint32), np.zeros((9, 1), np.uint32)],
)
def test_a_client_does_not_mask_what_does_not_fit(cast, vector):
    play = cast().until("mask")
    with pytest.raises(WrongVector):
        play.clients[2].mask(play.heard[2], vector)


@pytest.mark.parametrize("stage", STAGES)
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_truncated_and_flipped_messages_change_nothing(cast, stage, data):
    play = cast().until(stage)
    message = play.say(stage, 2)
    cut = data.draw(st.integers(0, len(message) - 1))
    bit = data.draw(st.integers(0, 8 * len(message) - 1))
    flipped = bytearray(message)
    flipped[bit // 8] ^= 1 << bit % 8
    for damaged in (message[:cut], bytes(flipped), message + b"\0"):
        with pytest.raises(ProtocolError):
            play.server.receive(damaged)
    assert play.server.receive(message) == 2
    with pytest.raises(OutOfTurn):
        play.server.receive(message)


@pytest.mark.parametrize("stage", list(ANSWERS))
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_damaged_answers_stop_the_client(cast, stage, data):
    play = cast().until(stage, mask=(3,))
    heard_ = play.heard[2]
    known = play.terms, play.server.due
    bit = data.draw(st.integers(0, 8 * len(heard_) - 1))
    flipped = bytearray(heard_)
    flipped[bit // 8] ^= 1 << bit % 8
    with suppress(ProtocolError):  # a damaged box is complained about, and the server knows that it sent another
        said = play.say(stage, 2, bytes(flipped))
        with pytest.raises(ProtocolError):
            play.server.receive(said)
    assert known == (play.terms, play.server.due)
    with pytest.raises(ProtocolError):
        play.say(stage, 5, heard_[: data.draw(st.integers(0, len(heard_) - 1))])


@pytest.mark.parametrize("stage", STAGES)
def test_nobody_speaks_for_somebody_else(cast, stage):
    play = cast().until(stage)
    message = play.say(stage, 2)
    body = open_client(play.terms, SENT[stage], message).body
    with pytest.raises(BadSignature):
        play.server.receive(from_client(play.terms, SENT[stage], 3, bytes(body), IDENTITIES[2]))


@pytest.mark.parametrize("stage", STAGES[1:])
def test_messages_out_of_turn_are_refused(cast, stage):
    play, early = cast().until(stage), cast()
    message = play.say(stage, 2)
    with pytest.raises(OutOfTurn):
        early.server.receive(message)
    with pytest.raises(OutOfTurn):
        early.clients[2].mask(b"", early.vector(2))
    with pytest.raises(OutOfTurn):
        early.server.open()


def test_who_vanished_does_not_come_back(cast):
    play = cast().until("mask", share=(3,))
    late = cast().until("mask")
    with pytest.raises(OutOfTurn):
        play.server.receive(
            from_client(play.terms, MessageKind.MASKED, 3, Masked(late.vector(3), {}).pack(play.terms), IDENTITIES[3])
        )


def test_whether_something_is_revealed_is_part_of_the_terms(cast):
    play = cast().until("unmask")
    with pytest.raises(WrongVector):
        play.clients[2].unmask(play.heard[2], lambda survivors: np.zeros(9, np.int64))
    play = cast(reveals=True).until("unmask")
    with pytest.raises(WrongVector):
        play.clients[2].unmask(play.heard[2])


def test_a_finished_server_takes_nothing_more(cast):
    play = cast()
    play.finish()
    with pytest.raises(OutOfTurn):
        play.server.open()
    with pytest.raises(OutOfTurn):
        play.server.receive(play.said["unmask"][2])
    with pytest.raises(OutOfTurn):
        play.server.close()


@pytest.mark.parametrize("stage", STAGES)
def test_many_messages_at_once_are_taken_in_as_one_after_the_other(cast, stage):
    one = cast().until(stage)
    said = [one.say(stage, client) for client in one.heard]
    forged = said[1][:-1] + bytes([said[1][-1] ^ 1])
    stranger = from_client(one.terms, one.server.due, 77, b"", IDENTITIES[2])
    heap = [said[0], b"", forged, said[1], said[0], stranger, said[2][: len(said[2]) // 2], *said[2:], said[1]]
    servers = [one.server, copy.deepcopy(one.server)]
    got = servers[0].receive_all(heap)
    for message, answer in zip(heap, got, strict=True):
        if isinstance(answer, int):
            assert servers[1].receive(message) == answer
        else:
            with pytest.raises(type(answer), match=re.escape(str(answer))):
                servers[1].receive(message)
    assert [isinstance(answer, int) for answer in got] == [True, False, False, True, *[False] * 3, *[True] * 3, False]
    assert servers[0].blamed == servers[1].blamed == {}
    assert servers[0]._awaited == servers[1]._awaited
