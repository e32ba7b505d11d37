"""Settings chosen on the private data themselves, and paid for.

Under central trust only the best trial is ever seen, and the best of a random number of trials costs little more than
two of them (`account/accountants/selection.py`). Under local and distributed trust the server sees every trial: they
compose, and a fixed number of them is charged in full, to everybody.

**Formal guarantees**: the whole search is in the ledger before the first trial, reserved and settled; every client pays
for every round, whether it took part or not. Where the number of trials is secret, nothing that is published tells how
long they took: the ledger's heads, the certificate and the files have the time at which they began. Noise is calibrated
so that the search as a whole keeps the budget. Trials differ in settings that no price depends on (this is checked),
each draws them by itself, alike from the grid, and has randomness of its own, named after the ledger's past: two
searches on one ledger share no draw. The score that decides is of public records.
"""

from __future__ import annotations

import os
import secrets
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from sordino.account.accountants.selection import draw_trials, stop_for
from sordino.account.certificate.certificate import Certificate
from sordino.account.certificate.document import CertificateDocument
from sordino.account.ledger.ledger import Ledger
from sordino.data.federation import Federation
from sordino.errors import RecipeError, SordinoWarning
from sordino.events import BestOfMany, Charge, ComposedDpEvent, DpEvent, Guarantee, SelfComposedDpEvent, Unbounded
from sordino.files import PRIVATE, PUBLIC, replace_file
from sordino.random.streams import Entropy, Randomness, Streams
from sordino.recipe import Recipe
from sordino.runs.books import charging_for
from sordino.runs.context import RunContext
from sordino.runs.folder import RunFolder
from sordino.runs.outcome import Outcome
from sordino.runs.public import public_recipe
from sordino.runs.run import run
from sordino.runs.setup import assemble
from sordino.runs.statement import statement_of
from sordino.runs.stream import stream_name
from sordino.runs.subject import GivenInPython
from sordino.sections.budget import LedgerSection
from sordino.tune.grid import SettingsGrid, with_settings

SHAPE = 0.0
"""η: the logarithmic law, the cheapest that Papernot and Steinke recommend."""
TrialWatcher = Callable[[int, int], None]


@dataclass(frozen=True)
class Attempt:
    """One trial: its settings and its score on public records."""

    settings: tuple[str, ...]
    score: float


@dataclass(frozen=True)
class Charged:
    """What a charged search came to."""

    best: Attempt
    recipe: Recipe
    """The recipe as it was played, with the chosen settings and the noise of the search."""
    attempts: tuple[Attempt, ...]
    """All trials, in order."""
    best_alone: bool
    """Whether the best trial alone was paid for (central trust): then the others are for whoever ran the search."""
    certificate: Certificate
    document: CertificateDocument
    folder: Path


