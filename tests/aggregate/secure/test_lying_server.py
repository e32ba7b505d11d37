"""The review's findings S1 to S9, played as attacks on real clients: each fails, and would not have on the old code."""

from dataclasses import replace

import numpy as np
import pytest

from sordino.aggregate.integers import reduce
from sordino.aggregate.secure.checks import check_agreed
from sordino.aggregate.secure.client import SumClient
from sordino.aggregate.secure.errors import (
    AnsweredAlready,
    BelowPolicy,
    KeySwapped,
    OutOfTurn,
    SplitView,
    TooFewClients,
    WrongRound,
)
from sordino.aggregate.secure.graph import choose, cut_off, exposed
from sordino.aggregate.secure.keeper import MemoryKeeper
from sordino.aggregate.secure.keys import Agreement, Identity, usable
from sordino.aggregate.secure.messages import (
    Advertise,
    Inbox,
    Masked,
    Roster,
    RosterEntry,
    Shares,
    SurvivorList,
    UnmaskRequest,
)
from sordino.aggregate.secure.policy import SumPolicy
from sordino.aggregate.secure.server import SumServer
from sordino.aggregate.secure.session import sum_terms
from sordino.aggregate.secure.state import SumState
from sordino.aggregate.secure.terms import SumTerms
from sordino.aggregate.secure.wire import MessageKind, Reader, from_client, from_server, open_client, open_server

from .conftest import IDENTITIES, IDS, POLICY, REGISTRY, TERMS

MANY = np.arange(60)
CROWD = {client: Identity() for client in range(64)}
CROWD_REGISTRY = {client: identity.public for client, identity in CROWD.items()}
SPARSE = choose(60, dropout=0.2, corrupt=0.0, sparse_from=32, security_bits=5, correctness_bits=3)
LOOSE = SumPolicy(security_bits=5)


def crowd():
    """Sixty clients on a sparse graph that have sent their shares, and the server's answers."""
    terms = sum_terms(MANY, SPARSE, 4, 16)
    server = SumServer(terms, CROWD_REGISTRY)
    parties = {c: SumClient(terms, c, CROWD[c], CROWD_REGISTRY, LOOSE) for c in MANY.tolist()}
    for party in parties.values():
        server.receive(party.advertise())
    for client, roster in server.close().items():
        server.receive(parties[client].share(roster))
    return terms, server, parties, server.close()


def test_s1_a_victim_whose_neighbours_are_hidden_sends_nothing():
    terms, server, parties, inboxes = crowd()
    assert 0 < SPARSE.degree < 59
    victim = 7
    around = [place for place in server._table.holders[server._table.rows[victim]].tolist() if place != victim]
    told = Inbox.parse(open_server(terms, MessageKind.INBOX, inboxes[victim]))
    hidden = around[: SPARSE.degree + 2 - terms.threshold]  # just enough, and fewer than may vanish
    assert len(hidden) <= len(MANY) - terms.consents
    flags = told.sharers.copy()
    flags[hidden] = False
    boxes = {sender: box for sender, box in told.boxes.items() if flags[sender]}
    lie = from_server(terms, MessageKind.INBOX, Inbox(flags, boxes).pack())
    with pytest.raises(TooFewClients, match="holders of this client's shares"):
        parties[victim].mask(lie, np.zeros(4, np.uint16))
    assert parties[victim].mask(inboxes[victim], np.zeros(4, np.uint16))


def test_s2_a_roster_of_more_than_were_invited_is_refused():
    four = SumTerms(1, (0, 1, 2, 3), 4, 16, 3, 3)
    begun = {c: SumClient(four, c, CROWD[c], CROWD_REGISTRY, POLICY) for c in four.clients}
    padded = sum_terms(np.arange(6), choose(6, dropout=0.3, corrupt=0.0), 4, 16)
    with pytest.raises(BelowPolicy, match="not among the invited"):
        SumClient(four, 5, CROWD[5], CROWD_REGISTRY, POLICY)
    lines = []
    for client in (0, 1, 2, 5):
        message = begun[client].advertise() if client in begun else _stranger(four, client)
        signed = open_client(four, MessageKind.ADVERTISE, message)
        lines.append((client, Advertise.parse(Reader(signed.body)), signed.signature))
    roster = Roster.of([RosterEntry(*line) for line in lines])
    with pytest.raises(KeySwapped, match="client 5 is in the roster and was not invited"):
        begun[0].share(from_server(four, MessageKind.ROSTER, roster.pack()))
    assert padded.threshold == 4  # six holders need four


def _stranger(terms, client):
    keys = Advertise(Agreement().public, Agreement().public)
    return from_client(terms, MessageKind.ADVERTISE, client, keys.pack(), CROWD[client])


@pytest.mark.parametrize(("threshold", "corrupt"), [(5, 0), (5, 1), (6, 2)])
def test_s2_a_threshold_that_two_groups_reach_is_refused(threshold, corrupt):
    terms = SumTerms(1, tuple(range(10)), 4, 16, threshold, 7, corrupt=corrupt)
    with pytest.raises(BelowPolicy, match="two groups"):
        SumClient(terms, 0, CROWD[0], CROWD_REGISTRY, POLICY)


