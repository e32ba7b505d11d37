"""Xue et al. (2023), §VI-C to F: the parameter study of Fig. 5."""

from __future__ import annotations

from collections.abc import Mapping

from sordino.reproduce.bench import Bench, Runs
from sordino.reproduce.experiment import Finding
from sordino.reproduce.line import Line, impossible, points, statement
from sordino.reproduce.xue_scene import (
    DROWNED,
    LEARNT,
    MNIST,
    NAMES,
    READINGS,
    SHARED,
    client,
    experiment,
    judged,
    ours,
)

CHOICES = (*SHARED, "ε is not stated for these figures: 0.5, which allows 7 uploads at σ0 = 26.")


def fig5a(bench: Bench) -> Finding:
    """Fig. 5(a): the number of clients."""
    printed = {"sgd": 0.0298, "momentum": 0.0281, "adam": 0.0290, "rmsprop": 0.0278}
    lines = []
    for optimizer in bench.size(tuple(NAMES), ("rmsprop",)):
        few = _study(bench, optimizer)
        many = _study(bench, optimizer, "partition.clients=700", "train.batch_size=5", batch=5)
        lines.append(_gap(f"50 → 700 clients, {NAMES[optimizer]}", printed[optimizer], few, many))
    return Finding(tuple(lines))


def fig5b(bench: Bench) -> Finding:
    """Fig. 5(b): the noise level σ0."""
    printed = {"sgd": 0.017, "momentum": 0.0104, "adam": 0.0094, "rmsprop": 0.0209}
    lines = []
    for optimizer in bench.size(tuple(NAMES), ("rmsprop",)):
        less, more = _study(bench, optimizer), _study(bench, optimizer, "mechanism.noise_multiplier=30")
        lines.append(_gap(f"σ0 = 26 → 30, {NAMES[optimizer]}", printed[optimizer], less, more))
    return Finding(tuple(lines))


def fig5c(bench: Bench) -> Finding:
    """Fig. 5(c): the share of clients that take part."""
    printed = {"sgd": 0.8667, "momentum": 0.8808, "adam": 0.9105, "rmsprop": 0.9221}
    lines = []
    for optimizer in bench.size(tuple(NAMES), ("rmsprop",)):
        part = _study(bench, optimizer, "select.kind=fixed", "select.size=30")
        lines.append(judged(f"u = 0.6, {NAMES[optimizer]}", printed[optimizer], part))
        lines.append(_grows(f"u = 0.6 → 1, {NAMES[optimizer]}", part, _study(bench, optimizer)))
    return Finding(tuple(lines))


def fig5d(bench: Bench) -> Finding:
    """Fig. 5(d): the truncation factor β."""
    betas = bench.size((0.8, 0.9, 1.0, 1.1, 1.2, 1.4), (0.8, 1.1, 1.4))
    found = {beta: _study(bench, "rmsprop", f"mechanism.beta={beta}") for beta in betas}
    ends = {beta: max(runs.last()[0] for runs in readings.values()) for beta, readings in found.items()}
    best, shown = max(ends, key=lambda beta: ends[beta]), ", ".join(f"{b:g}: {100 * a:.1f} %" for b, a in ends.items())
    if max(ends.values()) < LEARNT:
        return Finding((impossible("best β", "between 1.0 and 1.2", shown, DROWNED),))
    return Finding((statement("best β", "between 1.0 and 1.2", shown, 1.0 <= best <= 1.2),))


def _study(bench: Bench, optimizer: str, *changed: str, batch: int = 75) -> dict[str, Runs]:
    """Plays the parameter study of §VI-C to F: K = 64 for SGD, 16 for the others."""
    base = [*MNIST, *client(optimizer, 64 if optimizer == "sgd" else 16), f"run.rounds={bench.size(7, 2)}"]
    return bench.play({name: [*base, *ours(26, name, batch), *changed] for name in READINGS})


def _gap(quantity: str, printed: float, before: Mapping[str, Runs], after: Mapping[str, Runs]) -> Line:
    """Judges a difference of accuracies, which means something only where there is accuracy to lose."""
    shown = ", ".join(
        f"{100 * before[name].last()[0]:.1f} % → {100 * after[name].last()[0]:.1f} % ({name})" for name in before
    )
    alive = [name for name in before if before[name].last()[0] > LEARNT]
    if not alive:
        return impossible(quantity, f"{-100 * printed:+.2f} points", shown, DROWNED)
    return points(quantity, -printed, after[alive[0]].last()[0] - before[alive[0]].last()[0])


def _grows(quantity: str, part: Mapping[str, Runs], all_: Mapping[str, Runs]) -> Line:
    """Judges whether more participants give more accuracy, where there is any."""
    ends = {name: (part[name].last()[0], all_[name].last()[0]) for name in part}
    shown = ", ".join(f"{100 * few:.1f} % → {100 * many:.1f} % ({name})" for name, (few, many) in ends.items())
    best = max(ends.values(), key=max)
    if max(best) < LEARNT:
        return impossible(quantity, "accuracy increases", shown, DROWNED)
    return statement(quantity, "accuracy increases", shown, best[1] > best[0])


QUICK = "RMSprop, one seed, 2 rounds"
EXPERIMENTS = (
    experiment("xue-fig5a", "Fig. 5(a), §VI-C", "Number of clients", fig5a, QUICK, CHOICES),
    experiment("xue-fig5b", "Fig. 5(b), §VI-D", "Noise level", fig5b, QUICK, CHOICES),
    experiment("xue-fig5c", "Fig. 5(c), §VI-E", "Share of participating clients", fig5c, QUICK, CHOICES),
    experiment("xue-fig5d", "Fig. 5(d), §VI-F", "Truncation factor", fig5d, QUICK, CHOICES),
)
