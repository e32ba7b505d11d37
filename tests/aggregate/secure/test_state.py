"""A client's side on disk: a process for each message, killed wherever it likes, answers each message at most once."""

import contextlib
import os
import shutil
import signal

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sordino.aggregate.secure import keeper as keeper_module
from sordino.aggregate.secure.client import SumClient
from sordino.aggregate.secure.errors import AnsweredAlready, Malformed, OutOfTurn
from sordino.aggregate.secure.keeper import FileKeeper
from sordino.aggregate.secure.session import STAGES
from sordino.aggregate.secure.state import DONE, SumState, read_head

from .conftest import IDENTITIES, IDS, POLICY, REGISTRY


class Reborn:
    """A client that is a new object for every message, with nothing but its folder."""

    def __init__(self, terms, client, folder):
        self.terms, self.client, self.folder = terms, client, folder
        SumClient(terms, client, IDENTITIES[client], REGISTRY, POLICY, FileKeeper(folder))

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        keeper = FileKeeper(self.folder)
        return getattr(SumClient.resume(self.terms, IDENTITIES[self.client], REGISTRY, POLICY, keeper), name)


def on_disk(cast, tmp_path):
    play = cast()
    for client in IDS:
        play.clients[client] = Reborn(play.terms, client, tmp_path / str(client))
    return play


def test_a_round_of_clients_that_are_new_for_every_message(cast, tmp_path):
    play = on_disk(cast, tmp_path)
    opened = play.finish(mask=(3,))
    assert (opened.total == play.expected(2, 5, 7, 11)).all() and opened.blamed == {}


