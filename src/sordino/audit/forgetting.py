"""Games of forgetting: everything is released, and somebody makes the books show less of it.

Eight releases tell the server at least so much about a client: that is measured once, by the white-box audit. Then the
books are cut, rolled back, rewritten, frozen or read badly, and the product is asked what the client was charged. It
may refuse, which is right, or name the whole cost; a smaller ε than was attained is a false certificate.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from sordino.account.certificate.certificate import certify
from sordino.account.ledger.ledger import Ledger
from sordino.audit.finding import Finding
from sordino.audit.forging import FROZEN, cut, image, rewritten, tamper, to_nothing
from sordino.audit.run_game import GameWatcher
from sordino.audit.scene import stage
from sordino.audit.small_runs import CLIENTS, RECORDS, Halted, aside, document_of, small_federation, small_run
from sordino.audit.whitebox import audit, guarantees
from sordino.data.holdings import holdings
from sordino.errors import LedgerError
from sordino.events import Charge
from sordino.runs.folder import RunFolder

ROUNDS, EARLY = 8, 2
SETTINGS = ("mechanism.name=fed_ldp", "mechanism.noise_multiplier=2.8", f"run.rounds={ROUNDS}", "budget.epsilon=none")
TRIALS = 200_000
DELTA = 1e-5

ShownCost = float | None
"""The ε that the books came to; None where they were refused."""


def play(seed: int, told: GameWatcher = lambda done, of: None) -> list[Finding]:
    """Plays every way to forget."""
    scene = stage("fed_ldp", settings=SETTINGS[1:])
    told(0, 1 + len(FORGERIES))
    attained = audit(scene, guarantees(scene)[0], TRIALS, seed, workers=1)
    found = list[Finding]()
    for done, (name, forge) in enumerate(FORGERIES.items()):
        told(1 + done, 1 + len(FORGERIES))
        found.append(judged(attained, name, forge))
    return found


def judged(attained: Finding, name: str, forge: Callable[[Path], float]) -> Finding:
    """Holds what the books say after a forgery against what the releases gave away."""
    began = time.perf_counter()
    with aside() as place:
        try:
            shown: ShownCost = forge(place)
        except LedgerError as refusal:
            shown, said = None, f"refused ({str(refusal).split(': ')[0][:60].replace(str(place), '…')})"
        else:
            said = f"the books say ε = {shown:.4g}"
    false = shown is not None and attained.lower_bound > shown
    return replace(
        attained,
        certified=attained.certified if shown is None else shown,
        gaussian_fit=None,
        curve_broken=false,
        verdict="violated" if false else "consistent",
        attack=f"{name}: {said}",
        seconds=time.perf_counter() - began,
    )


def lost(place: Path) -> float:
    """The ledger vanishes in the middle of a run, with all that was published of it, and the run goes on."""
    run = _halted(place, ROUNDS - EARLY)
    for file in [*RunFolder(run).private.glob("ledger.db*"), RunFolder(run).heads]:
        file.unlink(missing_ok=True)
    return _resumed(run)


def rolled_back(place: Path) -> float:
    """An older copy of the ledger, and of its heads, takes its place in the middle of a run."""
    run = _halted(place, 1)
    folder = RunFolder(run)
    kept = {file: file.read_bytes() for file in (folder.ledger, folder.heads)}
    _interrupted(run, ROUNDS - 1, resume=True)
    for file in folder.private.glob("ledger.db-*"):
        file.unlink()
    for file, data in kept.items():
        file.write_bytes(data)
    return _resumed(run)


def settled_as_nothing(place: Path) -> float:
    """All settlements are rewritten to nothing, with fresh hashes."""
    path = _books(place)
    rewritten(path, to_nothing)
    return _read(path)


def cut_off(place: Path) -> float:
    """The last rows are cut off, and the head is set back."""
    path = _books(place)
    rewritten(path, lambda rows: rows[: -2 * (ROUNDS - EARLY)])
    return _read(path)


def unread_log(place: Path) -> float:
    """A crash leaves most rows in the write-ahead log; somebody reads the ledger who may not write to it."""
    path = _crashed(place)
    for file in path.parent.iterdir():
        file.chmod(0o444)
    path.parent.chmod(0o555)
    try:
        return _read(path)
    finally:
        path.parent.chmod(0o755)


def cut_log(place: Path) -> float:
    """The write-ahead log is cut to a quarter after a crash."""
    path = _crashed(place)
    cut(path.with_name(f"{path.name}-wal"))
    return _read(path)


def frozen(place: Path) -> float:
    """Triggers in the file swallow all rows under a live process."""
    path = place / "books" / "ledger.db"
    with Ledger.open(path, "audit", CLIENTS, create=True) as ledger:
        _release(ledger, range(EARLY), [1])
        tamper(path, *FROZEN)
        _release(ledger, range(EARLY, ROUNDS), [1])
    return _read(path)


def edited(place: Path) -> float:
    """Rows are removed, and the head is set back, under a live process."""
    path = place / "books" / "ledger.db"
    with Ledger.open(path, "audit", CLIENTS, create=True) as ledger:
        _release(ledger, range(ROUNDS - EARLY), [1])
        first = ledger.entries[EARLY].seq
        tamper(
            path,
            f"DELETE FROM rows WHERE seq >= {first}",
            f"UPDATE head SET seq = {first - 1}, hash = (SELECT hash FROM rows WHERE seq = {first - 1})",
        )
        _release(ledger, range(ROUNDS - EARLY, ROUNDS), [1])
    return _read(path)


def other_holders(place: Path) -> float:
    """The records are dealt out anew for each study: one person is client 2, then client 0, then client 1."""
    path, first = place / "books" / "ledger.db", small_federation()
    for study, client in enumerate([2, 0, 1]):
        x, y = (torch.roll(part, RECORDS * study, 0) for part in (first.train_x, first.train_y))
        dealt = replace(first, train_x=x, train_y=y)
        with Ledger.open(path, "audit", CLIENTS, create=not study, holders=holdings(dealt)) as ledger:
            _release(ledger, _STUDIES[study], [client])
    return _read(path)


def other_rows(place: Path) -> float:
    """Bert takes part in three studies, each time in another row."""
    path, names = place / "books" / "ledger.db", ["anna", "bert", "carl"]
    for study, client in enumerate([1, 0, 2]):
        with Ledger.open(path, "audit", [*names[study:], *names[:study]], create=not study) as ledger:
            _release(ledger, _STUDIES[study], [client])
    return _read(path)


_STUDIES = (range(3), range(3, 6), range(6, ROUNDS))

FORGERIES: dict[str, Callable[[Path], float]] = {
    "ledger lost while a run is interrupted": lost,
    "older copy of the ledger": rolled_back,
    "settlements rewritten to nothing": settled_as_nothing,
    "last rows cut off": cut_off,
    "a reader without the write-ahead log": unread_log,
    "write-ahead log cut short": cut_log,
    "triggers that swallow rows": frozen,
    "rows removed under a live process": edited,
    "records dealt out anew": other_holders,
    "clients in another order": other_rows,
}


def _charges() -> Sequence[Charge]:
    mechanism = stage("fed_ldp", settings=SETTINGS[1:]).mechanism
    return mechanism.quote(mechanism.adapter.start())


def _release(ledger: Ledger, rounds: Sequence[int], clients: Sequence[int]) -> None:
    charges = _charges()
    for round_ in rounds:
        number = ledger.reserve("run", round_ + 1, np.array(clients), charges)
        ledger.settle(number, charges, digest=f"release {round_}")


def _books(place: Path) -> Path:
    """Returns the ledger of all releases, closed in good order."""
    path = place / "books" / "ledger.db"
    with Ledger.open(path, "audit", CLIENTS, create=True) as ledger:
        _release(ledger, range(ROUNDS), [1])
    return path


def _crashed(place: Path) -> Path:
    """Returns the ledger as a crash leaves it: early releases in the file, the others in its log."""
    path = place / "books" / "ledger.db"
    with Ledger.open(path, "audit", CLIENTS, create=True) as ledger:
        _release(ledger, range(EARLY), [1])
    with Ledger.open(path) as ledger:
        _release(ledger, range(EARLY, ROUNDS), [1])
        return image(path.parent, place / "crashed") / "ledger.db"


def _read(path: Path) -> float:
    """Returns what a reader is told who verifies the ledger."""
    with Ledger.open(path, write=False) as ledger:
        ledger.verify()
        told = certify(ledger, DELTA).entry("client", "server").epsilon
    return float("inf") if told is None else told


def _interrupted(run: Path, rounds: int, resume: bool = False) -> None:
    with suppress(Halted):
        small_run(run, SETTINGS, 1, small_federation(), resume=resume, rounds=rounds)


def _halted(place: Path, rounds: int) -> Path:
    _interrupted(place / "run", rounds)
    return place / "run"


def _resumed(run: Path) -> float:
    small_run(run, SETTINGS, 1, small_federation(), resume=True)
    told = document_of(run).promise("client", "server").epsilon
    return float("inf") if told is None else told
