"""The same people are the same on a ledger, whether a data frame, a table or an estimator brings their records."""

import csv

import numpy as np
import pytest
import torch

from sordino.account.ledger.ledger import Ledger
from sordino.data.federation import Federation
from sordino.data.holdings import holdings
from sordino.data.public import PublicCounts
from sordino.data.record_hashes import record_hashes
from sordino.errors import LedgerError
from sordino.estimators.classifier import PrivateClassifier

PEOPLE, EACH = 6, 4
WIDE, NARROW = {"age": (0.0, 200.0), "dose": (-9.0, 9.0)}, {"age": (0.0, 100.0), "dose": (-5.0, 5.0)}


class Frame(dict):
    columns = property(list)


@pytest.fixture
def frame():
    draws = np.random.default_rng(0)
    age, dose = draws.uniform(0, 90, PEOPLE * EACH), draws.uniform(-4, 4, PEOPLE * EACH)
    label = draws.integers(0, 2, PEOPLE * EACH)
    who = np.array([f"p{place // EACH}" for place in range(PEOPLE * EACH)])
    return Frame(age=age, dose=dose, who=who, label=label)


def by_frame(frame, ranges=None, **options):
    return Federation.from_dataframe(frame, "label", "who", test=None, ranges=ranges, **options)


def test_people_under_new_names_are_the_same_in_whichever_ranges_a_data_frame_is_scaled(frame, tmp_path):
    """A ledger knew the records of a data frame as they were scaled: other ranges made other people of them."""
    first, again = by_frame(frame, NARROW), by_frame(frame, WIDE)
    renamed = by_frame(Frame(frame, who=np.char.add("q", frame["who"])), WIDE)
    assert not torch.equal(first.train_x, again.train_x)
    path = tmp_path / "ledger.db"
    Ledger.open(path, "study", first.names, create=True, holders=holdings(first)).close()
    Ledger.open(path, "study", again.names, create=True, holders=holdings(again)).close()  # the same, by name
    with pytest.raises(LedgerError, match="hold exactly what clients of an earlier run held"):
        Ledger.open(path, "study", renamed.names, create=True, holders=holdings(renamed))


@pytest.mark.parametrize("share", [None, 0.5])
def test_a_table_and_a_data_frame_of_it_hold_the_same(frame, tmp_path, share):
    file = tmp_path / "table.csv"
    with file.open("w", newline="") as out:
        csv.writer(out).writerows([frame.columns, *zip(*frame.values(), strict=True)])
    table = Federation.from_csv(file, "label", "who", test=0.0, ranges=NARROW)
    made = Federation.from_dataframe(frame, "label", "who", test=share, ranges=WIDE)
    told = dict(zip(table.names, holdings(table), strict=True))
    assert made.population == (PEOPLE if share is None else PEOPLE // 2)
    assert [told[name] for name in made.names] == list(holdings(made))


def test_an_estimators_people_are_the_same_whatever_their_features_ranges(frame):
    x = np.stack([frame["age"], frame["dose"]], 1)
    y, found = torch.from_numpy(frame["label"]), []
    for ranges in (NARROW, WIDE):
        made = PrivateClassifier(feature_ranges=list(ranges.values()), records=len(x), population=PEOPLE)
        found.append(made._federation(x, y, 2, frame["who"]))
    assert not torch.equal(found[0].train_x, found[1].train_x)
    assert holdings(found[0]) == holdings(found[1])


def test_a_gap_is_a_gap_whatever_library_made_it():
    zero = np.zeros(1, np.float32)
    with np.errstate(invalid="ignore"):
        x = torch.from_numpy(np.stack([np.float32("nan") * np.ones(1, np.float32), zero / zero, -(zero / zero)]))
    hashes = record_hashes(x, torch.zeros(3, dtype=torch.int64))
    assert len({row.tobytes() for row in hashes}) == 1


def test_records_are_known_as_they_were_read_where_some_are_set_aside():
    x, y = torch.randn(20, 3), torch.zeros(20, dtype=torch.int64)
    told = PublicCounts(population=20, records=20, classes=2)
    plain = Federation.of(x, y, None, test=0.3, public=told)
    made = Federation.of(x.sin(), y, None, test=0.3, public=told, read=x)
    assert holdings(made) == holdings(plain)
