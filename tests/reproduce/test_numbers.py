"""What needs no training is exact, to the digits that are printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from sordino.reproduce import baek, fed_cad, xue
from sordino.reproduce.bench import Bench
from sordino.reproduce.shelf import EXPERIMENTS


def test_table_2_of_baek_is_equal_but_for_one_last_digit(tmp_path: Path) -> None:
    lines = EXPERIMENTS["baek-table2"].find(Bench(tmp_path, quick=True)).lines
    assert len(lines) == 27
    assert {line.quantity for line in lines if line.status != "equal"} == {"ε after 100,000 rounds, 0% dropout"}
    assert all(line.status in ("equal", "close") for line in lines)


@pytest.mark.parametrize(
    ("multiplier", "rounds", "printed"), [(0.5, 100, 9.1418), (1.0, 100, 1.6118), (1.0, 200, 1.7456)]
)
def test_figures_of_baek_print_the_same_accountants_numbers(multiplier: float, rounds: int, printed: float) -> None:
    assert round(baek.epsilon(multiplier, rounds), 4) == printed


def test_the_epsilon_of_fed_cad_does_not_follow_from_its_noise() -> None:
    line = fed_cad.printed_epsilon(0.3, 30, 2.72)
    assert line.status == "not reproducible as printed"
    assert line.ours == "243.63"


@pytest.mark.parametrize(("budget", "sigma0", "rounds"), [(0.5, 26, 4), (2.0, 26, 60), (8.0, 10, 100)])
def test_delta_looks_like_zero_where_xue_says_so(budget: float, sigma0: float, rounds: int) -> None:
    assert xue.silent(budget, sigma0, rounds).status == "equal"
