"""Partitions: laws that every kind obeys, and what each kind promises."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from sordino.data.disjoint import by_key
from sordino.data.partition import Partition, PartitionTable
from sordino.data.settings import PartitionKind, PartitionSettings, spread
from sordino.errors import DataError

KINDS = [kind for kind in get_args(PartitionKind) if kind != "by_key"]
LABELS = np.random.default_rng(0).integers(0, 10, 6000)


def make(kind: str, seed: int = 0, labels: np.ndarray = LABELS, **fields: object) -> Partition:
    return spread(PartitionSettings(kind=kind, **fields), labels, None, len(labels), seed)  # type: ignore[arg-type]


def everyone(partition: Partition) -> tuple[np.ndarray, np.ndarray]:
    return partition.indices(np.arange(partition.count))


def histograms(partition: Partition, clients: np.ndarray, labels: np.ndarray = LABELS) -> np.ndarray:
    """How many records of each class the clients hold."""
    offsets, records = partition.indices(clients)
    return np.stack([np.bincount(labels[mine], minlength=10) for mine in np.split(records, offsets[1:-1])])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("clients", [7, 100, 1500])
def test_disjoint_partitions_deal_out_every_record_once(kind: str, clients: int) -> None:
    partition = make(kind, clients=clients, alpha=0.1)
    offsets, records = everyone(partition)
    assert partition.count == clients
    assert sorted(records) == list(range(len(LABELS)))
    assert (np.diff(offsets) >= 1).all()


@given(
    kind=st.sampled_from(KINDS),
    clients=st.integers(5, 40),
    size=st.one_of(st.none(), st.integers(1, 50)),
    alpha=st.sampled_from([1e-3, 0.1, 1.0, 100.0]),
    share=st.floats(0, 1),
    seed=st.integers(0, 2**32),
    chosen=st.lists(st.integers(0, 39), max_size=8),
)
@settings(max_examples=120, deadline=None)
def test_laws(
    kind: str, clients: int, size: int | None, alpha: float, share: float, seed: int, chosen: list[int]
) -> None:
    labels = LABELS[:400]
    partition = make(kind, seed, labels, clients=clients, size=size, alpha=alpha, share=share)
    cohort = np.array([client % clients for client in chosen], np.int64)
    offsets, records = partition.indices(cohort)
    assert offsets[0] == 0 and offsets[-1] == len(records)
    assert np.array_equal(np.diff(offsets), partition.sizes(cohort))
    assert (partition.sizes(np.arange(clients)) >= 1).all()
    assert ((records >= 0) & (records < len(labels))).all()
    # A client's records do not depend on who else is asked.
    for k, client in enumerate(cohort):
        alone = make(kind, seed, labels, clients=clients, size=size, alpha=alpha, share=share)
        assert np.array_equal(alone.indices(np.array([client]))[1], records[offsets[k] : offsets[k + 1]])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [None, 20])
def test_another_seed_gives_another_partition(kind: str, size: int | None) -> None:
    first, second = (everyone(make(kind, seed, clients=50, size=size))[1] for seed in (0, 1))
    assert not np.array_equal(first, second)


def test_iid_sizes_differ_by_at_most_one_and_labels_are_alike() -> None:
    partition = make("iid", clients=70)
    sizes = partition.sizes(np.arange(70))
    assert sizes.max() - sizes.min() <= 1
    assert stats.chi2_contingency(histograms(partition, np.arange(70))).pvalue > 1e-4


@pytest.mark.parametrize("size", [None, 60])
def test_dirichlet_skews_more_as_alpha_falls(size: int | None) -> None:
    def dominance(alpha: float) -> float:
        counts = histograms(make("dirichlet", clients=100, size=size, alpha=alpha), np.arange(100))
        return float((counts.max(1) / counts.sum(1)).mean())

    assert dominance(0.05) > 0.7 > dominance(1.0) > 0.25 > dominance(1000.0) > 0.1


@pytest.mark.parametrize("alpha", [0.05, 0.5, 5.0])
def test_drawn_dirichlet_has_the_moments_of_its_law(alpha: float) -> None:
    clients, size = np.arange(3000), 50
    labels = np.arange(5000) % 10
    counts = histograms(make("dirichlet", labels=labels, clients=3000, size=size, alpha=alpha), clients, labels)
    # Dirichlet-multinomial: variance n·p(1−p)·(n+A)/(1+A) with A = 10·alpha.
    total = 10 * alpha
    expected = size * 0.09 * (size + total) / (1 + total)
    assert counts.mean(0) == pytest.approx(size / 10, rel=0.25)
    assert counts.var(0).mean() == pytest.approx(expected, rel=0.08)


def test_dirichlet_leaves_nobody_without_data() -> None:
    partition = make("dirichlet", clients=3000, alpha=0.001)
    sizes = partition.sizes(np.arange(3000))
    assert sizes.min() == 1 and sizes.sum() == len(LABELS)


@pytest.mark.parametrize("size", [None, 30])
@pytest.mark.parametrize("each", [1, 2, 5, 10])
def test_pathological_clients_hold_exactly_so_many_classes(each: int, size: int | None) -> None:
    counts = histograms(make("pathological", clients=60, size=size, classes_per_client=each), np.arange(60))
    assert ((counts > 0).sum(1) == each).all()


def test_pathological_classes_have_equally_many_holders() -> None:
    counts = histograms(make("pathological", clients=63, classes_per_client=2), np.arange(63))
    holders = (counts > 0).sum(0)
    assert holders.max() - holders.min() <= 1


@pytest.mark.parametrize("size", [None, 100])
@pytest.mark.parametrize("share", [0.0, 0.2, 0.5, 0.8, 1.0])
def test_label_skew_gives_the_share_to_one_label(share: float, size: int | None) -> None:
    labels = np.arange(6000) % 10
    counts = histograms(make("label_skew", labels=labels, clients=60, size=size, share=share), np.arange(60), labels)
    main = counts.max(1) / counts.sum(1)
    expected = share + (1 - share) / 10
    slack = 0.12 if share == 0 else 0.05  # with no main label, the largest of ten counts is what is seen
    assert abs(main.mean() - expected) < slack
    assert len(set(counts.argmax(1))) == 10
    if share == 1.0:
        assert (main == 1).all()


@pytest.mark.parametrize("size", [None, 100])
def test_label_skew_shares_may_differ_between_clients(size: int | None) -> None:
    labels = np.arange(60_000) % 10
    partition = make("label_skew", labels=labels, clients=500, size=size, share=0.9, share_min=0.1)
    counts = histograms(partition, np.arange(500), labels)
    shares = (counts.max(1) / counts.sum(1) - 0.1) / 0.9
    assert shares.mean() == pytest.approx(0.5, abs=0.06)
    assert shares.std() == pytest.approx(0.8 / np.sqrt(12), rel=0.2)


@pytest.mark.parametrize("size", [None, 60])
def test_quantity_skew_is_about_sizes(size: int | None) -> None:
    partition = make("quantity_skew", clients=100, size=size, alpha=0.5)
    sizes = partition.sizes(np.arange(100))
    assert sizes.mean() == pytest.approx(60, rel=0.35)
    assert sizes.std() == pytest.approx(60 / np.sqrt(0.5), rel=0.35)  # Gamma(α): coefficient of variation 1/√α


def test_by_key_follows_the_owners() -> None:
    owners = np.array(["b", "a", "c", "a", "b", "a"])
    partition = by_key(owners)
    assert partition.names == ("a", "b", "c")
    assert partition.sizes(np.arange(3)).tolist() == [3, 2, 1]
    offsets, records = partition.indices(np.array([2, 0]))
    assert offsets.tolist() == [0, 1, 4] and records.tolist() == [2, 1, 3, 5]


def test_drawn_records_are_distinct_until_a_class_is_exhausted() -> None:
    partition = make("iid", clients=10, size=3000)
    _, records = partition.indices(np.array([4]))
    assert len(set(records)) == 3000
    wrapped = make("pathological", clients=3, size=5000, classes_per_client=1)
    _, records = wrapped.indices(np.array([1]))
    label = LABELS[records[0]]
    assert len(records) == 5000 and set(records) == set(np.flatnonzero(label == LABELS))


def test_drawn_records_cover_the_data_evenly() -> None:
    _, records = everyone(make("iid", clients=2000, size=30))
    assert stats.chisquare(np.bincount(records, minlength=len(LABELS))).pvalue > 1e-4


@pytest.mark.parametrize("kind", KINDS)
def test_a_million_clients_cost_no_memory(kind: str) -> None:
    labels = np.arange(60_000) % 10
    tracemalloc.start()
    partition = make(kind, labels=labels, clients=1_000_000, size=60)
    cohort = np.random.default_rng(0).choice(1_000_000, 1000, replace=False)
    offsets, records = partition.indices(cohort)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert offsets[-1] == len(records) > 0
    assert peak < 100e6


IMPOSSIBLE = [
    ({"kind": "iid", "clients": 7000}, "partition.clients is 7000"),
    ({"kind": "dirichlet", "clients": 7000}, "partition.size"),
    ({"kind": "iid", "clients": 0}, "at least one client"),
    ({"kind": "iid", "size": 5}, "partition.clients must say"),
    ({"kind": "iid", "clients": 5, "size": 0}, "partition.size is 0"),
    ({"kind": "pathological", "clients": 5, "classes_per_client": 11}, "classes_per_client is 11"),
    ({"kind": "pathological", "clients": 5, "size": 9, "classes_per_client": 0}, "classes_per_client is 0"),
    ({"kind": "pathological", "clients": 5000, "classes_per_client": 10}, "use fewer clients"),
    ({"kind": "pathological", "clients": 4, "classes_per_client": 2}, "cannot hold all 10 classes"),
    ({"kind": "by_key"}, "names no owners"),
]


@pytest.mark.parametrize(("fields", "sentence"), IMPOSSIBLE)
def test_impossible_settings_are_refused_by_name(fields: dict[str, object], sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        make(**fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "fields", [{"alpha": 0.0}, {"alpha": float("nan")}, {"share": 1.5}, {"share_min": 0.9}, {"kind": "idd"}]
)
def test_impossible_numbers_are_refused(fields: dict[str, object]) -> None:
    with pytest.raises(DataError, match=r"partition\."):
        replace(PartitionSettings(), **fields)


def test_by_key_refuses_a_number_of_clients() -> None:
    with pytest.raises(DataError, match=r"remove partition\.clients"):
        spread(PartitionSettings("by_key", clients=2), None, np.array(["a", "b"]), 2, 0)


@pytest.mark.parametrize("kind", ["dirichlet", "pathological", "label_skew"])
@pytest.mark.parametrize("size", [None, 5])
def test_label_kinds_need_classes(kind: str, size: int | None) -> None:
    with pytest.raises(DataError, match="not classes"):
        spread(PartitionSettings(kind, clients=2, size=size), None, None, 10, 0)  # type: ignore[arg-type]


def test_a_table_refuses_a_client_without_data() -> None:
    with pytest.raises(DataError, match="client 1 has no data"):
        PartitionTable(np.array([0, 2, 2, 3]), np.arange(3))
    with pytest.raises(DataError, match="no client is left"):
        PartitionTable(np.array([0]), np.arange(0))
