"""A server that tries again: aborted attempts, two at once, other runs; to sum one vector twice, or to grind."""

from dataclasses import replace

import pytest

from sordino.aggregate.secure.client import SumClient
from sordino.aggregate.secure.errors import AnsweredAlready, BelowPolicy, KeySwapped, OutOfTurn, SplitView
from sordino.aggregate.secure.keeper import FileKeeper, MemoryKeeper
from sordino.aggregate.secure.keys import Identity
from sordino.aggregate.secure.policy import SumPolicy

from .conftest import IDENTITIES, IDS, POLICY, REGISTRY, TERMS, Cast


@pytest.fixture(params=["memory", "file"])
def keepers(request, tmp_path):
    made = {}

    def of(client):
        if client not in made:
            made[client] = MemoryKeeper() if request.param == "memory" else FileKeeper(tmp_path / str(client))
        return made[client]

    return of


def attempt(keepers, number, policy=POLICY):
    """A cast whose clients remember their earlier attempts."""
    cast = Cast(replace(TERMS, attempt=number))
    cast.clients = {c: SumClient(cast.terms, c, IDENTITIES[c], REGISTRY, policy, keepers(c)) for c in IDS}
    return cast


def test_two_attempts_at_once_do_not_sum_one_vector_twice(keepers):
    # both are begun before either has a vector; two sums that differ in one survivor would show that one's vector
    first, second = attempt(keepers, 0), None
    first.until("mask")
    second = attempt(keepers, 1)
    second.until("mask")
    with pytest.raises(OutOfTurn):
        first.say("mask", 2)
    assert second.say("mask", 2)
    with pytest.raises(OutOfTurn):
        first.say("mask", 2)


def test_an_attempt_that_was_left_for_a_later_one_stays_left(keepers):
    attempt(keepers, 3)
    for number in (0, 2, 3):
        with pytest.raises(AnsweredAlready):
            attempt(keepers, number)
    first = keepers(2)
    with pytest.raises(AnsweredAlready):
        SumClient.resume(replace(TERMS, attempt=2), IDENTITIES[2], REGISTRY, POLICY, first)


def test_after_an_abort_only_a_new_attempt_is_answered(keepers):
    first = attempt(keepers, 0).until("consent")
    for party in first.clients.values():
        party.abandon()
    with pytest.raises(OutOfTurn):
        first.say("consent", 2)
    with pytest.raises(AnsweredAlready, match="sent 1 times already"):  # its vector may be known
        attempt(keepers, 1)


def test_a_server_cannot_draw_graphs_until_it_likes_one(keepers):
    policy = replace(POLICY, attempts=4)
    for number in range(4):
        attempt(keepers, number, policy).until("mask")  # it sees who drew whom, and aborts
    with pytest.raises(AnsweredAlready, match="4 attempts at round 4 were begun"):
        attempt(keepers, 4, policy)
    with pytest.raises(AnsweredAlready, match="4 attempts at round 4 were begun"):
        attempt(keepers, 400, policy)


def test_holders_differ_from_attempt_to_attempt_and_from_client_to_client(keepers):
    drawn = []
    for number in (0, 1):
        cast = attempt(keepers, number).until("share")
        drawn += [party._keys._derive("holders") for party in cast.clients.values()]
    assert len(set(drawn)) == 10


@pytest.mark.parametrize("changes", [{"run": "other"}, {"federation": "other"}, {"round_": 11}])
def test_runs_and_rounds_that_a_server_invents_are_refused_where_the_client_knows_its_own(changes):
    policy = replace(POLICY, federation="", run="", rounds=10)
    SumClient(TERMS, 2, IDENTITIES[2], REGISTRY, policy)
    with pytest.raises(BelowPolicy):
        SumClient(replace(TERMS, **changes), 2, IDENTITIES[2], REGISTRY, policy)


def test_clients_with_different_registries_tell_different_stories():
    """Client 11 has a new key, its old one was stolen; client 3 has not heard, and the server has the old one."""
    stolen, fresh = Identity(), Identity()
    old, new = REGISTRY | {11: stolen.public}, REGISTRY | {11: fresh.public}
    cast = Cast(replace(TERMS, threshold=4, smallest_cohort=4))
    cast.clients = {c: SumClient(cast.terms, c, IDENTITIES[c], new, POLICY) for c in IDS if c not in (3, 11)}
    cast.clients[3] = SumClient(cast.terms, 3, IDENTITIES[3], old, POLICY)
    cast.clients[11] = SumClient(cast.terms, 11, fresh, new, POLICY)
    cast.server = type(cast.server)(cast.terms, new)
    cast.play("advertise")
    with pytest.raises(KeySwapped):  # on a complete graph everybody's keys are checked at once
        cast.say("share", 3)


def test_a_registry_that_differs_in_a_client_that_one_never_checks_is_another_story():
    stale = REGISTRY | {11: Identity().public}
    play = Cast(TERMS).until("consent")
    play.clients[3]._registry = stale  # as on a sparse graph, where client 3 has checked its neighbours alone
    with pytest.raises(SplitView, match="client 3 consents to another story"):
        play.server.receive(play.say("consent", 3))
    assert list(play.server.blamed) == [3]


def test_policies_are_as_strict_as_ever_by_default():
    assert SumPolicy().attempts == 8 and SumPolicy().releases == 1
