"""The game of published files: an outsider reads every file of a run that its permissions let others read.

It knows everything but whether the target took part: it looks for words and numbers that come up in one world only,
and for what it can compute itself under either hypothesis, from the published model and the records it knows (exact
losses) and from these records alone (digests).
"""

from __future__ import annotations

import json
import stat
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import load

from sordino.audit.small_runs import aside, small_federation, small_model, small_run
from sordino.data.federation import Federation
from sordino.data.holdings import holdings
from sordino.layout import Layout
from sordino.recipe import Recipe
from sordino.runs.setup import assemble

SETTINGS = (
    "mechanism.name=dp_fedavg",
    "mechanism.noise_multiplier=16",
    "select.kind=poisson",
    "select.rate=0.8",
    "run.rounds=8",
    "run.evaluate_every=8",
    "budget.epsilon=none",
)


@dataclass(frozen=True)
class FilesSeen:
    """What the outsider noted of one run: words with the place where they stood."""

    words: frozenset[str]


def play(present: bool, seed: int) -> FilesSeen:
    """Plays a run of one world and reads what lies open."""
    with aside() as place:
        small_run(place / "run", SETTINGS, seed, small_federation(present, test=False))
        opened = dict(readable(place / "run"))
        words = {word for name, data in opened.items() for word in _words(name, data)}
        return FilesSeen(frozenset(words | set(_predictions(opened, seed))))


def learn(without: Sequence[FilesSeen], with_: Sequence[FilesSeen]) -> Callable[[FilesSeen], float]:
    """Returns a score by the words that came up in one world's pilot runs more often than in the other's."""
    counts = [Counter(word for seen in world for word in seen.words) for world in (without, with_)]
    gains = {w: counts[1][w] / len(with_) - counts[0][w] / len(without) for w in counts[0].keys() | counts[1].keys()}
    most = max(map(abs, gains.values()), default=0.0)
    telling = {word: gain for word, gain in gains.items() if abs(gain) >= 0.9 * most}
    return lambda seen: sum(gain for word, gain in telling.items() if word in seen.words) / max(1, len(telling))


def readable(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Yields the files below a folder that others may read, every folder on the way being open to them."""
    for path in sorted(folder.rglob("*")):
        way = [one for one in path.parents if one.is_relative_to(folder)]
        if path.is_file() and _open(path, stat.S_IROTH) and all(_open(one, stat.S_IXOTH) for one in way):
            yield str(path.relative_to(folder)), path.read_bytes()


def _open(path: Path, bit: int) -> bool:
    return bool(path.stat().st_mode & bit)


def _words(name: str, data: bytes) -> Iterator[str]:
    """Yields what a file says, each word with its place; lines and lists count as one place."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return
    if name.endswith(".toml"):
        yield from _flat(name, tomllib.loads(text))
    elif name.endswith(".json"):
        yield from _flat(name, json.loads(text))
    elif name.endswith(".jsonl"):
        for line in text.splitlines():
            yield from _flat(name, json.loads(line))
    else:
        yield from (f"{name}: {word}" for word in text.split())


def _flat(place: str, value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, inside in value.items():
            yield from _flat(f"{place}/{key}", inside)
    elif isinstance(value, list):
        for inside in value:
            yield from _flat(place, inside)
    else:
        yield f"{place} = {value}"


def _predictions(opened: Mapping[str, bytes], seed: int) -> Iterator[str]:
    """Yields which hypothesis's own numbers stand in a file: losses of the published model, digests of the records."""
    everything = b"\n".join(opened.values())
    told = [set(_marks(small_federation(present, test=False), opened, seed)) for present in (False, True)]
    for present in (False, True):
        if any(mark in everything for mark in told[present] - told[not present]):
            yield f"a number that follows if the target was {'there' if present else 'not there'}"


def _marks(federation: Federation, opened: Mapping[str, bytes], seed: int) -> Iterator[bytes]:
    for digest in (bytes.fromhex(federation.digest), *holdings(federation)):
        yield digest
        yield digest.hex().encode()
    model = next((data for name, data in opened.items() if name.endswith("model.safetensors")), None)
    if model is not None:
        context = assemble(Recipe.load(None, [*SETTINGS, f"run.seed={seed}"]), small_model(), federation)
        weights = Layout.of(small_model()).flatten(load(model))
        loss, _ = context.evaluate(weights)
        yield f"{loss:.9f}".rstrip("0")[:-2].encode()  # as far as another machine would round alike