def test_the_state_comes_back_as_it_went(cast):
    play = cast()
    for stage in STAGES:
        state = play.clients[2]._state
        again = SumState.parse(state.pack())
        assert again.pack() == state.pack() and again.terms == state.terms and again.due == state.due
        play.play(stage)
    for nonsense in (b"nonsense" * 4, b"", b"\0", bytes(80)):  # the second to last was found by the fuzzer
        with pytest.raises(Malformed):
            SumState.parse(nonsense)


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_damaged_state_is_refused_by_name(cast, data):
    saved = bytearray(cast().until("consent").clients[2]._state.pack())
    for _ in range(data.draw(st.integers(1, 3))):
        saved[data.draw(st.integers(0, len(saved) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(Malformed):
        assert SumState.parse(bytes(saved)).pack() == saved
    with pytest.raises(Malformed):
        SumState.parse(bytes(saved[: data.draw(st.integers(0, len(saved) - 1))]))


@pytest.mark.parametrize("stage", STAGES)
def test_it_is_written_before_the_reply_leaves(cast, tmp_path, monkeypatch, stage):
    play = on_disk(cast, tmp_path).until(stage)
    (path,) = (tmp_path / "2").glob("*.sum")
    before = path.read_bytes()

    def full(*_):
        raise OSError("the disk is full")

    monkeypatch.setattr(keeper_module, "_sync", full)
    with pytest.raises(OSError, match="full"):
        play.say(stage, 2)
    monkeypatch.undo()
    assert path.read_bytes() == before  # nothing was said, nothing changed
    message = play.say(stage, 2)
    assert read_head(path.read_bytes())[0] != read_head(before)[0]
    with pytest.raises(OutOfTurn):
        play.say(stage, 2)
    assert play.server.receive(message) == 2


def test_stages_go_one_way_whichever_process_asks(cast, tmp_path):
    play = on_disk(cast, tmp_path).until("mask")
    first, second = (
        SumClient.resume(play.terms, IDENTITIES[2], REGISTRY, POLICY, FileKeeper(tmp_path / "2")) for _ in range(2)
    )
    assert first.mask(play.heard[2], play.vector(2))
    with pytest.raises(OutOfTurn, match="another process"):
        second.mask(play.heard[2], play.vector(3))  # would be the same stream over another vector


def test_secrets_are_erased_at_the_end(cast, tmp_path):
    play = on_disk(cast, tmp_path).until("share")
    (path,) = (tmp_path / "2").glob("*.sum")
    roots, handles = [SumState.parse(path.read_bytes()).root], []
    for stage in STAGES[1:]:
        handles.append(path.open("rb"))  # keeps what was replaced within reach
        play.play(stage)
    assert path.stat().st_mode & 0o777 == 0o600
    left = SumState.parse(path.read_bytes())
    assert left.due == DONE and left.sent and left.root == b"" and not left.held and not left.roster
    assert roots[0] not in path.read_bytes()
    for handle in handles:
        with handle:
            assert not any(handle.read())  # overwritten with zeros
    with pytest.raises(OutOfTurn):
        play.say("unmask", 2, b"")


def test_a_round_that_is_given_up_is_erased_too(cast, tmp_path):
    play = on_disk(cast, tmp_path).until("mask")
    play.clients[2].abandon()
    (path,) = (tmp_path / "2").glob("*.sum")
    assert SumState.parse(path.read_bytes()).root == b""
    with pytest.raises(OutOfTurn):
        play.say("mask", 2)


@pytest.mark.parametrize("damage", [b"", bytes(64)])
def test_a_wiped_file_counts_as_answered(cast, tmp_path, damage):
    play = on_disk(cast, tmp_path).until("mask")
    (path,) = (tmp_path / "2").glob("*.sum")
    path.write_bytes(damage)
    with pytest.raises(AnsweredAlready):
        play.say("mask", 2)
    with pytest.raises(AnsweredAlready):
        SumClient(play.terms, 2, IDENTITIES[2], REGISTRY, POLICY, FileKeeper(tmp_path / "2"))


def child(play, stage, after, folder):
    """Answers in a process of its own that is killed before so many syncs of the disk; returns whether it was."""
    pid = os.fork()
    if pid:
        return os.WIFSIGNALED(os.waitpid(pid, 0)[1])
    syncs, real = [0], keeper_module._sync

    def sync(descriptor):
        if syncs[0] == after:
            os.kill(os.getpid(), signal.SIGKILL)
        syncs[0] += 1
        real(descriptor)

    keeper_module._sync = sync
    try:
        (folder / "said").write_bytes(play.say(stage, 2))
    finally:
        os._exit(0)


@pytest.mark.parametrize("stage", STAGES)
def test_killed_at_every_step_of_a_write_it_answers_at_most_once(cast, tmp_path, stage):
    for after in range(4):  # before the file is synced, before the folder is, before the old one is wiped; not at all
        folder = tmp_path / f"{after}"
        folder.mkdir()
        play = cast()
        play.clients[2] = Reborn(play.terms, 2, folder / "kept")
        play.until(stage)
        (path,) = (folder / "kept").glob("*.sum")
        due = read_head(path.read_bytes())[0]
        killed = child(play, stage, after, folder)
        answered = (folder / "said").exists()
        assert answered == (after == 3) == (not killed)
        if read_head(path.read_bytes())[0] == due:
            assert after == 0 and not answered
            assert play.say(stage, 2)  # as if nothing had happened
        with pytest.raises(OutOfTurn):
            play.say(stage, 2)


def test_vectors_differ_but_streams_do_not_when_a_whole_folder_is_set_back(cast, tmp_path):
    # what the docs warn of: this is why a folder must not be restored from a backup
    play = on_disk(cast, tmp_path).until("mask")
    shutil.copytree(tmp_path / "2", tmp_path / "copy")
    twin = SumClient.resume(play.terms, IDENTITIES[2], REGISTRY, POLICY, FileKeeper(tmp_path / "copy"))
    vector = play.vector(2)
    assert play.say("mask", 2)[:-64] == twin.mask(play.heard[2], vector)[:-64]
    assert np.array_equal(vector, play.vector(2))
