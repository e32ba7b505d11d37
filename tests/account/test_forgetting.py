"""A ledger that was cut, rolled back, rewritten, replaced, removed or taught to swallow rows is refused."""

import json
import shutil
import stat
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.account.forging import as_somebody_else, forge, image, tamper

from sordino.account.certificate.certificate import certify
from sordino.account.certificate.verify import verify
from sordino.account.ledger import sqlite
from sordino.account.ledger.heads import HeadLog, heads_path
from sordino.account.ledger.keys import key_path, signed
from sordino.account.ledger.ledger import Ledger
from sordino.account.ledger.state import LedgerState
from sordino.errors import LedgerError, LedgerTampered
from sordino.events import Charge, GaussianDpEvent, Guarantee

SERVER = Guarantee("client", "server", "zero_out")
CHARGE = (Charge(SERVER, GaussianDpEvent(2.0)),)
ROUNDS = 6


def release(ledger, *rounds):
    for number in rounds:
        ledger.settle(ledger.reserve("run", number, np.array([number, 40]), CHARGE), CHARGE, digest=f"bits {number}")


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "books" / "ledger.db"
    with Ledger.open(path, "hospitals", 50, create=True) as ledger:
        release(ledger, *range(ROUNDS))
    return path


def refused(path, says, **options):
    """Neither a run nor a reader nor `verify` takes this ledger."""
    for write in (True, False):
        with pytest.raises(LedgerTampered, match=says):
            Ledger.open(path, write=write, **options)
    with pytest.raises(LedgerTampered, match=says):
        list(verify(path, **options))


def to_nothing(rows):
    """Every settlement says that nothing was released."""
    nothing = {"charges": [], "costs": [], "digest": ""}
    return [
        replace(row, body=json.dumps(json.loads(row.body) | nothing)) if row.kind == "settle" else row for row in rows
    ]


