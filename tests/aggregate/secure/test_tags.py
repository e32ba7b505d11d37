"""Consents by tags: as good as signatures to those that they are for, and worth nothing to anybody else."""

import os

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sordino.aggregate.secure.client import SumClient
from sordino.aggregate.secure.errors import Malformed, SplitView
from sordino.aggregate.secure.graph import choose
from sordino.aggregate.secure.keys import TAG, Identity, _montgomery
from sordino.aggregate.secure.messages import Consent, SurvivorList, UnmaskRequest
from sordino.aggregate.secure.session import play_full, sum_terms
from sordino.aggregate.secure.wire import MessageKind, Reader, from_client, from_server, open_client, open_server

from .conftest import IDENTITIES, IDS, POLICY, REGISTRY


def request(play, client):
    return UnmaskRequest.parse(open_server(play.terms, MessageKind.REQUEST, play.heard[client]), TAG)


def ask(play, client, tags):
    return play.say("unmask", client, from_server(play.terms, MessageKind.REQUEST, UnmaskRequest(tags).pack()))


def test_two_identities_agree_and_nobody_else_does():
    a, b, c = Identity(), Identity(), Identity()
    (ab,), (ba,) = a.agreements([b.public]), b.agreements([a.public])
    assert ab == ba and len(ab) == 32
    assert len({ab, a.agreements([c.public])[0], b.agreements([c.public])[0]}) == 3
    again = Identity(Ed25519PrivateKey.from_private_bytes(a.private.private_bytes_raw()))
    assert again.agreements([c.public, b.public])[1] == ab  # asked for together or one by one


def test_the_map_to_montgomery_s_curve_is_that_of_the_standard():
    # RFC 7748, section 4.1: the base points correspond, y = 4/5 and u = 9
    base = (4 * pow(5, -1, 2**255 - 19)) % (2**255 - 19)
    nine, zero = _montgomery([base.to_bytes(32, "little"), (1).to_bytes(32, "little")])
    assert int.from_bytes(nine, "little") == 9 and zero == bytes(32)


@pytest.mark.parametrize("without", [{}, {"mask": (3,)}, {"share": (5,)}])
def test_a_tagged_sum_is_the_same_sum(cast, without):
    gone = {client for some in without.values() for client in some}
    opened = cast(tagged=True).finish(**without)
    left = [client for client in IDS if client not in gone]
    assert opened.survivors.tolist() == left and (opened.total == cast().expected(*left)).all()


def test_a_tagged_sum_on_a_sparse_graph():
    topology = choose(60, dropout=0.2, corrupt=0.0, sparse_from=32, security_bits=10, correctness_bits=5)
    terms = sum_terms(np.arange(60), topology, 3, 16, tagged=True)
    vectors = np.random.default_rng(0).integers(0, 2**16, (60, 3), dtype=np.uint16)
    policy = POLICY.__class__(5, 3, security_bits=10)
    outcome = play_full(terms, np.arange(60), vectors.__getitem__, {"mask": [4]}, policy=policy)
    assert (outcome.total == np.delete(vectors, 4, 0).sum(0, np.uint16)).all()


def test_tags_for_others_or_of_another_story_count_for_nothing(cast):
    play = cast(tagged=True).until("unmask")
    own, other = request(play, 2).consents, request(play, 3).consents
    with pytest.raises(SplitView, match="2 clients agree"):  # tags that were made for client 3
        ask(play, 2, {1: own[1]} | {place: other[place] for place in (2, 3, 4)})
    swapped = {1: own[2], 2: own[1], 3: own[4], 4: own[3]}
    with pytest.raises(SplitView, match="1 clients agree"):
        ask(play, 2, swapped)
    with pytest.raises(SplitView, match="1 clients agree"):  # a reflection: our own tags for the others
        mine = Consent.parse(Reader(open_client(play.terms, MessageKind.CONSENT, play.said["consent"][2]).body)).names
        ask(play, 2, {place: mine[place * TAG : (place + 1) * TAG] for place in (1, 2, 3, 4)})
    for guess in (bytes(TAG), os.urandom(TAG)):
        with pytest.raises(SplitView):
            ask(play, 2, dict.fromkeys((1, 2, 3, 4), guess))
    assert ask(play, 2, own)


def test_tags_under_two_stories_are_never_enough_for_both(cast):
    play = cast(tagged=True).until("consent")
    told = SurvivorList.parse(open_server(play.terms, MessageKind.SURVIVORS, play.heard[2]))
    without = told.alive.copy()
    without[4] = False
    lie = from_server(play.terms, MessageKind.SURVIVORS, SurvivorList(without, {}).pack())
    said = {client: play.say("consent", client, lie if client in (2, 5) else None) for client in IDS}
    tags = {
        c: Consent.parse(Reader(open_client(play.terms, MessageKind.CONSENT, m).body)).names for c, m in said.items()
    }
    for client, place in ((2, 0), (5, 2)):
        everybody = {at: tags[c][place * TAG : (place + 1) * TAG] for at, c in enumerate(IDS) if at not in (4, place)}
        with pytest.raises(SplitView, match="2 clients agree"):
            ask(play, client, everybody)


def test_one_client_with_wrong_tags_has_not_consented_and_stops_nobody(cast):
    play = cast(tagged=True).until("consent")
    play.told["consent"] = dict(play.heard)
    for client in IDS:
        message = play.say("consent", client)
        if client == 7:
            body = Consent.parse(Reader(open_client(play.terms, MessageKind.CONSENT, message).body))
            wrong = Consent(body.story, os.urandom(len(body.names)), {}).pack()
            message = from_client(play.terms, MessageKind.CONSENT, 7, wrong, IDENTITIES[7])
        play.server.receive(message)
    play.said["consent"], play.heard = {}, play.server.close()
    counted = []
    for client in (2, 3, 5, 11):
        party, heard = play.clients[client], play.heard[client]
        play.server.receive(party.unmask(heard))
        counted.append(heard)
    assert (play.server.open().total == play.expected(*IDS)).all() and len(counted) == 4


def test_a_consent_with_too_few_tags_is_its_sender_s_fault(cast):
    play = cast(tagged=True).until("consent")
    message = play.say("consent", 3)
    body = Consent.parse(Reader(open_client(play.terms, MessageKind.CONSENT, message).body))
    short = Consent(body.story, body.names[:-TAG], {}).pack()
    with pytest.raises(Malformed, match="client 3 sent 64 bytes of tags for 5 survivors"):
        play.server.receive(from_client(play.terms, MessageKind.CONSENT, 3, short, IDENTITIES[3]))
    assert list(play.server.blamed) == [3]
    assert play.server.receive(message) == 3


def test_a_client_that_comes_back_between_consent_and_unmask_checks_tags_all_the_same(cast):
    play = cast(tagged=True).until("unmask")
    party = play.clients[2]
    again = SumClient.resume(play.terms, IDENTITIES[2], REGISTRY, POLICY, party._keeper)
    tags = request(play, 2).consents
    with pytest.raises(SplitView):
        again.unmask(from_server(play.terms, MessageKind.REQUEST, UnmaskRequest({1: tags[1]}).pack()))
    play.server.receive(again.unmask(play.heard[2]))
