"""A federation as a table that lives: nodes, rounds, ε so far, who is late."""

from __future__ import annotations

import time

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from sordino.federation.status import FederationStatus, NodeStatus

_STYLE = {"answered": "green", "idle": "dim", "asked": "cyan", "late": "yellow", "lost": "red", "refused": "red"}
_LAST = 5


def picture(status: FederationStatus) -> RenderableType:
    """Returns the whole status."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("node", "state", "since", "stage", "rounds", "note"):
        table.add_column(column, overflow="fold")
    for node in status.nodes:
        table.add_row(*_row(node, status))
    events = [Text(f"· {event}", style="dim") for event in status.events[-_LAST:]]
    return Group(Text.from_markup(_headline(status)), table, *events)


def _headline(status: FederationStatus) -> str:
    words = [f"[bold]{escape(status.federation)}[/]", status.state, f"round {status.round} of {status.rounds}"]
    if status.stage:
        left = f", {max(0, status.deadline - time.time()):.0f} s left" if status.deadline else ""
        words.append(f"{escape(status.stage)}{left}")
    words += [f"ε {name}: {'∞' if spent is None else f'{spent:.3g}'}" for name, spent in status.epsilon.items()]
    words += [f"accuracy {status.accuracy:.1%}"] if status.accuracy is not None else []
    return " · ".join(words)


def _row(node: NodeStatus, status: FederationStatus) -> tuple[str, ...]:
    late = node.state == "asked" and 0 < status.deadline < time.time()
    state = "late" if late else node.state
    since = f"{time.time() - node.since:.0f} s" if node.since else ""
    styled = f"[{_STYLE.get(state, 'default')}]{state}[/]"
    return escape(node.name), styled, since, node.stage, str(node.answered), escape(node.note)


class StatusView:
    """Draws a status again and again in a terminal; in a log, a line whenever something changes."""

    def __init__(self, console: Console, quiet: bool = False) -> None:
        self._console, self._quiet = console, quiet
        self._live = Live(console=console, refresh_per_second=2) if console.is_terminal and not quiet else None
        self._told = 0
        self._round = 0

    def __enter__(self) -> StatusView:
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._live.stop()

    def show(self, status: FederationStatus) -> None:
        """Shows the newest status."""
        if self._live:
            self._live.update(picture(status))
        elif not self._quiet:
            self._lines(status)

    def say(self, sentence: str) -> None:
        """Says what the operator's own machine does."""
        if not self._quiet:
            self._console.print(escape(sentence), style="dim", highlight=False)

    def _lines(self, status: FederationStatus) -> None:
        fresh = status.events[self._told :] if len(status.events) >= self._told else status.events
        self._told = len(status.events)
        for event in fresh:
            self._console.print(f"  · {escape(event)}", highlight=False)
        finished = status.round - (status.stage != "")
        if finished > self._round or status.state in ("stopped", "failed"):
            self._round = finished
            self._console.print(_headline(status), highlight=False)
