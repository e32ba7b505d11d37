"""What a certificate says about how a run was made: sampling, secure sum, assumptions, read off the parts that run."""

import pytest

from sordino.aggregate.secure.graph import choose
from sordino.recipe import Recipe
from sordino.runs.setup import assemble
from sordino.runs.statement import statement_of

SMALL = ("partition.clients=60", "run.rounds=2")


def told(*settings):
    return statement_of(assemble(Recipe.load(None, [*SMALL, *settings])))


@pytest.mark.parametrize("corrupt", [0.0, 0.1])
def test_the_secure_sums_terms_are_those_that_run(corrupt):
    words = told("mechanism.name=dp_sgd", "aggregate.kind=secure", f"aggregate.corrupt={corrupt}").secure_sum
    chosen = choose(60, dropout=0.0, corrupt=corrupt)
    assert f"{chosen.threshold} (the threshold) recover a secret and {chosen.consents} open a sum" in words
    assert ("colludes with up to 6 of them" in words) == (corrupt > 0)
    assert ("nobody (aggregate.corrupt = 0)" in words) == (corrupt == 0)
    assert "128 bits" in words and "computed without cryptography" in words


def test_a_share_that_is_less_than_one_client_is_nobody_and_is_named():
    assert "nobody (aggregate.corrupt = 0.01)" in told("aggregate.kind=secure", "aggregate.corrupt=0.01").secure_sum


def test_what_withstands_a_lying_server_is_the_protocol_and_not_its_stand_in():
    wanted = ("mechanism.name=dp_sgd", "aggregate.kind=secure")
    apart, whole = (told(*wanted, f"aggregate.fidelity={one}").secure_sum for one in ("masked", "full"))
    assert apart.index("a deployment plays it in full") < apart.index("withstands a server that lies")
    assert "a deployment" not in whole and "the whole protocol was played" in whole


def test_a_sparse_graph_tells_its_chance_of_failing():
    words = told("mechanism.name=dp_sgd", "aggregate.kind=secure", "partition.clients=1000", "aggregate.tolerance=0.1")
    assert "2^-40" in words.secure_sum and "holders of its shares" in words.secure_sum


def test_shards_are_told():
    words = told("mechanism.name=dp_sgd", "aggregate.kind=secure", "aggregate.shards=3").secure_sum
    assert "3 shards of about 20 clients" in words


def test_a_plain_sum_is_called_a_stand_in_and_other_trusts_have_none():
    assert "stands in for a secure one" in told("mechanism.name=dp_sgd", "aggregate.kind=plain").secure_sum
    assert told("mechanism.name=fed_ldp").secure_sum.startswith("none")


def test_sampling_of_clients_and_of_records_is_told_apart():
    records = told("mechanism.name=dp_sgd", "mechanism.sampling_rate=0.25")
    assert "each is in a batch with probability 0.25" in records.sampling_assumed
    assert "each is in a batch with probability 0.25" in records.sampling_executed
    clients = told("mechanism.name=dp_fedavg", "select.kind=poisson", "select.rate=0.5")
    assert "Poisson, every eligible client with probability 0.5" in clients.sampling_assumed
    assert "in a batch" not in clients.sampling_assumed


@pytest.mark.parametrize(("settings", "shown"), [(("select.kind=poisson", "select.rate=0.5"), False), ((), True)])
def test_how_often_somebody_took_part_is_seen_only_where_no_coin_is_secret(settings, shown):
    views = told("mechanism.name=dp_fedavg", *settings).views
    assert views["outsider"].most_asked is shown
    assert any("asked most" in word for word in views["outsider"].words()) is shown


def test_a_record_unit_names_what_it_assumes_of_copies_and_of_batches():
    assumed = " ".join(told("mechanism.name=dp_sgd").assumptions)
    assert "once for each copy" in assumed and "same bits" in assumed
    for name, rests in (("dp_fedavg", True), ("dropout_robust", True), ("fed_ldp", True), ("dp_sgd", False)):
        said = " ".join(told(f"mechanism.name={name}").assumptions)
        assert ("last digits of another's update" in said) == rests, name


def test_what_an_outsider_is_promised_for_the_noise_of_others_says_that_it_rests_on_them():
    words = "against an outsider: the other clients add their noise and tell it to nobody"
    assert words in told("mechanism.name=fed_ldp").assumptions
    for name in ("laplace", "fed_cad", "dp_fedavg", "local_dp_sgd"):  # nothing is credited there
        assert words not in told(f"mechanism.name={name}").assumptions


def test_records_that_were_declared_public_are_named_as_unprotected():
    """A certificate said nothing of records that a recipe takes out of the promise."""
    aside, scored = "declared public and set aside (data.public_fraction)", "test records, which were declared public"
    words = "; ".join(told("mechanism.name=dp_sgd", "data.public_fraction=0.1").unprotected)
    assert aside in words and scored in words
    words = "; ".join(told("mechanism.name=dp_sgd", "public.test=false").unprotected)
    assert aside not in words and scored not in words
