"""All lies, not some: a server that may tell each client anything opens no sum of too few, none with too little noise.

The long form is `python -m tests.aggregate.secure.checker`.
"""

import numpy as np
import pytest

from .checker.algebra import opened
from .checker.defects import DEFECTS, s1, terms_below_the_floor, worlds
from .checker.lies import Search
from .checker.wide import components, search


@pytest.mark.parametrize("number", range(9))
def test_no_lie_opens_a_sum_of_too_few(number):
    name, world, floor = worlds(long=False)[number]
    report = Search(world, name, floor, seconds=60).run()
    assert report.attacks == []
    assert report.states > 20 and report.asked > 100 and sum(report.sums.values()) > 5
    assert min(report.sums) >= floor


def test_terms_below_a_client_s_floors_are_not_played():
    assert terms_below_the_floor("floors", 20).attacks == []


@pytest.mark.parametrize("finding", DEFECTS)
def test_each_finding_put_back_is_found_again(finding):
    defect, find = DEFECTS[finding]
    with defect():
        assert find().attacks


def test_random_lies_on_sparse_graphs_open_nothing_either():
    report = search("random", seconds=3, sizes=(48, 100))
    assert report.attacks == [] and report.states > 20 and report.sums
    with s1():
        assert search("random", seconds=60, sizes=(200,)).attacks


def test_both_ways_to_solve_for_sums_agree():
    rng = np.random.default_rng(0)
    for _ in range(300):
        links = [(a, b) for a in range(6) for b in range(a) if rng.random() < 0.4]
        rows = {c: {} for c in range(6)}
        for a, b in links:
            for client, sign in ((a, 1), (b, -1)):
                if rng.random() < 0.9:
                    rows[client][a, b, 0] = sign
        assert sorted(map(sorted, opened(rows))) == sorted(
            map(sorted, components({c: set(r) for c, r in rows.items()}))
        )