def test_s2_so_few_consents_that_two_stories_find_them_are_refused():
    terms = SumTerms(1, tuple(range(10)), 4, 16, 6, 6, corrupt=2)
    with pytest.raises(BelowPolicy, match="second story"):
        SumClient(terms, 0, CROWD[0], CROWD_REGISTRY, POLICY)


def test_s3_a_client_thins_by_the_consents_that_it_has_verified(cast):
    play = cast(reveals=True).until("unmask")
    asked = UnmaskRequest.parse(open_server(play.terms, MessageKind.REQUEST, play.heard[2]))
    counted = []

    def reveal(survivors):
        counted.append(survivors)
        return np.zeros(9, np.int64)

    fewer = UnmaskRequest({place: asked.consents[place] for place in (1, 2)})
    two = UnmaskRequest({1: asked.consents[1]})
    with pytest.raises(SplitView, match="2 clients agree"):
        play.clients[2].unmask(from_server(play.terms, MessageKind.REQUEST, two.pack()), reveal)
    play.clients[2].unmask(from_server(play.terms, MessageKind.REQUEST, fewer.pack()), reveal)
    play.clients[3].unmask(play.heard[3], reveal)
    assert counted == [3, 5]  # five are said to be alive; three names were shown to the first


def test_s3_on_a_sparse_graph_the_margin_is_taken_off():
    terms, server, parties, answers = crowd()
    for stage in ("mask", "consent"):
        for client, heard in answers.items():
            party = parties[client]
            server.receive(party.mask(heard, np.zeros(4, np.uint16)) if stage == "mask" else party.consent(heard))
        answers = server.close()
    assert terms.margin > 0 and check_agreed(terms, 60) == 60 - terms.margin
    for client, heard in answers.items():
        server.receive(parties[client].unmask(heard))
    assert not server.open().total.any()


def test_s4_the_cut_that_a_ring_allowed_is_counted_in_the_bound():
    # neighbours are drawn one by one; who is cut off by adaptive dropouts is bounded, and `choose` is within the bound
    for clients, corrupt in ((1000, 0.0), (1000, 0.05), (10_000, 0.1)):
        found = choose(clients, dropout=0.1, corrupt=corrupt)
        failures = (
            exposed(clients, found.corrupt, found.degree, found.threshold, found.consents),
            cut_off(clients, found.corrupt, found.degree, found.threshold, found.consents, found.margin),
        )
        assert np.logaddexp2(*failures) <= -40


@pytest.mark.parametrize(
    ("ids", "threshold", "cohort"), [((2,), 1, 1), ((2, 3), 2, 2), (IDS, 3, 3), (IDS, 4, 4), ((2, 3, 5), 2, 3)]
)
def test_s5_floors_below_the_client_s_policy_are_refused(ids, threshold, cohort):
    terms = SumTerms(1, ids, 4, 16, threshold, cohort)
    with pytest.raises(BelowPolicy, match="at least"):
        SumClient(terms, 2, IDENTITIES[2], REGISTRY, SumPolicy(smallest_cohort=5, smallest_threshold=3))


def test_s5_fewer_corrupt_clients_and_another_mechanism_are_refused():
    for policy in (SumPolicy(3, 3, corrupt=0.2), SumPolicy(3, 3, mechanism=b"x" * 32)):
        with pytest.raises(BelowPolicy):
            SumClient(TERMS, 2, IDENTITIES[2], REGISTRY, policy)


def test_s6_the_server_has_no_say_in_who_holds_a_client_s_shares():
    terms = sum_terms(MANY, SPARSE, 4, 16)
    drawn = set()
    for _ in range(3):  # the same roster, but for this client's own keys: the draw is its own
        server = SumServer(terms, CROWD_REGISTRY)
        parties = {c: SumClient(terms, c, CROWD[c], CROWD_REGISTRY, LOOSE) for c in MANY.tolist()}
        for party in parties.values():
            server.receive(party.advertise())
        server.receive(parties[3].share(server.close()[3]))
        drawn.add(tuple(server._shares[3].digests))
    assert len(drawn) == 3


def test_s8_another_run_is_another_domain(cast):
    here, elsewhere = cast(), cast(run="another")
    with pytest.raises(WrongRound):
        here.server.receive(elsewhere.clients[2].advertise())
    assert here.server.receive(here.clients[2].advertise()) == 2


def test_s8_a_client_restored_from_a_copy_uses_other_keys_for_another_roster(cast):
    # the very same client, twice at the same stage, is shown two rosters: no box and no stream is alike
    play = cast().until("share")
    copy = play.clients[2]._state.pack()
    keeper = MemoryKeeper()
    restored = SumState.parse(copy)
    keeper.claim(restored, 1)
    twin = SumClient.resume(play.terms, IDENTITIES[2], REGISTRY, POLICY, keeper)
    roster = Roster.parse(open_server(play.terms, MessageKind.ROSTER, play.heard[2]))
    without = Roster.of([roster.entry(place) for place in range(4)])
    first = _boxes(play.terms, play.say("share", 2))
    second = _boxes(play.terms, twin.share(from_server(play.terms, MessageKind.ROSTER, without.pack())))
    assert not {box[32:] for box in first} & {box[32:] for box in second}
    assert not {box[:32] for box in first} & {box[:32] for box in second}
    again = MemoryKeeper()
    again.claim(SumState.parse(copy), 1)
    third = SumClient.resume(play.terms, IDENTITIES[2], REGISTRY, POLICY, again)
    assert _boxes(play.terms, third.share(play.heard[2])) == first  # the same roster: the very same bytes


