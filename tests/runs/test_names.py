"""Clients by name: budgets, ledgers, second studies with other members, and a plan with what is left."""

import warnings
from dataclasses import replace

import pytest
import torch

import sordino
from sordino.account.ledger.ledger import Ledger
from sordino.errors import RecipeError, SordinoWarning


def people(*names):
    """Returns a federation in which each named person holds five records, the same in every study."""
    x = torch.cat([torch.randn(5, 4, generator=torch.Generator().manual_seed(hash_of(name))) for name in names])
    owners = [name for name in names for _ in range(5)]
    return sordino.Federation.of(x, (x.sum(1) > 0).long(), clients=owners, test=None, name="clinic")


def hash_of(name):
    return sum(map(ord, name))


def study(folder, ledger, *names, rounds=3, **sections):
    public = {"population": len(names), "records": 5 * len(names), "classes": 2}
    recipe = sordino.Recipe.from_dict(
        {"mechanism": {"name": "dp_fedavg", "clip_norm": 1.0}, "public": public, "run": {"rounds": rounds}} | sections
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        outcome = sordino.run(
            recipe.but(ledger={"path": ledger} if ledger else {}), federation=people(*names), out=folder
        )
    return outcome, [str(one.message) for one in caught if one.category is SordinoWarning]


def test_a_client_keeps_its_costs_in_other_company(tmp_path):
    """anna, bert and dora, then bert, carl and emil: bert paid for both studies, and the certificate says so."""
    ledger, plain = tmp_path / "ledger.db", {"mechanism": {"name": "dp_fedavg", "noise_multiplier": 8.0}}
    one, _ = study(tmp_path / "1", ledger, "anna", "bert", "dora", **plain, budget={"epsilon": 50})
    two, _ = study(tmp_path / "2", ledger, "bert", "carl", "emil", **plain, budget={"epsilon": 50})
    with Ledger.open(ledger, write=False) as books:
        assert books.population == 5
        assert sorted(books.participations.tolist()) == [3, 3, 3, 3, 6]
    first, both = (run.certificate.entry("client", "outsider").epsilon for run in (one, two))
    assert both == pytest.approx(sordino.epsilon({event_of(one): 6}, 1e-5), rel=0.02)
    assert both > first
    raw = ledger.read_bytes() + b"".join(path.read_bytes() for path in (tmp_path / "2" / "public").iterdir())
    assert not any(name.encode() in raw for name in ("anna", "bert", "carl", "dora", "emil"))


def event_of(outcome):
    (charge,) = [
        charge
        for charge in outcome.context.mechanism.quote(outcome.context.mechanism.adapter.start())
        if charge.guarantee.observer == "outsider"
    ]
    return charge.event


def test_a_client_has_its_own_budget_by_name(tmp_path):
    outcome, _ = study(tmp_path / "run", None, *"abcdefgh", budget={"epsilon": 4, "clients": {"c": 1.0}})
    assert outcome.rounds == 3
    with Ledger.open(outcome.folder / "private" / "ledger.db", write=False) as books:
        paid = books.participations
    assert paid[2] < 3 and (paid[[0, 1, 3, 4, 5, 6, 7]] == 3).all()
    assert "budget.clients" not in (outcome.folder / "public" / "recipe.toml").read_text()
    with pytest.raises(RecipeError, match=r"budget\.clients names 'zoe', but clinic has no client of that name"):
        study(tmp_path / "other", None, "a", "b", budget={"clients": {"zoe": 1.0}})


def test_a_second_study_plans_with_what_is_left_and_plays_to_its_end(tmp_path):
    ledger, names = tmp_path / "ledger.db", list("abcdefghijkl")
    study(tmp_path / "1", ledger, *names, budget={"epsilon": 2.0})
    whole = {"epsilon": 4.0}
    two, said = study(tmp_path / "2", ledger, *names, budget=whole, rounds=6)
    assert two.stopped == "rounds" and two.rounds == 6
    assert two.certificate.entry("client", "outsider").epsilon == pytest.approx(4.0, abs=0.05)
    assert two.certificate.entry("client", "outsider").epsilon <= 4.0
    assert any("noise is planned for what is left" in sentence for sentence in said)
    again = sordino.run(out=two.folder, federation=people(*names), resume=True)
    assert torch.equal(again.weights, two.weights)


def test_planned_as_if_nothing_were_spent_it_stops_half_way(tmp_path):
    ledger, names = tmp_path / "ledger.db", list("abcdefghijkl")
    study(tmp_path / "1", ledger, *names, budget={"epsilon": 2.0})
    recipe = sordino.Recipe.from_dict(
        {
            "mechanism": {"name": "dp_fedavg", "clip_norm": 1.0},
            "public": {"population": 12, "records": 60, "classes": 2},
            "budget": {"epsilon": 4.0},
            "run": {"rounds": 6},
            "ledger": {"path": ledger, "plan": "whole"},
        }
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SordinoWarning)
        two = sordino.run(recipe, federation=people(*names), out=tmp_path / "2")
    assert two.stopped == "budget" and two.rounds < 6


def test_the_private_page_calls_clients_by_name_and_the_public_one_does_not(tmp_path):
    from sordino.report.page import page
    from sordino.report.plots.people import label_map
    from sordino.report.reading import read

    clinic = ("anna", "bert", "carl", "dora", "emil", "fred")
    stricter = {"epsilon": 40, "clients": dict.fromkeys(clinic[1:], 1.0)}
    local = {"name": "fed_ldp", "clip_norm": 1.0}
    outcome, _ = study(tmp_path / "run", None, *clinic, mechanism=local, budget=stricter)
    here = people(*clinic)
    private = replace(read(outcome.folder), given=here)
    assert set(private.client_names.values()) == set(clinic)
    (chart,) = label_map(private)
    assert set(chart.series[0].y) == set(clinic)
    assert "<dt>client that paid most</dt><dd>anna, took part 3 times</dd>" in page(private, [])
    public = page(read(outcome.folder, True), [])
    assert not any(f">{name}" in public or f"{name}," in public for name in clinic)