def charged(recipe: Recipe, grid: SettingsGrid, trials: int, out: Path, watcher: TrialWatcher) -> Charged:
    """Searches the grid by about (central trust) or exactly so many trials, and releases the best one's model.

    Raises:
        RecipeError: the mechanism adapts its noise, makes an opening release or is played as printed; a setting changes
            the price; there are no public records to judge by; or `out` holds something already.
        BudgetExceeded: a client cannot pay for the search; nothing was trained.
    """
    context = assemble(recipe)
    _require(context, recipe)
    stop = stop_for(SHAPE, trials) if context.mechanism.trust == "central" else None
    context = _calibrated(context, grid, trials, stop)
    context = replace(context, randomness=Entropy()) if recipe.run.entropy else context
    folder = RunFolder(out)
    folder.prepare()
    path = recipe.ledger.path or folder.ledger
    name = f"{out.name}-{secrets.token_hex(4)}"
    with charging_for(context, path, name, heads=None if recipe.ledger.path else folder.heads) as opened:
        stream = _stream(context, opened.ledger, grid)
        charging, randomness = replace(opened, fingerprint=stream), _randomness(recipe, stream)
        count = trials if stop is None else draw_trials(SHAPE, stop, randomness.generator("trials"))
        facts = {"run": name, "simulation": not recipe.run.entropy, "head": charging.ledger.head, "stream": ""}
        folder.create(context.recipe, facts)
        charges = [_whole(guarantee, event, trials, stop) for guarantee, event in _trial(context).items()]
        everyone = np.arange(context.federation.population)
        reservation = charging.reserve_for_everybody(1, charges, "the search", "tune on stand-in data")
        # before the trials: a head that is published after them would tell by its time how many there were
        charging.settle(reservation, everyone, charges, None)
        certificate, began = charging.certificate(), time.time()
        played = _played(context, grid, count, folder.private / "trials", randomness, watcher)
        best, (attempt, outcome) = max(enumerate(played), key=lambda pair: pair[1][0].score)
        statement = replace(statement_of(outcome.context), data_accesses=(_accesses(trials, stop),))
        document = charging.document(certificate, statement, None)
        folder.save_model(context.state(outcome.weights))
        folder.save_certificate(certificate, document)
    chosen = with_settings(context.recipe, played[best][0].settings)
    replace_file(folder.private / "chosen.toml", chosen.to_toml().encode(), PRIVATE)
    replace_file(folder.public / "chosen.toml", public_recipe(chosen).encode(), PUBLIC)  # the seed repeats the noise
    for path in (*folder.public.iterdir(), folder.public):
        os.utime(path, (began, began))
    attempts = tuple(one for one, _ in played)
    return Charged(attempt, chosen, attempts, stop is not None, certificate, document, out)


def _played(
    context: RunContext, grid: SettingsGrid, count: int, folder: Path, randomness: Randomness, watcher: TrialWatcher
) -> list[tuple[Attempt, Outcome]]:
    """Plays so many independent trials on the same people, each with settings that it draws."""
    generator, seeds, points = randomness.generator("settings"), randomness.generator("seeds"), grid.points()
    # the search is paid for already, so that a trial has a ledger of its own and no budget
    free = with_settings(context.recipe.but(ledger=LedgerSection()), ["budget.epsilon=none"])
    played = []
    for trial in range(count):
        settings = points[int(generator.integers(len(points)))]
        # the people stay the same: the federation is handed over, and the seed names the noise alone
        chosen = with_settings(free, [*settings, f"run.seed={int(seeds.integers(2**63))}"])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SordinoWarning)  # one trial of many: its score says how good it is
            outcome = run(
                chosen, federation=context.federation, out=folder / f"{trial:03}", progress=False, idle_settings="warn"
            )
        played.append((Attempt(settings, _score(outcome)), outcome))
        watcher(trial + 1, count)
    return played


def _score(outcome: Outcome) -> float:
    """Returns accuracy on public records, or the loss with its sign turned; what diverged is the worst."""
    found = outcome.context.public_scores(outcome.weights)
    if not found:
        found = {k: v for k, v in (("accuracy", outcome.accuracy), ("loss", outcome.loss)) if v is not None}
    score = found["accuracy"] if "accuracy" in found else -found["loss"]
    return score if np.isfinite(score) else -np.inf


def _trial(context: RunContext, factor: float = 1.0) -> dict[Guarantee, DpEvent]:
    """Returns what one trial costs a client that takes part in every round, with noise times `factor`."""
    mechanism, rounds = context.mechanism, context.recipe.run.rounds
    events: dict[Guarantee, list[DpEvent]] = {}
    for m in range(1, rounds + 1):
        knobs = mechanism.adapter.planned(m)
        knobs = knobs.but(noise_multiplier=knobs.noise_multiplier * factor)
        for charge in mechanism.quote(knobs, m):
            events.setdefault(charge.guarantee, []).append(charge.event)
    return {guarantee: _composed(mine) for guarantee, mine in events.items()}


