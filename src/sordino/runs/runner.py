"""A run: rounds until the recipe, the budget or the target says stop; a crash loses nothing and forgets no cost."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from torch import Tensor, nn

from sordino import recipe as recipes
from sordino._version import __version__
from sordino.account.certificate.certificate import Certificate
from sordino.account.ledger.ledger import Ledger
from sordino.data.federation import Federation
from sordino.errors import BudgetExceeded, ProtocolError, RecipeError
from sordino.events import Charge
from sordino.mechanism import Turn
from sordino.random.streams import Streams
from sordino.recipe import Recipe
from sordino.runs.client_store import ClientStore
from sordino.runs.folder import Checkpoint, RunFolder
from sordino.runs.round import Stage, play, scalars
from sordino.runs.setup import Cast, assemble
from sordino.server.charging import Books, Eligible, filters_for

Watcher = Callable[[Mapping[str, Any]], None]
"""Is told the metrics of every round."""


@dataclass(frozen=True)
class Outcome:
    """What a run came to."""

    folder: Path
    rounds: int
    stopped: str
    accuracy: float | None
    loss: float | None
    seconds: float
    certificate: Certificate
    simulation: bool
    weights: Tensor = field(repr=False)
    why: str = ""

    def to_json(self) -> dict[str, Any]:
        """Returns the outcome as `sordino run --json` prints it."""
        return {
            "run": str(self.folder),
            "rounds": self.rounds,
            "stopped": self.stopped,
            "why": self.why,
            "test": {"accuracy": self.accuracy, "loss": self.loss},
            "seconds": round(self.seconds, 3),
            "certificate": [asdict(entry) for entry in self.certificate.entries],
            "simulation": self.simulation,
        }


def run(
    recipe: Recipe | None = None,
    *,
    model: nn.Module | None = None,
    federation: Federation | None = None,
    out: Path | str | None = None,
    resume: bool = False,
    watcher: Watcher | None = None,
) -> Outcome:
    """Trains a federated model under a privacy budget.

    Args:
        recipe: what to do; the embedded default when left out.
        model: a module of your own, in place of `recipe.model`.
        federation: data of your own, in place of `recipe.data` and `recipe.partition`.
        out: the run folder; by default a new one under `runs/`.
        resume: go on with the run that `out` holds, or begin it if it never got started.
        watcher: is called with the metrics of every round.

    Raises:
        SordinoError: one sentence that names what is wrong and what to do about it; nothing is half-written.
    """
    began = time.perf_counter()
    recipe = recipe or recipes.read(None)
    folder = RunFolder(Path(out) if out else fresh_folder(recipe))
    started = (folder.path / "run.json").exists()
    if started and not resume:
        raise RecipeError(f"--out {folder.path} already holds a run: add --resume, or name another folder")
    if started:
        _same(recipe, folder)
    cast = assemble(recipe, model, federation)
    if not started:
        _refuse_if_spent(recipe, cast)
        if recipe.ledger.path is not None:
            with books_for(recipe, cast, recipe.ledger.path, ""):
                pass  # a ledger that cannot be made leaves no folder behind
        folder.create(recipes.dump(recipe), {"run": f"{folder.path.name}-{secrets.token_hex(4)}", "simulation": True})
    ledger, name = recipe.ledger.path or folder.ledger, folder.facts()["run"]
    with folder.alone():
        with books_for(recipe, cast, ledger, name) as books:
            last = _rounds(recipe, cast, folder, books, watcher or (lambda metrics: None))
            certificate = books.certificate(last.stopped)
        folder.save_model(cast.layout, last.weights)
        folder.save_certificate(certificate)
    loss, accuracy = cast.evaluate(last.weights)
    return Outcome(
        folder=folder.path,
        rounds=last.round_,
        stopped=last.stopped or "rounds",
        why=last.why,
        accuracy=accuracy,
        loss=loss,
        seconds=time.perf_counter() - began,
        certificate=certificate,
        simulation=True,
        weights=last.weights,
    )


def _rounds(recipe: Recipe, cast: Cast, folder: RunFolder, books: Books, watcher: Watcher) -> Checkpoint:
    """Plays rounds from the last checkpoint on, and returns where they ended."""
    store = ClientStore(folder.store)
    stage = Stage(cast.mechanism, cast.trainer, cast.federation, cast.dropout, cast.server, books)
    randomness = Streams(recipe.run.seed)
    here = folder.load(store) or opened(stage, Turn(0, cast.weights, {}, randomness, store))
    folder.rewind(here.round_)
    while here.stopped is None:
        turn = Turn(here.round_ + 1, here.weights, here.knobs, randomness, store)
        here = _one(recipe, cast, stage, folder, turn, here, watcher)
        folder.save(here, store)
    return here


def _one(
    recipe: Recipe, cast: Cast, stage: Stage, folder: RunFolder, turn: Turn, here: Checkpoint, watcher: Watcher
) -> Checkpoint:
    """Plays one round and tells about it; a budget that would be exceeded keeps the model and stops."""
    began = time.perf_counter()
    try:
        played = play(stage, turn, here.public)
    except BudgetExceeded as stop:
        return Checkpoint(here.round_, here.weights, here.knobs, here.public, "budget", str(stop))
    except ProtocolError as abort:
        played = None
        about: dict[str, Any] = {"round": turn.round_, "aborted": str(abort)}
    weights, knobs = (played.weights, played.knobs) if played else (turn.weights, turn.knobs)
    public = cast.public_scores(weights) if played else here.public
    if played:
        about = {"round": turn.round_, **played.about(), "epsilon": stage.books.spent()}
    if turn.round_ == 1:
        about["first_knobs"] = scalars(turn.knobs)
    last = min(recipe.run.rounds, int(knobs.get("last_round", recipe.run.rounds)))  # a schedule may end earlier
    looks = turn.round_ % recipe.run.evaluate_every == 0 or turn.round_ >= last
    loss, accuracy = cast.evaluate(weights) if looks else (None, None)
    about |= {"loss": loss, "accuracy": accuracy, "seconds_total": time.perf_counter() - began}
    folder.log(about)
    if recipe.run.notes and played:
        folder.note(turn.round_, played.notes)
    watcher(about)
    reached = recipe.run.target is not None and accuracy is not None and accuracy >= recipe.run.target
    stopped = "target" if reached else "rounds" if turn.round_ >= last else None
    return Checkpoint(turn.round_, weights, knobs, public, stopped)


def opened(stage: Stage, turn: Turn) -> Checkpoint:
    """Returns where a run begins: the first knobs, after the opening release if the mechanism makes one."""
    knobs = dict(stage.mechanism.adapter.start())
    if stage.mechanism.opening is not None:
        charges = tuple(Charge(guarantee, event) for guarantee, event in stage.mechanism.opening.price())
        everyone = np.arange(stage.federation.population)
        nobody = Eligible(np.ones(len(everyone), bool), np.empty(0, np.int64))
        reservation = stage.books.reserve(0, everyone, charges, nobody)
        knobs |= stage.mechanism.opening.open(stage.federation, turn)
        stage.books.settle(reservation, everyone, charges, None)
    return Checkpoint(0, turn.weights, knobs, {})


@contextmanager
def books_for(recipe: Recipe, cast: Cast, path: Path, run_id: str, fingerprint: str | None = None) -> Iterator[Books]:
    """Opens a ledger for the run to charge, and closes it again; what repeats a round has the same fingerprint."""
    limits, federation = recipe.budget, cast.federation
    name = recipe.ledger.federation or federation.name
    first = Turn(1, cast.weights, cast.mechanism.adapter.start(), Streams(recipe.run.seed), ClientStore())
    digest = hashlib.blake2b(recipes.dump(recipe).encode(), digest_size=16).hexdigest()
    with Ledger.open(path, name, federation.population, create=True, delta=limits.delta) as ledger:
        yield Books(
            ledger,
            run_id,
            cast.mechanism,
            delta=limits.delta,
            epsilon=limits.epsilon,
            accountant=limits.accountant,
            minimum=limits.minimum_clients,
            repeatable=True,
            fingerprint=fingerprint or f"{__version__}/{digest}/{federation.digest}",
            planned=cast.mechanism.quote(first),
            rounds=recipe.run.rounds,
            limits=limits.clients,
            filters=filters_for(cast.mechanism, first, limits.epsilon, limits.delta),
        )


def _refuse_if_spent(recipe: Recipe, cast: Cast) -> None:
    """Raises BudgetExceeded when nobody could pay for the first release, before anything is written."""
    turn = Turn(1, cast.weights, cast.mechanism.adapter.start(), Streams(recipe.run.seed), ClientStore())
    shared = recipe.ledger.path if recipe.ledger.path and recipe.ledger.path.exists() else None
    with TemporaryDirectory() as aside, books_for(recipe, cast, shared or Path(aside) / "ledger.db", "") as books:
        books.eligible(1, cast.mechanism.quote(turn), np.ones(cast.federation.population, bool))


def fresh_folder(recipe: Recipe) -> Path:
    """Returns the name of a new folder under `runs/`."""
    stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
    path = Path("runs") / f"{stamp}-{recipe.mechanism.name}"
    return path if not path.exists() else path.with_name(f"{path.name}-{secrets.token_hex(2)}")


def _same(recipe: Recipe, folder: RunFolder) -> None:
    """Refuses to go on with another recipe than the run began with."""
    if recipes.read(folder.path / "recipe.toml") != recipe:
        raise RecipeError(
            f"{folder.path} was begun with another recipe: resume it without a recipe or --set, or name another --out"
        )
