"""What the adversary chooses, and what is public while it plays."""

from __future__ import annotations

from dataclasses import dataclass, replace

import attrs
import numpy as np
import torch
from torch import Tensor

from sordino.account.certificate.proof import doubled
from sordino.audit.inputs import contributions
from sordino.audit.release import release
from sordino.audit.scene import Scene
from sordino.data.federation import Federation
from sordino.events import Charge, Guarantee, Unbounded
from sordino.mechanism import Mechanism
from sordino.random.streams import Randomness, Streams
from sordino.runs.client_store import ClientStore
from sordino.terms import Knobs, Terms, Turn, Vanished


@dataclass(frozen=True)
class Attack:
    """The inputs that the adversary chooses: the target's raw update in each round, and what everybody else does."""

    row: Tensor
    """The target's raw update."""
    pattern: tuple[float, ...]
    """What it is multiplied by in each round."""
    others: Tensor
    """Everybody else's raw update, every round."""
    size: int | None = None
    """How many records the target says it has (None: as many as everybody)."""
    loudness: float = 1.0
    """Input of the target's extra record, where contributions are computed from records."""
    silent: int = 0
    """How many others vanish before they send anything."""
    stuck: int = 0
    """How many others vanish after they sent, before they reveal anything."""

    def vanished(self, clients: int) -> Vanished:
        """Returns who of the others vanishes: the last ones."""
        last = np.arange(clients)[::-1]
        silent, stuck = last[: self.silent], last[self.silent : self.silent + self.stuck]
        return Vanished(np.empty(0, np.int64), np.sort(silent), np.sort(stuck))

    def describe(self, scene: Scene) -> str:
        """Returns the attack in words."""
        words = [f"a record with a gradient of {1e4 * self.loudness:g}" if scene.trained else _words(self.row)]
        if len(set(self.pattern)) > 1:
            words.append(f"times ({', '.join(f'{v:g}' for v in self.pattern)}) over the rounds")
        if self.size is not None:
            words.append(f"from a client that says it has {self.size:,} records")
        if self.silent or self.stuck:
            words.append(f"while {self.silent} clients vanish before they send and {self.stuck} before they reveal")
        return " ".join(words)


def _words(row: Tensor) -> str:
    if not torch.isfinite(row).all():
        return "an update with entries that are not finite"
    along = row / row.abs().max().clamp(min=1e-30)
    return f"an update of norm {float(row.norm()):.3g} along ({', '.join(f'{float(v):g}' for v in along)})"


@dataclass(frozen=True)
class Path:
    """What is public in each round: knobs that a real play went through, and what the mechanism quotes for them."""

    knobs: tuple[Knobs, ...]
    quotes: tuple[tuple[Charge, ...], ...]

    def charges(self, guarantee: Guarantee) -> tuple[Charge, ...]:
        """Returns what the rounds cost in one guarantee.

        Where only a unit's absence is priced, its replacement moves a release twice as far.
        """
        found = tuple(charge for quote in self.quotes for charge in quote if charge.guarantee == guarantee)
        if found or guarantee.adjacency != "replace":
            return found
        once = self.charges(attrs.evolve(guarantee, adjacency="zero_out"))
        unpriced = Unbounded("replacement is not priced")
        return tuple(
            attrs.evolve(charge, guarantee=guarantee, event=doubled(charge.event) or unpriced) for charge in once
        )


def opening_knobs(mechanism: Mechanism, federation: Federation, weights: Tensor, randomness: Randomness) -> Knobs:
    """Returns the first round's knobs, after the opening release if the mechanism makes one."""
    knobs = mechanism.adapter.start()
    if mechanism.opening is None:
        return knobs
    everyone = federation.gather(np.arange(federation.population))
    told = mechanism.opening.tell(everyone, Turn(Terms(0, weights, knobs), randomness))
    return knobs.plus(mechanism.opening.conclude(told))


def walk(scene: Scene, seed: int) -> Path:
    """Plays the rounds once, with clients that all say the same, and returns the public path that this takes.

    A certificate holds for every path that releases could have taken, so one that was taken is fair to attack on.
    """
    mechanism, store, knobs, quotes = scene.mechanism, ClientStore(), list[Knobs](), list[tuple[Charge, ...]]()
    weights, everyone = torch.zeros(scene.width), np.arange(scene.clients)
    current = opening_knobs(mechanism, scene.federation, weights, Streams(seed))
    for round_ in range(1, scene.rounds + 1):
        turn = Turn(Terms(round_, weights, current, everyone), Streams(seed))
        knobs.append(current)
        quotes.append(mechanism.quote(current, round_))
        said = torch.eye(scene.width)[0].repeat(scene.clients, 1) * current.clip_norm
        state = store.state(everyone)
        bounded = contributions(scene, turn, said, np.zeros(scene.clients, bool), state=state)
        seen = release(mechanism, turn, replace(bounded, state=state), Vanished())
        store.remember(everyone, seen.state or state)
        store.commit()
        current = mechanism.adapter.adapt(turn, seen.released, {"accuracy": 0.5, "loss": 1.0})
    return Path(tuple(knobs), tuple(quotes))
