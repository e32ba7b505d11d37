"""What is said in words is judged by all seeds, and figure by figure."""

from __future__ import annotations

import pytest

from sordino.reproduce.baek import only_large
from sordino.reproduce.yuan_online import shrinks


@pytest.mark.parametrize(
    ("plans", "shown", "status"),
    [
        ([[30, 27, 24], [30, 26]], "30 → 25.0, falls in 2 of 2 seeds", "equal"),
        ([[30, 27, 24], [30, 30]], "30 → 27.0, falls in 1 of 2 seeds", "differs"),
        ([[30, 24, 26]], "30 → 26.0, falls in 0 of 1 seeds", "differs"),
    ],
)
def test_refinement_is_judged_by_every_seed(plans: list[list[float]], shown: str, status: str) -> None:
    line = shrinks("ϑ = 1.05", plans)
    assert (line.ours, line.status, line.why) == (shown, status, "")


def test_only_what_was_never_refined_is_told_so() -> None:
    assert "nothing is refined" in shrinks("ϑ = 0.9", [[30, 30], [30, 30]]).why


def test_a_large_loss_is_found_where_it_is_said_to_be_and_nowhere_else() -> None:
    small = {(1.0, 0.1): 0.0, (1.0, 0.3): 0.019, (1.5, 0.1): -0.01}
    assert only_large(small | {(1.5, 0.3): 0.02}).status == "equal"
    assert only_large(small | {(1.5, 0.3): 0.01}).status == "differs"
    assert only_large(small | {(1.0, 0.3): 0.05, (1.5, 0.3): 0.1}).status == "differs"