class TestRollback:
    @pytest.mark.parametrize("kept", [1, 2, 5, 12])
    def test_a_shorter_chain_is_found_by_the_published_heads(self, path, kept):
        forge(path, lambda rows: rows[: kept + 1])
        refused(path, "ends before row 13")

    def test_an_older_copy_is_found(self, path, tmp_path):
        old = shutil.copy(path, tmp_path / "old.db")
        with Ledger.open(path) as ledger:
            release(ledger, 7)
        shutil.copy(old, path)
        refused(path, "older copy")

    def test_rewriting_with_new_hashes_is_found(self, path):
        forge(path, to_nothing)
        refused(path, "rewritten")

    def test_one_cohort_rewritten_with_new_hashes_is_found(self, path):
        forge(path, lambda rows: [replace(row, cohort=rows[4].cohort) if row.seq == 6 else row for row in rows])
        refused(path, "rewritten")

    def test_a_folder_rolled_back_whole_is_found_by_whoever_kept_a_head(self, path, tmp_path):
        old = image(path.parent, tmp_path / "old")
        with Ledger.open(path) as ledger:
            release(ledger, 7)
            kept, certificate = ledger.head, certify(ledger, 1e-5)
        with Ledger.open(old / "ledger.db", write=False) as ledger:
            ledger.verify()  # nothing inside the folder can tell
            with pytest.raises(LedgerTampered, match="never had the head"):
                ledger.must_contain(kept)
        for write in (True, False):
            with pytest.raises(LedgerTampered, match="never had the head"):
                Ledger.open(old / "ledger.db", write=write, head=kept)
        with pytest.raises(LedgerTampered, match="never had the head"):
            list(verify(old / "ledger.db", certificate))
        with pytest.raises(LedgerTampered, match="never had the head"):
            list(verify(old / "ledger.db", kept=[kept]))
        Ledger.open(path, head=kept).close()

    def test_a_witness_elsewhere_finds_it_too_and_whoever_holds_the_key_does_not_help(self, path, tmp_path):
        witness = tmp_path / "witness.jsonl"
        Ledger.open(path, witness=witness).close()
        old = image(path.parent, tmp_path / "old")
        with Ledger.open(path, witness=witness) as ledger:
            release(ledger, 7)
        refused(old / "ledger.db", "ends before row 16", witness=witness)  # one row says that it is a witness
        forge(path, to_nothing, resign=True)
        with Ledger.open(path, write=False) as ledger:
            ledger.verify()  # a thief of the key who also rewrites the log is past the folder's own means
            assert not any(entry.charges for entry in ledger.entries)
        refused(path, "rewritten", witness=witness)

    def test_two_copies_that_go_on_apart_are_found_by_the_witness(self, path, tmp_path):
        witness = tmp_path / "witness.jsonl"
        Ledger.open(path, witness=witness).close()
        copy = image(path.parent, tmp_path / "copy") / "ledger.db"
        with Ledger.open(path, witness=witness) as one, Ledger.open(copy, witness=witness) as two:
            release(one, 7)
            with pytest.raises(LedgerTampered, match=r"ends before|not the one published"):
                release(two, 8)
        refused(copy, "published", witness=witness)

    def test_a_missing_witness_is_no_witness(self, path, tmp_path):
        with pytest.raises(LedgerTampered, match="is gone"):
            list(verify(path, witness=tmp_path / "nobody.jsonl"))

    @pytest.mark.parametrize("parts", [[""], ["", "-wal"], ["", ".key"], ["", ".heads.jsonl"]])
    def test_a_removed_ledger_is_not_started_anew(self, path, parts):
        for part in parts:
            path.with_name(path.name + part).unlink(missing_ok=True)
        with pytest.raises(LedgerTampered, match="is gone and"):
            Ledger.open(path, "hospitals", 50, create=True)
        assert not path.exists()
        with pytest.raises(LedgerError, match="does not exist"):
            Ledger.open(path, "hospitals", 50)

    def test_an_emptied_ledger_is_not_started_anew(self, path):
        path.write_bytes(b"")
        with pytest.raises(LedgerTampered, match="is gone and"):
            Ledger.open(path, "hospitals", 50, create=True)
        with pytest.raises(LedgerError):
            Ledger.open(path, "hospitals", 50)

    def test_another_ledger_in_its_place_is_refused(self, path, tmp_path):
        with Ledger.open(path) as ledger:
            head = ledger.head
        other = tmp_path / "other.db"
        Ledger.open(other, "hospitals", 50, create=True).close()
        with pytest.raises(LedgerTampered, match="never had the head"):
            Ledger.open(other, "hospitals", 50, head=head)
        shutil.copy(other, path)
        with pytest.raises(LedgerTampered, match="not signed"):
            Ledger.open(path, write=False)
        with pytest.raises(LedgerError, match=r"not the key|not signed"):
            Ledger.open(path)

    @pytest.mark.parametrize("head", ["", "00" * 32, "no hex", "ff"])
    def test_a_head_that_is_none_is_refused(self, path, head):
        with pytest.raises(LedgerTampered, match="never had"):
            Ledger.open(path, head=head)


