"""Blame: a bad box, a bad share, bad secrets and a bad vector are pinned on who sent them, and on nobody else."""

import os
from dataclasses import replace

import numpy as np
import pytest

from sordino.aggregate.secure import roster_part as side_module
from sordino.aggregate.secure.errors import BadShare, SplitView, TooFewClients, WrongVector
from sordino.aggregate.secure.messages import Inbox, Masked, Shares, SurvivorList
from sordino.aggregate.secure.wire import MessageKind, Reader, from_client, from_server, open_client, open_server

from .conftest import IDENTITIES, IDS


def resent(play, kind, client, body):
    return from_client(play.terms, kind, client, body, IDENTITIES[client])


def shares_of(play, client):
    return Shares.parse(Reader(open_client(play.terms, MessageKind.SHARES, play.say("share", client)).body))


@pytest.mark.parametrize("damage", ["box", "key", "digest"])
def test_a_useless_box_is_pinned_on_its_sender_and_the_round_goes_on(cast, damage):
    play = cast().until("share")
    for client in IDS:
        honest = shares_of(play, client)
        if client == 3:  # its box for client 2, at place 0
            box = bytearray(honest.sealed[0])
            if damage == "digest":
                digests = {**honest.digests, 0: bytes(32)}
                honest = replace(honest, digests=digests)
            else:
                box[-1 if damage == "box" else 0] ^= 1
            honest = replace(honest, sealed=[bytes(box), *honest.sealed[1:]])
        play.server.receive(resent(play, MessageKind.SHARES, client, honest.pack()))
    play.said["share"] = {}
    play.heard = play.server.close()
    play.play("mask")
    accused = SurvivorList.parse(open_server(play.terms, MessageKind.SURVIVORS, play.heard[3]))
    assert list(accused.accusers) == [0]
    play.heard[3] = play.heard[2]  # it has nothing to show for itself, and behaves as if it had not been asked
    play.play("consent")
    play.play("unmask")
    opened = play.server.open()
    assert (opened.total == play.expected(*IDS)).all()
    assert list(opened.blamed) == [3] and "client 2" in opened.blamed[3]


def useless_boxes(play, client):
    """Everybody shares; one client's boxes are random bytes."""
    for other in IDS:
        honest = shares_of(play, other)
        if other == client:
            honest = replace(honest, sealed=[os.urandom(len(box)) for box in honest.sealed])
        play.server.receive(resent(play, MessageKind.SHARES, other, honest.pack()))
    play.said["share"], play.heard = {}, play.server.close()


@pytest.mark.parametrize("stage", ["mask", "consent"])
def test_who_deals_useless_boxes_and_vanishes_is_named_all_the_same(cast, stage):
    # nobody can recover its secrets, so every round that it is in aborts: it used to do that unnamed, for ever
    play = cast(threshold=4, smallest_cohort=4, corrupt=1).until("share")
    useless_boxes(play, 3)
    with pytest.raises(TooFewClients, match="secret of client 3"):
        play.finish(**{stage: (3,)})
    assert list(play.server.blamed) == [3] and "4 clients" in play.server.blamed[3]


def deny_a_good_box(monkeypatch):
    """The client at place 0 denies that it can open what the one at place 1 sent."""
    real = side_module.open_box

    def deny(view, agreed, sender, recipient, digests, box):
        if recipient == 0 and sender == 1:
            raise side_module.ShareRejected("denied")
        return real(view, agreed, sender, recipient, digests, box)

    monkeypatch.setattr(side_module, "open_box", deny)


def test_as_many_complaints_as_there_may_be_corrupt_clients_blame_nobody_who_vanished(cast, monkeypatch):
    play = cast(threshold=4, smallest_cohort=4, corrupt=1).until("mask")
    deny_a_good_box(monkeypatch)
    play.play("mask")
    play.play("consent", without=(3,))  # accused falsely, and its network fails
    assert play.server.blamed == {}


def test_who_denies_a_good_box_is_blamed_itself(cast, monkeypatch):
    play = cast().until("mask")
    deny_a_good_box(monkeypatch)
    opened = play.finish()
    assert (opened.total == play.expected(*IDS)).all()
    assert list(opened.blamed) == [2] and "client 3" in opened.blamed[2]


def test_a_server_that_damages_boxes_makes_nobody_open_them(cast):
    # client 2 gets a damaged box of client 3 and complains; client 3 has sent another one, and says nothing
    play = cast().until("mask")
    told = Inbox.parse(open_server(play.terms, MessageKind.INBOX, play.heard[2]))
    bad = {**told.boxes, 1: told.boxes[1][:-1] + bytes([told.boxes[1][-1] ^ 1])}
    said = play.say("mask", 2, from_server(play.terms, MessageKind.INBOX, Inbox(told.sharers, bad).pack()))
    masked = Masked.parse(Reader(open_client(play.terms, MessageKind.MASKED, said).body), play.terms)
    assert list(masked.complaints) == [1]
    for client in IDS[1:]:
        play.say("mask", client)
    accused = SurvivorList(np.ones(5, bool), {0: masked.complaints[1][32:]})
    with pytest.raises(SplitView, match="does not complain about what client 3 sent"):
        play.say("consent", 3, from_server(play.terms, MessageKind.SURVIVORS, accused.pack()))
    for forged in ({0: bytes(64)}, {1: bytes(64)}, {9: bytes(64)}, dict.fromkeys((0, 2, 3), bytes(64))):
        with pytest.raises(SplitView):
            body = SurvivorList(np.ones(5, bool), forged).pack()
            play.say("consent", 3, from_server(play.terms, MessageKind.SURVIVORS, body))


@pytest.mark.parametrize("secret", ["_seed", "_mask_secret"])
def test_who_shares_another_secret_than_it_committed_to_aborts_the_round_by_name(cast, monkeypatch, secret):
    play = cast().until("share")
    real = side_module.split

    def wrong(both, *rest):
        return real(bytes(32), *rest)

    monkeypatch.setattr(side_module, "split", wrong)
    first = play.say("share", 3)
    monkeypatch.setattr(side_module, "split", real)
    for client in IDS:
        play.server.receive(first if client == 3 else play.say("share", client))
    play.heard = play.server.close()
    gone = () if secret == "_seed" else (3,)
    for stage in ("mask", "consent", "unmask"):
        play.play(stage, gone if stage == "mask" else ())
    with pytest.raises(BadShare, match="client 3 shared another") as caught:
        play.server.open()
    assert caught.value.client == 3 and list(play.server.blamed) == [3]


def test_a_wrong_vector_is_pinned_on_its_sender_but_a_forged_one_on_nobody(cast):
    play = cast().until("mask")
    short = Masked(np.zeros(8, np.uint32), {}).pack(play.terms)
    with pytest.raises(WrongVector):
        play.server.receive(resent(play, MessageKind.MASKED, 3, short))
    assert list(play.server.blamed) == [3]
    forged = from_client(play.terms, MessageKind.MASKED, 5, short, IDENTITIES[3])
    with pytest.raises(Exception, match="did not sign"):
        play.server.receive(forged)
    assert list(play.server.blamed) == [3]
    opened = play.finish(mask=(3,))
    assert (opened.total == play.expected(2, 5, 7, 11)).all() and list(opened.blamed) == [3]


def test_nobody_is_blamed_in_an_honest_round(cast):
    assert cast().finish(mask=(3,), unmask=(5,)).blamed == {}
