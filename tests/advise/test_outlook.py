"""Noise that is foretold is the noise that runs have, over units, trusts and kinds of cohorts."""

from __future__ import annotations

import json

import pytest

from played import cast, play
from sordino.advise.outlook import outlook
from sordino.runs.context import RunContext


def foretold(context: RunContext) -> float:
    told = context.federation.declared
    found = outlook(context.mechanism, told.people, told.total, context.layout.width)
    assert found is not None
    return found.stddev


def first_round(folder) -> float:
    return json.loads((folder / "private" / "metrics.jsonl").read_text().splitlines()[0])["noise_stddev"]


CASES = {
    "client, central": ["mechanism.name=dp_fedavg"],
    "client, central, half": ["mechanism.name=dp_fedavg", "select.kind=fixed", "select.size=12"],
    "client, distributed": ["mechanism.name=dropout_robust"],
    "client, distributed, floats": ["mechanism.name=dropout_robust", "aggregate.kind=plain"],
    "client, local": ["mechanism.name=fed_ldp"],
    "client, local, half": ["mechanism.name=fed_ldp", "select.kind=fixed", "select.size=12"],
    "record, central": ["mechanism.name=dp_sgd", "mechanism.trust=central"],
    "record, central, batches": ["mechanism.name=dp_sgd", "mechanism.trust=central", "mechanism.sampling_rate=0.3"],
    "record, distributed": ["mechanism.name=dp_sgd"],
    "record, local": ["mechanism.name=local_dp_sgd"],
}


@pytest.mark.filterwarnings("ignore::sordino.errors.SordinoWarning")
@pytest.mark.parametrize("settings", CASES.values(), ids=CASES)
def test_the_noise_that_is_foretold_is_the_noise_of_a_run(settings, tmp_path) -> None:
    settings = [*settings, "run.rounds=1"]
    play(tmp_path / "run", *settings)
    assert foretold(cast(*settings)) == pytest.approx(first_round(tmp_path / "run"), rel=0.01)


def test_noise_that_is_not_plain_is_not_foretold() -> None:
    context = cast("mechanism.name=laplace", "model.name=linear")
    assert outlook(context.mechanism, 24, 1437, context.layout.width) is None
