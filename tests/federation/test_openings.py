"""Charged sums before the first round, across machines: covered by policy and ledgers, played once, never forgotten."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from federation.test_interruptions import failing
from federation.test_refusals import ASKED, Operator, only, operator, spent
from federation.village import Village, played_and_made, simulated, village
from sordino.account.ledger.ledger import Ledger
from sordino.federation.plan import PREPARATION, preparing
from sordino.federation.status import FederationStatus
from sordino.opening.feature_map import MEAN, TURN
from sordino.runs.folder import RunFolder
from sordino.terms import Knobs, Terms

OPENING = ("opening.feature_mean=0.3", "opening.channel_moment=0.4")
SMALL = ("partition.clients=6", "run.rounds=1", "budget.epsilon=50", "aggregate.tolerance=0.2", *OPENING)
SUMS = ("FeatureMean", "ChannelMoment")


def made(path: Path, mechanism: str = "dropout_robust", *settings: str) -> Village:
    return village(path, *simulated(*SMALL, f"mechanism.name={mechanism}", *settings))


def paid(of: Village) -> list[int]:
    counts = []
    for node in of.nodes:
        with node.ledger(write=False) as ledger:
            counts.append(len(ledger.entries))
    return counts


def events(of: Village) -> str:
    told = FederationStatus.read(of.folder.status_file)
    assert told is not None
    return "\n".join(told.events)


@pytest.mark.parametrize("mechanism", ("dp_fedavg", "dp_sgd mechanism.trust=central", "fed_ldp"))
def test_openings_give_over_flower_what_they_give_in_a_simulation(mechanism: str, tmp_path: Path) -> None:
    outcome, here = played_and_made(tmp_path, mechanism, *SMALL)
    last = here.deployment().play()
    scale = max(1.0, float(outcome.weights.abs().max()))
    assert float((last.here.weights - outcome.weights).abs().max()) <= 1e-5 * scale
    assert outcome.lens is not None and outcome.lens.mean is not None and outcome.lens.turn is not None
    assert torch.allclose(last.here.knobs[MEAN], outcome.lens.mean, atol=1e-5)
    assert torch.allclose(last.here.knobs[TURN], outcome.lens.turn, atol=1e-4)
    assert paid(here) == [3] * 6


def test_a_model_that_was_trained_on_mapped_records_comes_with_its_map(tmp_path: Path) -> None:
    """Both ledgers have the sums as releases of their own, and the operator's test records are mapped, too."""
    here = made(tmp_path)
    x, y = (np.concatenate([np.load(node.path / "data" / "records.npz")[name] for node in here.nodes]) for name in "xy")
    last = here.deployment(test=(torch.from_numpy(x), torch.from_numpy(y))).play()
    folder = RunFolder(here.folder.run_dir)
    model = load_file(next(folder.path.rglob("model.safetensors")))
    assert torch.equal(model["opening/mean"], last.here.knobs[MEAN])
    assert torch.equal(model["opening/turn"], last.here.knobs[TURN])
    with Ledger.open(folder.ledger, write=False) as ledger:
        assert [entry.round_ for entry in ledger.entries] == [0, 0, 1]
    with here.nodes[0].ledger(write=False) as ledger:
        assert [entry.round_ for entry in ledger.entries] == [0, 0, 1]
        assert len({entry.run for entry in ledger.entries}) == 1


@pytest.mark.parametrize("at", (2, 5, 8))
def test_a_server_that_is_killed_in_an_opening_never_asks_for_it_again(at: int, tmp_path: Path) -> None:
    """Pushes: 1 greets, 2 to 6 are the stages of the first sum, 7 to 11 those of the second."""
    here = made(tmp_path)
    with pytest.raises(OSError, match="unplugged"):
        here.deployment(failing(here.grid(), at, OSError("unplugged"))).play()
    last = here.deployment().play()
    assert last.here.round_ == 1
    lost, kept = (MEAN, TURN) if at < 7 else (TURN, MEAN)
    assert lost not in last.here.knobs and kept in last.here.knobs
    assert f"the server stopped in the middle of {SUMS[at > 6]}" in events(here)
    with Ledger.open(RunFolder(here.folder.run_dir).ledger, write=False) as ledger:
        assert [entry.round_ for entry in ledger.entries] == [0, 0, 1]  # what was reserved stays spent


