from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sordino.report.words import best_guess, figure, number, promise

ENTRY = {
    "unit": "record",
    "observer": "server",
    "adjacency": "add_remove",
    "epsilon": 1.0,
    "delta": 1e-5,
    "status": "certified",
    "accountant": "pld",
    "reason": "",
    "claimed_epsilon": None,
}


@given(st.floats(0, 20))
def test_randomised_response_attains_the_best_guess(epsilon: float) -> None:
    # Answering truthfully with probability e^ε/(1+e^ε) is (ε, 0)-private, and its answer is the best guess.
    assert best_guess(epsilon, 0.0) == pytest.approx(math.exp(epsilon) / (1 + math.exp(epsilon)), abs=1e-12)


def test_no_information_is_a_coin_and_delta_gives_everything_away() -> None:
    assert best_guess(0.0, 0.0) == 0.5
    assert best_guess(0.0, 1.0) == 1.0
    assert best_guess(1e6, 0.0) == 1.0


def test_a_certified_promise_says_whom_it_protects_from_whom() -> None:
    told = promise(ENTRY, "distributed")
    assert "each single record of a client" in told.sentence
    assert "behind a secure sum, no message alone" in told.sentence
    assert "at most 73.1 %" in told.sentence
    assert told.epsilon == "1.000" and told.claimed is None and told.contrast == ""


def test_a_guess_is_bounded_by_the_whole_curve_where_it_is_known() -> None:
    attack = {"advantage": 0.107, "mu": 0.268, "regret": 0.0, "false_negative_rates": []}
    assert "at most 55.4 %" in promise(ENTRY | {"attack": attack}, "distributed").sentence  # (1 + 0.107)/2 = 0.5535


def test_what_the_paper_claims_is_put_beside_what_is_proved() -> None:
    told = promise(ENTRY | {"epsilon": 821.45, "claimed_epsilon": 2.72}, "local")
    assert told.claimed == "2.720"
    assert told.contrast == "The paper's formula says 2.720; what is proved is 821.45, 302 times that."


def test_an_unbounded_promise_says_why() -> None:
    why = {"epsilon": None, "status": "claimed-only", "claimed_epsilon": 0.5, "reason": "noise follows private data"}
    told = promise(ENTRY | why, "local")
    assert told.epsilon == "∞"
    assert told.sentence.endswith("nothing is proved for each single record of a client: noise follows private data.")
    assert "proves nothing" in told.contrast


@pytest.mark.parametrize(("epsilon", "text"), [(None, "∞"), (0.5, "0.500"), (12.345, "12.35"), (15526.1, "15,526")])
def test_numbers_read_well(epsilon: float | None, text: str) -> None:
    assert number(epsilon) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0.63462, "0.6346"), (12975.88, "12,976"), (math.nan, "diverged"), (math.inf, "diverged")]
)
def test_measured_numbers_read_well(value: float, text: str) -> None:
    assert figure(value) == text