def _boxes(terms, message):
    return Shares.parse(Reader(open_client(terms, MessageKind.SHARES, message).body)).sealed


def test_s8_masks_are_bound_to_roster_and_sharers(cast):
    play = cast().until("mask")
    copy, told = play.clients[2]._state.pack(), Inbox.parse(open_server(play.terms, MessageKind.INBOX, play.heard[2]))
    flags = told.sharers.copy()
    flags[4] = False
    fewer = Inbox(flags, {place: box for place, box in told.boxes.items() if place != 4})
    streams = []
    for inbox in (told, fewer):
        keeper = MemoryKeeper()
        keeper.claim(SumState.parse(copy), 1)
        twin = SumClient.resume(play.terms, IDENTITIES[2], REGISTRY, POLICY, keeper)
        said = twin.mask(from_server(play.terms, MessageKind.INBOX, inbox.pack()), np.zeros(9, np.uint32))
        streams.append(Masked.parse(Reader(open_client(play.terms, MessageKind.MASKED, said).body), play.terms).vector)
    difference = reduce(streams[0] - streams[1], 20)
    assert (difference != 0).mean() > 0.8  # not one mask less, but all of them others


def test_s8_a_client_answers_once_for_each_attempt_and_sends_its_vector_once_a_round():
    keeper = MemoryKeeper()
    begun = SumClient(TERMS, 2, IDENTITIES[2], REGISTRY, POLICY, keeper)
    with pytest.raises(AnsweredAlready):
        SumClient(TERMS, 2, IDENTITIES[2], REGISTRY, POLICY, keeper)
    other = SumTerms(4, IDS, 9, 20, 4, 4)  # other terms for the same attempt
    with pytest.raises(AnsweredAlready):
        SumClient(other, 2, IDENTITIES[2], REGISTRY, POLICY, keeper)
    begun.advertise()
    again = SumTerms(4, IDS, 9, 20, 3, 3, attempt=1)
    SumClient(again, 2, IDENTITIES[2], REGISTRY, POLICY, keeper)  # no vector was sent


def test_s8_after_a_vector_was_sent_the_round_is_over_for_its_client(cast):
    play, keeper = cast(), MemoryKeeper()
    play.clients[2] = SumClient(play.terms, 2, IDENTITIES[2], REGISTRY, POLICY, keeper)
    play.until("consent")
    for attempt in (1, 2):
        terms = SumTerms(4, IDS, 9, 20, 3, 3, attempt=attempt)
        with pytest.raises(AnsweredAlready, match="may be known"):
            SumClient(terms, 2, IDENTITIES[2], REGISTRY, POLICY, keeper)
    SumClient(SumTerms(5, IDS, 9, 20, 3, 3), 2, IDENTITIES[2], REGISTRY, POLICY, keeper)


def test_s9_a_sum_is_opened_once(cast):
    play = cast()
    total = play.finish().total
    assert (total == play.expected(*IDS)).all()
    with pytest.raises(OutOfTurn):
        play.server.open()


def test_s9_a_key_with_its_topmost_bit_flipped_is_no_other_key(cast):
    play = cast()
    play.server.receive(play.clients[2].advertise())
    stolen = play.server._entries[2].keys.share_key
    flipped = stolen[:-1] + bytes([stolen[-1] | 0x80])
    assert usable(stolen) and not usable(flipped) and not usable((2**255 - 19).to_bytes(32, "little"))
    for key in (stolen, flipped):
        keys = Advertise(key, Agreement().public)
        with pytest.raises(KeySwapped):
            play.server.receive(from_client(play.terms, MessageKind.ADVERTISE, 3, keys.pack(), IDENTITIES[3]))
    told = cast().until("share")
    roster = Roster.parse(open_server(told.terms, MessageKind.ROSTER, told.heard[2]))
    lines = [roster.entry(place) for place in range(5)]
    mask = lines[2].keys.mask_key
    lines[3] = replace(lines[3], keys=Advertise(mask[:-1] + bytes([mask[-1] | 0x80]), lines[3].keys.mask_key))
    with pytest.raises(KeySwapped, match="canonical"):
        told.clients[2].share(from_server(told.terms, MessageKind.ROSTER, Roster.of(lines).pack()))


def test_s9_survivors_of_another_count_than_consent_are_refused(cast):
    play = cast().until("consent")
    flags = np.array([True, True, False, False, False])
    with pytest.raises(TooFewClients):
        play.clients[2].consent(from_server(play.terms, MessageKind.SURVIVORS, SurvivorList(flags, {}).pack()))