def test_a_server_that_is_killed_after_an_opening_remembers_what_it_came_to(tmp_path: Path) -> None:
    here = made(tmp_path)
    with pytest.raises(OSError, match="unplugged"):
        here.deployment(failing(here.grid(), 12, OSError("unplugged"))).play()
    last = here.deployment().play()
    assert MEAN in last.here.knobs and TURN in last.here.knobs
    assert paid(here) == [2] * 6  # the round that was announced is given up before anybody sent


def test_too_few_nodes_at_an_opening_are_waited_for_and_nobody_pays_for_that(tmp_path: Path) -> None:
    here, deaf = made(tmp_path), list[int]()

    def fates(node: int, kind: str) -> str:
        if kind == "query.advertise" and node > 2 and len(deaf) < 3:
            deaf.append(node)
            return "deaf"
        return "answer"

    here.fates = fates  # type: ignore[assignment]
    last = here.deployment().play()
    assert "attempt 1 of 3 at FeatureMean was given up" in events(here)
    assert MEAN in last.here.knobs and TURN in last.here.knobs
    assert paid(here) == [3] * 6


def opening(path: Path, mechanism: str = "fed_ldp") -> Operator:
    """Returns an operator who asks for the mean of the features."""
    asked = operator(path, " ".join([mechanism, *OPENING]))
    context = preparing(asked.village.deployment().context, SUMS[0])
    terms = Terms(0, context.weights, context.mechanism.adapter.start(), np.arange(6))
    return replace(asked, terms=terms)


def turned(asked: Operator, shape: tuple[int, ...]) -> Operator:
    knobs = Knobs(asked.terms.knobs.clip_norm, asked.terms.knobs.noise_multiplier, {TURN: torch.ones(shape)})
    return replace(asked, terms=replace(asked.terms, knobs=knobs))


CASES: dict[str, tuple[Callable[[Operator], Operator], str, str]] = {
    "less noise than planned": (lambda o: o.knobs(noise_multiplier=0.05), SUMS[0], "the plan fixes"),
    "a longer bound": (lambda o: o.knobs(clip_norm=10.0), SUMS[0], "largest_clip_norm"),
    "another sum": (lambda o: o, "Everything", "no sum 'Everything'"),
    "a round as a sum": (lambda o: replace(o, terms=replace(o.terms, round_=1)), SUMS[0], "the terms of round"),
    "a map that does not fit": (lambda o: turned(o, (3, 3)), SUMS[0], "channel_turn has the shape"),
}


@pytest.mark.parametrize("case", CASES)
def test_an_opening_that_is_not_the_plans_is_refused(case: str, tmp_path: Path) -> None:
    change, name, sentence = CASES[case]
    asked = opening(tmp_path)
    assert sentence in change(asked).ask("contribute", **{PREPARATION: name.encode()}).refused
    assert spent(asked) == 0


def test_an_opening_is_answered_once_and_only_where_its_mechanism_is_allowed(tmp_path: Path) -> None:
    asked, named = opening(tmp_path / "allowed"), {PREPARATION: SUMS[0].encode()}
    assert not asked.ask("contribute", **named).refused
    assert "answered already" in asked.ask("contribute", **named).refused
    assert spent(asked) == 1
    secure = opening(tmp_path / "secure", "dropout_robust")
    assert "outside of a secure sum" in secure.ask("contribute", **named).refused
    node = asked.village.nodes[ASKED]
    node.policy_file.write_text(only("dp_fedavg")(node.policy.who).to_toml())
    assert "mechanism.allowed" in asked.ask("contribute", attempt=1, **named).refused
