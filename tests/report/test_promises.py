"""What a page says of promises that are more than one number: two adjacencies, a filter, a claim held to a budget."""

from __future__ import annotations

import re

from sordino.charts import Axis, Chart, Series
from sordino.report import compared, page, plots
from sordino.report.reading import read
from sordino.report.view import RunView

from .conftest import CROWD, Player

FAITHFUL = "mechanism.mode=faithful"


def chart(view: RunView, key: str) -> Chart:
    return next(found for found in plots.charts(view) if found.key == key)


def test_two_adjacencies_of_one_observer_are_told_apart(played: Player, view: RunView) -> None:
    both = read(played("dropout_robust", *CROWD, FAITHFUL))
    zeroed, removed = "client/outsider/zero_out", "client/outsider/add_remove"
    assert set(both.promises) == {"client/server", zeroed, removed}
    assert both.promises[removed]["epsilon"] is None
    spent = both.rounds[-1]["epsilon"]
    assert spent[removed] is None
    assert spent[zeroed] == both.promises[zeroed]["epsilon"]
    drawn = chart(both, "epsilon")
    assert [line.label for line in drawn.series if isinstance(line, Series)] == [
        "client against server",
        "client against outsider (zero out)",
    ]
    assert drawn.note.endswith("for client against outsider (add or remove).")
    html = page.page(both, [])
    assert f'data-entry="{removed}"' in html
    assert "one client against an outsider, zero out<" in html
    assert "one client against an outsider, add or remove<" in html
    assert "one client against the server<" in html
    together = compared.page([both, view], [])
    assert "ε client against outsider (zero out)" in together
    assert "ε client against outsider (add or remove)" in together


def test_runs_with_other_adjacencies_share_no_column(played: Player) -> None:
    other = read(played("dropout_robust", *CROWD))
    assert other.guarantees["client/outsider"].adjacency != other.guarantees["client/server"].adjacency
    third = read(played("fed_ldp"))
    keys = {found.key for found in compared.charts([other, third])}
    assert {"epsilon-client-outsider-add_remove", "epsilon-client-outsider-zero_out"} <= keys


def test_a_filter_promises_its_level_and_not_the_path(played: Player) -> None:
    view = read(played("a_dpfl"))
    promised = view.promises["record/server"]["epsilon"]
    assert view.rounds[-1]["epsilon"]["record/server"] < 0.99 * promised
    by_round, over = chart(view, "epsilon"), chart(view, "epsilon-clients")
    assert [rule.label for rule in by_round.rules] == [f"budget 1, promised {promised:.3f}"]
    assert [(rule.at, rule.upright) for rule in over.rules] == [(promised, True)]
    assert over.x.range is not None and over.x.range[1] > promised
    together = {found.key: found.note for found in compared.charts([view, read(played("fed_ldp"))])}
    assert "What a_dpfl promised in the end is in the table" in together["epsilon-record-server"]
    assert "promised in the end" not in together["epsilon-client-server"]
    for note in (by_round.note, over.note):
        assert "Composed so far; what is promised is the line" in note
        assert "the promise is the filter's, whatever path the run took" in note


def test_a_certificate_above_the_budget_is_no_success(played: Player, view: RunView) -> None:
    printed = read(played("geometric", FAITHFUL))
    assert printed.promises["client/server"]["epsilon"] > 1
    html = page.page(printed, [])
    assert 'class="badge alarming">certified for unseeded noise, above the budget<' in html
    assert "That exceeds the budget of 1, which bound only the claim." in html
    assert "near their limit" not in html
    assert [rule.label for rule in chart(printed, "epsilon").rules] == ["budget 1, claimed 1.000"]
    assert "above the budget" not in page.page(view, [])


def test_both_pages_say_the_same_of_the_same_promise(view: RunView) -> None:
    """The private page bounded guesses by one point (ε, δ), and the public one by the whole curve: 88 and 60 %."""
    public, private = (re.findall(r"guess right (.*?) of the time", page.page(one, [])) for one in _both(view))
    promised = sum(entry["epsilon"] is not None for entry in view.promises.values())
    assert public == private and len(public) == promised > 0
    assert [page.page(one, []).count("<dt>sees</dt>") for one in _both(view)] == [promised, promised]


def _both(view: RunView) -> tuple[RunView, RunView]:
    return read(view.path, public=True), read(view.path)


def test_names_that_stand_on_the_axis_are_not_said_again_beside_it() -> None:
    series = tuple(Series(name, [name], [0.5], "dots") for name in ("one", "other"))
    axes = Axis("", categories=True), Axis("test accuracy")
    assert not Chart("scores", "Final score", "", *axes, series).legend
    assert Chart("scores", "Final score", "", *axes, (*series, Series("third", ["one"], [0.5], "dots"))).legend
