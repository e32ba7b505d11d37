"""What published numbers say of who is there, and whether a certificate's words are those of the run."""

import json

import numpy as np
import pytest

from review.test_what_cohorts_give_away import federation
from sordino import run
from sordino.data.federation import Federation
from sordino.data.public import PublicCounts
from sordino.errors import RecipeError
from sordino.events import Guarantee
from sordino.recipe import Recipe
from sordino.runs.setup import assemble
from sordino.select.separated import Separated
from sordino.terms import Knobs, Terms, Turn

QUIET = {"progress": False, "idle_settings": "warn", "budget": {"epsilon": "none"}}


def named(people):
    """A federation whose clients have names, one record each."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(20, 3)).astype(np.float32)[: len(people)]
    counts = PublicCounts(20, 20, 2)
    return Federation.of(x, (x[:, 0] > 0).astype(int), np.array(people), None, 2, public=counts)


@pytest.mark.parametrize("kind", ["auto", "plain"])
@pytest.mark.parametrize("name", ["dropout_robust", "distributed_gaussian", "geometric", "component_adaptive"])
def test_the_last_bit_of_the_noise_does_not_count_the_clients(tmp_path, name, kind):
    """Shares' floats added up to .05 for 19 clients and to .049999999999999996 for 20, and the sum was published."""
    told = set()
    for clients in (15, 16, 17, 18, 19, 20):
        mechanism = {"name": name, "noise_multiplier": 2.0}
        mechanism |= {"trust": "distributed"} if name in ("geometric", "component_adaptive") else {}
        folder = tmp_path / f"{clients}"
        asked = {"mechanism": mechanism, "aggregate": {"kind": kind}, "run": {"rounds": 1}}
        outcome = run(federation=federation(clients, 20), out=folder, **asked, **QUIET)
        assert outcome.certificate.entry("client", "outsider").adjacency == "add_remove"
        line = json.loads((folder / "public" / "metrics.jsonl").read_text().splitlines()[0])
        told.add(line["noise_stddev"])
    assert len(told) == 1


def test_a_rota_by_position_hides_nobodys_presence():
    """Who leaves moves everybody after it into another round: the sums of others change, not its own alone."""
    part, turn = Separated(3), Turn(Terms(1, np.zeros(1), Knobs(1.0, 1.0)), None)
    names = np.array(list("abcdefg"))
    with_a = [set(names[part.select(turn.but(round_=m), np.ones(7, bool))]) - {"a"} for m in (1, 2, 3)]
    without = [set(names[1:][part.select(turn.but(round_=m), np.ones(6, bool))]) for m in (1, 2, 3)]
    assert with_a != without
    promise = part.charge(Guarantee("client", "outsider", "add_remove"), None).guarantee
    assert promise == Guarantee("client", "outsider", "zero_out")


def test_banded_promises_what_its_rota_keeps(tmp_path):
    mechanism = {"name": "banded", "noise_multiplier": 2.0, "groups": 3}
    outcome = run(federation=federation(12), out=tmp_path / "run", mechanism=mechanism, run={"rounds": 6}, **QUIET)
    assert {one.adjacency for one in outcome.document.promises} == {"zero_out"}


@pytest.mark.parametrize("how", [("mechanism.selection=weighted",), ("dropout.rate=0.2",), ("dropout.late=0.3",)])
def test_releases_that_choose_how_often_a_client_pays_need_a_filter(how):
    """Scores that were released drew the cohorts, and the price of the path that came of it was certified."""
    base = ["mechanism.name=a_dpfl", "partition.clients=12", "select.kind=fixed", "select.size=4"]
    assert assemble(Recipe.load(None, [*base, *how])).mechanism.adaptive
    with pytest.raises(RecipeError, match="filter"):
        assemble(Recipe.load(None, [*base, *how, "mechanism.schedule=constant"]))
    assert not assemble(Recipe.load(None, [*base, "mechanism.schedule=constant"])).mechanism.adaptive


@pytest.mark.parametrize("name", ["local_dp_sgd", "a_dpfl"])
def test_a_certificate_names_the_denominator_that_was_used(tmp_path, name):
    """Both divide by the clients that answered, and their certificates spoke of a public constant."""
    asked = {"mechanism": {"name": name}, "partition": {"clients": 8}, "run": {"rounds": 2}, "progress": False}
    document = run(out=tmp_path / "run", budget={"epsilon": 8}, **asked).document
    assert document.statement.denominator.startswith("the number of clients that answered")
    assert "who vanishes does not depend on the data" in document.statement.assumptions
    assert any(line.startswith("declared numbers") for line in document.statement.assumptions)


def test_heads_of_a_shared_ledger_do_not_tell_of_newcomers(tmp_path):
    """Joining was a row of its own, whose head is published, and the certificate said that this is not protected."""
    told, mechanism = {}, {"name": "dp_fedavg", "noise_multiplier": 2.0}
    for more in (0, 1):
        ledger = {"path": str(tmp_path / f"{more}" / "ledger.db")}
        for name, clients in (("first", 12), ("second", 12 + more)):
            people = [f"client {number}" for number in range(clients)]
            asked = {"mechanism": mechanism, "run": {"rounds": 1}, "ledger": ledger, "federation": named(people)}
            outcome = run(out=tmp_path / f"{more}" / name, **asked, **QUIET)
        told[more] = len((tmp_path / f"{more}" / "ledger.db.heads.jsonl").read_text().splitlines())
    assert told[1] == told[0]
    assert not any("joined" in line for line in outcome.document.statement.unprotected)