def _composed(events: Sequence[DpEvent]) -> DpEvent:
    unbounded = [event for event in events if isinstance(event, Unbounded)]
    if unbounded:
        return unbounded[0]
    return SelfComposedDpEvent(events[0], len(events)) if len(set(events)) == 1 else ComposedDpEvent(tuple(events))


def _whole(guarantee: Guarantee, trial: DpEvent, trials: int, stop: float | None) -> Charge:
    """Returns what the search costs: the best of many where only that is seen, else all of them."""
    if isinstance(trial, Unbounded):
        return Charge(guarantee, trial)
    whole = SelfComposedDpEvent(trial, trials) if stop is None else BestOfMany(trial, SHAPE, stop)
    return Charge(guarantee, whole)


def _calibrated(context: RunContext, grid: SettingsGrid, trials: int, stop: float | None) -> RunContext:
    """Returns the run with so much noise that the search as a whole keeps the budget.

    Raises:
        RecipeError: a combination of the grid has another price than the others.
    """
    target, recipe = context.target, context.recipe
    if recipe.mechanism.noise_multiplier is not None:
        factor = 1.0
    else:

        def least(guarantee: Guarantee) -> float:
            def history(factor: float) -> dict[DpEvent, int]:
                return {_whole(guarantee, _trial(context, factor)[guarantee], trials, stop).event: 1}

            return target.least_noise(history, adjacency=guarantee.adjacency)

        bounded = [guarantee for guarantee, event in _trial(context).items() if not isinstance(event, Unbounded)]
        factor = max(map(least, bounded))
    noise = context.mechanism.adapter.start().noise_multiplier * factor
    fixed = with_settings(recipe, [f"mechanism.noise_multiplier={noise!r}"])
    made = assemble(fixed, federation=context.federation)
    costs = _trial(made)
    for settings in grid.points():
        if _trial(assemble(with_settings(fixed, settings), federation=context.federation)) != costs:
            raise RecipeError(
                f"--grid {', '.join(settings)} changes what a trial costs: search settings that no price depends on"
            )
    return made


def _require(context: RunContext, recipe: Recipe) -> None:
    mechanism = context.mechanism
    opens = mechanism.opening is not None or bool(mechanism.preparation)
    if mechanism.adaptive or opens or mechanism.claim is not None:
        raise RecipeError(
            f"{mechanism.name} chooses noise under way, opens with a release, or is played as printed: a charged "
            "search needs a schedule that is fixed; tune it on stand-in data instead"
        )
    if recipe.run.target is not None:
        raise RecipeError("run.target ends trials by what they show: leave it out of a charged search")
    if not _judged(context.federation):
        raise RecipeError(
            "a charged search is judged on public records, and there are none: set data.public_fraction, or "
            "public.test = true if the test records may be published"
        )


def _judged(federation: Federation) -> bool:
    public = federation.public_x is not None and len(federation.public_x) > 0
    return public or (federation.test_public and len(federation.test_x) > 0)


def _stream(context: RunContext, ledger: Ledger, grid: SettingsGrid) -> str:
    """Returns the name of this search's draws: a second one on the ledger, or on another grid, shares none of them.

    Two searches that drew alike would show the best and the second best of the same trials, at the price of the best
    of two independent ones.
    """
    return f"{stream_name(context, ledger, GivenInPython())}/{grid.points()}"


def _randomness(recipe: Recipe, stream: str) -> Randomness:
    return Entropy() if recipe.run.entropy else Streams(f"tune/{stream}")


def _accesses(trials: int, stop: float | None) -> str:
    if stop is None:
        return f"choice of settings by {trials} trials, each of which the server saw: all charged"
    return (
        f"choice of settings by the best of a random number of trials (logarithmic law, {trials} expected; the "
        "number and the other trials are secret): charged as one release"
    )


def table(attempts: Sequence[Attempt]) -> list[Mapping[str, object]]:
    """Returns trials as plain data, best first."""
    ranked = sorted(attempts, key=lambda one: -one.score)
    return [{"settings": list(one.settings), "score": one.score} for one in ranked]
