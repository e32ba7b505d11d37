"""Work on all cores gives what it gives on one."""

import pytest

from sordino.aggregate.secure import cores
from sordino.aggregate.secure.cores import on_all_cores


@pytest.mark.parametrize("count", [1, 2, 3, 8])
@pytest.mark.parametrize("items", [0, 1, 15, 16, 17, 100])
def test_results_come_in_order(monkeypatch, count, items):
    monkeypatch.setattr(cores, "CORES", count)
    assert on_all_cores(lambda x: x * x, range(items)) == [x * x for x in range(items)]


@pytest.mark.parametrize("count", [1, 3])
def test_a_failure_is_not_swallowed(monkeypatch, count):
    monkeypatch.setattr(cores, "CORES", count)
    with pytest.raises(ZeroDivisionError):
        on_all_cores(lambda x: 1 // (x - 37), range(100))
