"""What needs no training is exact, to the digits that are printed."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path

import pytest
from papers.catalogue import EXPERIMENTS
from papers.experiment_runner import ExperimentRunner

from papers import baek_accounting, claims, fed_cad, xue, yuan
from sordino.account.accountants.published import yuan_sigma, yuan_sum


def test_table_2_of_baek_is_equal_but_for_one_last_digit(tmp_path: Path) -> None:
    lines = EXPERIMENTS["baek-table2"].find(ExperimentRunner(tmp_path, quick=True)).lines
    assert len(lines) == 29
    assert [(line.quantity, line.ours) for line in lines if line.status != "equal"] == [
        ("ε after 100,000 rounds, 0% dropout", "28.553"),
        ("ε greater without calibration, 100 rounds, 10% dropout (§VII)", "13 %"),
        ("ε greater without calibration, 100 rounds, 30% dropout (§VII)", "53 %"),
    ]
    assert all(line.status in ("equal", "close") for line in lines)


@pytest.mark.parametrize(
    ("multiplier", "rounds", "printed"), [(0.5, 100, 9.1418), (1.0, 100, 1.6118), (1.0, 200, 1.7456)]
)
def test_figures_of_baek_print_the_same_accountants_numbers(multiplier: float, rounds: int, printed: float) -> None:
    assert round(baek_accounting.epsilon(multiplier, rounds), 4) == printed


@pytest.mark.parametrize(
    ("multiplier", "rounds", "printed"),
    [
        (0.5, 100, 9.1418),
        (1.0, 100, 1.6118),
        (1.5, 100, 0.6731),
        (2.0, 100, 0.4437),
        (1.0, 200, 1.7456),
        (1.5, 200, 0.7421),
    ],
)
def test_orders_in_tenths_up_to_30_give_every_epsilon_of_the_figures(
    multiplier: float, rounds: int, printed: float
) -> None:
    found = baek_accounting.by_tenths(multiplier, rounds)
    assert printed <= found < printed + 1e-4, "the printed digits, the rest cut off"


def test_an_epsilon_that_table_2s_orders_miss_says_which_orders_give_it() -> None:
    line = baek_accounting.epsilons(100, {2.0: 0.4437})[0]
    assert (line.ours, line.status) == ("0.3877", "differs") and line.why.endswith("give 0.4437 with digits cut off")


def test_the_epsilon_of_fed_cad_does_not_follow_from_its_noise() -> None:
    line = fed_cad.printed_epsilon(0.3, 30, 2.72)
    assert line.status == "not reproducible as printed"
    assert line.ours == "243.63"


@pytest.mark.parametrize(("sigma", "rounds", "printed"), [(0.3, 30, "2.72"), (0.5, 30, "1.50"), (0.3, 60, "3.97")])
def test_ten_times_its_noise_gives_every_epsilon_of_fed_cad(sigma: float, rounds: int, printed: str) -> None:
    assert f"{fed_cad.told_ten_times(sigma, rounds):.2f}" == printed
    assert abs(fed_cad.told_ten_times(sigma / 10, rounds) / float(printed) - 1) > 5, (
        "the stated noise gives nothing near"
    )


def lines(id_: str, words: str) -> list[tuple[str, str]]:
    """Returns what an exact experiment says of lines that begin with some words."""
    found = EXPERIMENTS[id_].find(ExperimentRunner(Path(), quick=True)).lines
    return [(line.ours, line.status) for line in found if line.quantity.startswith(words)]


def test_a_diff_that_follows_updates_shows_in_the_noise() -> None:
    assert lines("cad-theorems", "Theorem VI.1: ε of a third") == [("at least 57.7, whatever σ is", "differs")]


def test_a_users_share_of_a_mean_is_the_propositions_and_theirs_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert lines("baek-propositions", "") == [("1.000000", "equal"), ("1.000000", "equal"), ("1.000", "equal")]
    monkeypatch.setattr(claims, "_changes", lambda weights, replaced=True: [0.03])
    assert [status for _, status in lines("baek-propositions", "")] == ["differs"] * 3


def test_lemma_7_holds_for_a_client_that_misses_nothing() -> None:
    assert lines("xue-lemmas", "Lemma 7") == [("1.000", "equal"), ("7.000", "differs")]


def test_theorem_1_of_yuan_spends_what_eq_26_leaves_out() -> None:
    log = math.log(1 / 1e-3)
    told = [f"{epsilon + epsilon**2 / (4 * log):.3f}" for epsilon in (1, 10)]  # the least of s(λ+1) + ln(1/δ)/λ
    assert lines("yuan-theorems", "Theorem 1") == [(one, "differs") for one in told] and told[1] == "13.619"


def test_the_noise_of_yuans_bound_is_printed_over_the_wrong_difference() -> None:
    assert lines("yuan-theorems", "Theorem 3") == [("-0.000505", "differs"), ("0.000505", "differs")]  # 0.05 / 99


@pytest.mark.parametrize(("dropout", "printed"), [(0.1, 1.822), (0.3, 2.463)])
def test_the_weight_that_an_epsilon_asks_for_is_found(dropout: float, printed: float) -> None:
    assert baek_accounting.weight_left(baek_accounting.epsilon((1 - dropout) ** 0.5, 100)) == pytest.approx(1 - dropout)
    assert baek_accounting.weight_left(printed) == pytest.approx(1 - dropout, abs=2e-4)


@pytest.mark.parametrize(("budget", "sigma0", "rounds"), [(0.5, 26, 4), (2.0, 26, 60), (8.0, 10, 100)])
def test_delta_looks_like_zero_where_xue_says_so(budget: float, sigma0: float, rounds: int) -> None:
    assert xue.silent(budget, sigma0, rounds).status == "equal"


def test_no_number_of_rounds_makes_yuans_amplitude_rise_with_theta_as_table_ii_does() -> None:
    assert list(yuan.TABLE.values()) == sorted(yuan.TABLE.values())
    for rounds in range(1, 101):
        row = [yuan.first_sigma(theta, rounds) for theta in yuan.THETAS]
        assert all(after <= before * (1 + 1e-12) for before, after in pairwise(row))


def test_yuans_remarks_on_eq_8_hold() -> None:
    def sigma(epsilon: float, rounds: int, rate: float, theta: float) -> float:
        return yuan_sigma(1.0, epsilon, 1e-3, rate, yuan_sum(theta, rounds))

    base = sigma(10, 30, 0.1, 1.05)
    assert sigma(5, 30, 0.1, 1.05) > base  # Remark 1: more noise, less ε; and more rounds need more of it
    assert sigma(10, 31, 0.1, 1.05) > base
    assert sigma(10, 30, 0.2, 1.05) > base  # Remark 2: so do more clients
    plain = (2 * 0.1 * 30 * math.log(1 / 1e-3)) ** 0.5 / 10  # Remark 3
    assert sigma(10, 30, 0.1, 1.0) == pytest.approx(plain)
    assert sigma(10, 30, 0.1, 1 + 1e-7) == pytest.approx(plain, rel=1e-5)
