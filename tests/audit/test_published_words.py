"""With a client more or less whose presence is to be hidden: public files are the same to the word, but the model."""

import pytest

from sordino.audit.published_files import _words, readable
from sordino.audit.small_runs import aside, document_of, small_federation, small_run

ALL = ("mechanism.noise_multiplier=16", "run.rounds=3", "run.evaluate_every=3", "budget.epsilon=none")
POISSON = ("select.kind=poisson", "select.rate=0.8")
FRESH = ("/run =", "/time =", "/ledger_head =", "/public_key =", "/signature =", "heads.jsonl")
"""What every run has of its own: a random name, keys, and salted heads."""
HIDDEN = [
    ("dropout_robust", ()),
    ("dropout_robust", ("aggregate.kind=plain", "mechanism.correction=keep", *POISSON)),
    ("distributed_gaussian", ()),
    ("distributed_gaussian", ("aggregate.kind=plain",)),
    ("dp_fedavg", POISSON),
    ("geometric", ("mechanism.trust=distributed",)),
]


def words(present, settings):
    with aside() as place:
        small_run(place / "run", settings, 3, small_federation(present, test=False))
        promised = document_of(place / "run").promise("client", "outsider", "add_remove")
        opened = dict(readable(place / "run"))
    assert promised.status == "certified" and {"public/metrics.jsonl", "public/recipe.toml"} < set(opened)
    told = {word for name, data in opened.items() for word in _words(name, data)}
    return {word for word in told if not any(mark in word for mark in FRESH)}


@pytest.mark.parametrize(("name", "settings"), HIDDEN)
def test_public_files_tell_nothing_of_who_is_there(name, settings):
    without, with_ = (words(here, (f"mechanism.name={name}", *settings, *ALL)) for here in (False, True))
    assert len(with_) > 100 and without == with_