class TestWriteAheadLog:
    """The state that a kill leaves: rows that are only in the log."""

    @pytest.fixture
    def killed(self, path, tmp_path):
        with Ledger.open(path) as ledger:
            release(ledger, 6, 7, 8)
            return image(path.parent, tmp_path / "killed") / "ledger.db"

    def test_whole_it_is_read(self, killed):
        with Ledger.open(killed, write=False) as ledger:
            assert len(ledger.entries) == 9

    @pytest.mark.parametrize("share", [0.0, 0.3, 0.5, 0.95])
    def test_cut_it_is_found(self, killed, share):
        log = killed.with_name("ledger.db-wal")
        log.write_bytes(log.read_bytes()[: int(share * log.stat().st_size)])
        refused(killed, "which was published in")

    def test_gone_it_is_found(self, killed):
        killed.with_name("ledger.db-wal").unlink()
        refused(killed, "with its -wal file")

    @pytest.mark.parametrize("cut", [False, True])
    def test_a_reader_without_write_permission_sees_it(self, killed, cut):
        def act():
            with Ledger.open(folder / "ledger.db", write=False) as ledger:
                ledger.verify()
                return f"{len(ledger.entries)} entries"

        with tempfile.TemporaryDirectory() as place:
            folder = Path(place) / "books"
            shutil.copytree(killed.parent, folder)
            wal = folder / "ledger.db-wal"
            if cut:
                wal.write_bytes(wal.read_bytes()[: wal.stat().st_size // 2])
            before = {part.name: part.read_bytes() for part in folder.iterdir()}
            for part in (folder, Path(place)):
                part.chmod(0o555)
            for part in (folder / "ledger.db", wal):
                part.chmod(0o444)
            told = as_somebody_else(act)
            for part in (folder, Path(place)):
                part.chmod(0o755)
            assert {part.name: part.read_bytes() for part in folder.iterdir()} == before
        assert ("which was published in" in told) if cut else (told == "9 entries")

    def test_a_reader_who_may_not_even_read_is_told_so(self):
        with tempfile.TemporaryDirectory() as place:
            path = Path(place) / "ledger.db"
            Ledger.open(path, "f", 3, create=True).close()
            Path(place).chmod(0o755)
            told = as_somebody_else(lambda: str(Ledger.open(path, write=False)))
        assert "cannot be read" in told


SWALLOW = "CREATE TRIGGER quiet BEFORE INSERT ON rows WHEN NEW.kind = 'reserve' BEGIN SELECT RAISE(IGNORE); END"
EDIT = "CREATE TRIGGER edit AFTER INSERT ON rows BEGIN UPDATE rows SET body = '{}' WHERE seq = NEW.seq; END"
OTHERS = (
    "CREATE TRIGGER late AFTER UPDATE ON head BEGIN DELETE FROM rows WHERE seq = 5; END",
    "CREATE VIEW other AS SELECT * FROM rows",
    "CREATE TABLE other (x)",
    "CREATE INDEX other ON rows (kind)",
    "ALTER TABLE rows ADD COLUMN more TEXT",
)


class TestForeignObjects:
    @pytest.mark.parametrize("statement", [SWALLOW, EDIT, *OTHERS])
    def test_a_file_that_holds_more_than_our_tables_is_refused(self, path, statement):
        tamper(path, statement)
        refused(path, "not its own")

    @pytest.mark.parametrize("statement", [SWALLOW, EDIT, *OTHERS])
    def test_also_when_it_is_added_under_a_live_process(self, path, statement):
        with Ledger.open(path) as ledger:
            tamper(path, statement)
            with pytest.raises(LedgerTampered, match="not its own"):
                ledger.reserve("run", 9, np.array([1]), CHARGE)

    @pytest.mark.parametrize("statement", [SWALLOW, EDIT])
    def test_what_is_written_is_read_back_before_it_counts(self, path, statement, monkeypatch):
        """Even if nobody looked at the schema: a reservation that was swallowed or edited does not return."""
        tamper(path, statement)
        monkeypatch.setattr("sordino.account.ledger.hash_chain.HashChain._require_schema", lambda self: None)
        with Ledger.open(path) as ledger:
            with pytest.raises(LedgerTampered, match="did not keep row 14"):
                ledger.reserve("run", 9, np.array([1]), CHARGE)
            assert len(ledger.entries) == ROUNDS
        tamper(path, "DROP TRIGGER quiet" if statement is SWALLOW else "DROP TRIGGER edit")
        with Ledger.open(path) as ledger:
            assert len(ledger.entries) == ROUNDS

    def test_a_renamed_table_is_refused(self, path):
        tamper(path, "ALTER TABLE rows RENAME TO lines", "CREATE VIEW rows AS SELECT * FROM lines")
        refused(path, "not its own|no table")


class TestLiveProcess:
    """Somebody edits the file while a run has it open."""

    @pytest.mark.parametrize(
        "statements",
        [
            ["UPDATE rows SET body = replace(body, '2.0', '9.0') WHERE seq = 13"],
            ["UPDATE rows SET body = replace(body, '2.0', '9.0') WHERE seq = 5"],
            ["UPDATE rows SET cohort = NULL WHERE seq = 4"],
            ["DELETE FROM rows WHERE seq = 5"],
            ["DELETE FROM rows WHERE seq > 9"],
            ["DELETE FROM rows WHERE seq > 9", "UPDATE head SET seq = 9, hash = (SELECT hash FROM rows WHERE seq = 9)"],
            ["INSERT INTO rows SELECT 14, kind, body, cohort, excluded, hash FROM rows WHERE seq = 13"],
            ["DELETE FROM head"],
        ],
    )
    def test_is_found_before_the_next_release(self, path, statements):
        with Ledger.open(path) as ledger:
            tamper(path, *statements)
            with pytest.raises(LedgerTampered):
                ledger.reserve("run", 9, np.array([1]), CHARGE)
            with pytest.raises(LedgerTampered):
                ledger.refresh()

    def test_a_head_log_taken_away_is_found(self, path):
        with Ledger.open(path) as ledger:
            heads_path(path).unlink()
            with pytest.raises(LedgerTampered, match="is gone"):
                ledger.reserve("run", 9, np.array([1]), CHARGE)
        refused(path, "is gone")


class TestRecomputing:
    """Whoever has the key and rewrites chain and log still has to make every row follow from its events."""

    def check(self, path, edit, says):
        forge(path, edit, resign=True)
        with pytest.raises(LedgerTampered, match=says):
            list(verify(path))

    def change(self, seq, **fields):
        def edit(rows):
            return [
                replace(row, body=json.dumps(json.loads(row.body) | fields)) if row.seq == seq else row for row in rows
            ]

        return edit

    def test_an_unchanged_one_passes(self, path):
        forge(path, lambda rows: rows, resign=True)
        assert len(list(verify(path))) == 3

    def test_a_reservation_with_another_cost(self, path):
        self.check(path, self.change(2, costs=[0.99]), "row 2 states")

    def test_a_settlement_with_another_cost(self, path):
        self.check(path, self.change(3, costs=[0.99]), "row 3 states")

    def test_a_settlement_with_another_event(self, path):
        def edit(rows):
            return [replace(row, body=row.body.replace(":2.0", ":9.0")) if row.seq == 5 else row for row in rows]

        self.check(path, edit, "row 5 states")

    def test_a_settlement_to_nothing_of_something_released(self, path):
        self.check(path, self.change(3, charges=[], costs=[]), "row 3 cannot be read .* as nothing")

    def test_a_dearer_settlement(self, path):
        def edit(rows):
            dear = GaussianDpEvent(1.0)
            from sordino.account.ledger.entry import costs_of, records

            charges = [Charge(SERVER, dear)]
            return self.change(3, charges=records(charges), costs=costs_of(charges, 1e-5))(rows)

        self.check(path, edit, "row 3 cannot be read .* cost")

    def test_a_second_settlement(self, path):
        self.check(path, lambda rows: [*rows, rows[3]], "row 14 cannot be read .* settled twice")

    def test_senders_that_were_not_reserved(self, path):
        def edit(rows):
            return [replace(row, cohort=rows[2].cohort) if row.seq == 5 else row for row in rows]

        self.check(path, edit, "row 5 cannot be read .* did not name")

    def test_a_kind_of_row_that_no_ledger_writes(self, path):
        self.check(path, lambda rows: [*rows, replace(rows[3], kind="note")], "row 14 cannot be read .* kind")

    def test_another_delta(self, path):
        self.check(path, self.change(2, delta=1e-2), "row 2")


class TestSettlementThatWaits:
    """A settlement that was not made durable may be lost with what dies; what it leaves costs more, never less."""

    def test_lost_with_the_machine_the_reservation_counts_and_nothing_looks_cut(self, path, tmp_path):
        with Ledger.open(path) as ledger:
            number = ledger.reserve("run", 7, np.array([7, 40]), CHARGE)
            before = image(path.parent, tmp_path / "before") / "ledger.db"
            ledger.settle(number, (), durable=False)
            assert ledger.entries[-1].charges == ()
            heads = heads_path(path).read_bytes()
        heads_path(before).write_bytes(heads)  # what was published until the machine died
        with Ledger.open(before) as found:
            assert not found.entries[-1].settled and found.entries[-1].charges
        assert len(list(verify(before))) == 3

    @pytest.mark.parametrize("then", ["write", "flush", "head", "close", "reserve"])
    def test_it_is_written_and_published_as_soon_as_anything_rests_on_it(self, path, then):
        with Ledger.open(path) as ledger:
            ledger.settle(ledger.reserve("run", 7, np.array([7, 40]), CHARGE), (), durable=False)
            seq, reserved = HeadLog(heads_path(path)).last().seq, ledger.newest
            with Ledger.open(path, write=False) as other:  # what is left if this process is killed
                assert not other.entries[-1].settled and ledger.entries[-1].settled
            told = None
            if then == "reserve":
                ledger.reserve("run", 8, np.array([8]), CHARGE)
            elif then == "head":
                told = ledger.head
            else:
                getattr(ledger, then)()
            last = HeadLog(heads_path(path)).last()
            assert last.seq == seq + {"write": 0, "reserve": 2}.get(then, 1)
            assert (last.head == reserved) == (then == "write") and told in (None, last.head)
            with Ledger.open(path, write=False) as other:
                found = next(entry for entry in other.entries if (entry.run, entry.round_) == ("run", 7))
                assert found.settled and not found.charges
        if then != "close":
            assert len(list(verify(path))) == 3

    def test_a_head_is_never_published_for_rows_of_others_that_may_still_be_lost(self, path, monkeypatch):
        with Ledger.open(path) as mine, Ledger.open(path) as other:
            number, real = other.reserve("other", 1, np.array([3]), CHARGE), LedgerState.reserve

            def reserve(state, entry):
                real(state, entry)
                monkeypatch.setattr(LedgerState, "reserve", real)
                other.settle(number, CHARGE, digest="bits", durable=False)  # between commit and publication

            mine.refresh()
            monkeypatch.setattr(LedgerState, "reserve", reserve)
            seq = mine.reserve("run", 7, np.array([7]), CHARGE)
            assert HeadLog(heads_path(path)).last().seq == seq
        assert len(list(verify(path))) == 3

    def test_a_release_where_nothing_was_released_before_is_durable_at_once(self, path):
        with Ledger.open(path) as ledger:
            again = {"repeatable": True, "fingerprint": "seed"}
            for charges in ((), CHARGE):
                number = ledger.reserve("run", 7, np.array([7]), CHARGE, **again)
                ledger.settle(number, charges, digest="bits", durable=False)
            assert HeadLog(heads_path(path)).last().head == ledger.newest

    def test_a_disk_that_fails_refuses_the_next_release(self, path, monkeypatch):
        with pytest.raises(LedgerError, match="disk"), Ledger.open(path) as ledger:
            ledger.settle(ledger.reserve("run", 7, np.array([7]), CHARGE), CHARGE, durable=False)
            monkeypatch.setattr(HeadLog, "publish", lambda *_: (_ for _ in ()).throw(LedgerError("the disk is full")))
            with pytest.raises(LedgerError, match="disk"):
                ledger.reserve("run", 8, np.array([8]), CHARGE)


class TestHeads:
    def lines(self, path):
        return heads_path(path).read_bytes().splitlines(keepends=True)

    def test_every_commit_is_published_signed_and_in_the_chain(self, path):
        heads = HeadLog(heads_path(path)).all()
        with Ledger.open(path, write=False) as ledger:
            assert ledger.verify() == len(heads) == 1 + 2 * ROUNDS
            assert heads[-1].head == ledger.head
            assert all(signed(ledger.public_key, head.message(), head.signature) for head in heads)
            assert [head.seq for head in heads] == list(range(1, 2 * ROUNDS + 2))

    @pytest.mark.parametrize("line", [0, 4, -1])
    @pytest.mark.parametrize("field", ["seq", "head", "time", "previous", "signature"])
    def test_a_changed_line_is_found(self, path, line, field):
        lines = self.lines(path)
        told = json.loads(lines[line])
        told[field] = (
            told[field] + 1 if field == "seq" else told[field][:-1] + "%x" % (int("0" + told[field][-1:], 16) ^ 1)
        )
        lines[line] = json.dumps(told).encode() + b"\n"
        heads_path(path).write_bytes(b"".join(lines))
        with pytest.raises(LedgerTampered):
            list(verify(path))

    @pytest.mark.parametrize("gone", [slice(0, 1), slice(3, 5), slice(0, 12)])
    def test_a_missing_line_is_found(self, path, gone):
        lines = self.lines(path)
        del lines[gone]
        heads_path(path).write_bytes(b"".join(lines))
        with pytest.raises(LedgerTampered, match="were changed"):
            list(verify(path))

    @pytest.mark.parametrize("left", [0, 3, 15])
    def test_a_log_behind_by_what_a_kill_cut_is_mended(self, path, left):
        *kept, cut, _ = self.lines(path)
        heads_path(path).write_bytes(b"".join(kept) + cut[:left])
        assert len(list(verify(path))) == 3
        with Ledger.open(path) as ledger:
            release(ledger, 7)
        assert len(list(verify(path))) == 3

    def test_heads_can_be_published_elsewhere_and_both_can_be_moved(self, tmp_path):
        folder = tmp_path / "run"
        folder.mkdir()
        (folder / "public").mkdir()
        path, log = folder / "private" / "ledger.db", folder / "public" / "heads.jsonl"
        with Ledger.open(path, "f", 50, create=True, heads=log) as ledger:
            release(ledger, 1)
        assert not heads_path(path).exists()
        folder.rename(tmp_path / "moved")
        moved = tmp_path / "moved" / "private" / "ledger.db"
        with Ledger.open(moved, head=ledger_head(moved)) as ledger:
            release(ledger, 2)
        assert len(list(verify(moved))) == 3
        copy = shutil.copy(tmp_path / "moved" / "public" / "heads.jsonl", tmp_path / "copy.jsonl")
        alone = shutil.copy(moved, tmp_path / "alone.db")
        with pytest.raises(LedgerTampered, match="is gone"):
            list(verify(Path(alone)))
        assert len(list(verify(Path(alone), heads=Path(copy)))) == 3

    def test_a_full_disk_under_the_head_log_refuses(self, path, monkeypatch):
        with Ledger.open(path) as ledger:
            monkeypatch.setattr("sordino.account.ledger.heads.os.write", lambda *args: 3)
            with pytest.raises(LedgerError, match=r"head log .* nothing was released"):
                ledger.reserve("run", 9, np.array([1]), CHARGE)
            monkeypatch.undo()
            assert len(ledger.entries) == ROUNDS + 1  # it counts as spent all the same


def ledger_head(path):
    with Ledger.open(path, write=False) as ledger:
        return ledger.head


class TestFiles:
    def test_only_the_owner_reads_the_books_and_everybody_the_heads(self, tmp_path):
        path, witness = tmp_path / "new" / "ledger.db", tmp_path / "witness.jsonl"
        with Ledger.open(path, "f", 50, create=True, witness=witness) as ledger:
            release(ledger, 1)
            modes = {part.name: stat.S_IMODE(part.stat().st_mode) for part in path.parent.iterdir()}
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert modes.pop("ledger.db.heads.jsonl") == 0o644
        assert modes == dict.fromkeys(["ledger.db", "ledger.db-wal", "ledger.db-shm", "ledger.db.key"], 0o600)
        assert stat.S_IMODE(witness.stat().st_mode) == 0o644

    def test_a_key_that_others_can_read_is_refused(self, path):
        key_path(path).chmod(0o640)
        with pytest.raises(LedgerError, match="chmod 600"):
            Ledger.open(path)
        Ledger.open(path, write=False).close()

    def test_without_its_key_a_ledger_is_read_and_never_written(self, path, tmp_path):
        shutil.move(key_path(path), tmp_path / "away")
        assert len(list(verify(path))) == 3
        with pytest.raises(LedgerError, match="restore it"):
            Ledger.open(path)

    def test_anothers_key_is_refused(self, path, tmp_path):
        Ledger.open(tmp_path / "other.db", "f", 5, create=True).close()
        shutil.copy(key_path(tmp_path / "other.db"), key_path(path))
        with pytest.raises(LedgerError, match="is not the key"):
            Ledger.open(path)

    def test_the_names_of_new_files_are_made_durable(self, tmp_path, monkeypatch):
        synced = set()
        monkeypatch.setattr(sqlite.os, "fsync", lambda file: synced.add(sqlite.os.fstat(file).st_ino))
        Ledger.open(tmp_path / "new" / "ledger.db", "f", 5, create=True).close()
        assert {(tmp_path / "new").stat().st_ino, tmp_path.stat().st_ino} <= synced

    def test_the_old_format_is_refused_in_one_sentence(self, path):
        tamper(path, "PRAGMA user_version = 1")
        for options in ({}, {"write": False}, {"create": True}):
            with pytest.raises(LedgerError, match="old format 1") as told:
                Ledger.open(path, "hospitals", 50, **options)
            assert "\n" not in str(told.value)
