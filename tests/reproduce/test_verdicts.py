"""What is said in words is judged by all seeds, and figure by figure."""

from __future__ import annotations

import pytest

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
