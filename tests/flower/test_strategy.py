"""The wrapped strategy: public denominators, rounds that missing replies do not discard, and nothing believed."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.serverapp.strategy import FedAdam, FedAvg, FedAvgM, FedProx, Result

from flower.in_process import MODEL, TinyGrid, app_of, federation, grow, record, server_context
from sordino.account.ledger.ledger import Ledger
from sordino.errors import CompositionError, ProtocolError, RecipeError, SordinoWarning
from sordino.flower import PrivateStrategy, private_mod
from sordino.flower.wire import PrivateReply
from sordino.random.streams import Streams

QUIET = {"sordino.noise-multiplier": 1e-6}
"""So little noise that a release shows its arithmetic; without a budget, since no budget allows it."""


@pytest.fixture
def quiet(run_config: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in run_config.items() if name != "sordino.epsilon"} | QUIET


def play(
    config: dict[str, Any], grid: TinyGrid, rounds: int = 1, strategy: Any = None, model: Mapping[str, Any] = MODEL
) -> tuple[PrivateStrategy, Result]:
    wrapper = PrivateStrategy(strategy or FedAvg(), server_context(config), randomness=Streams(0))
    return wrapper, wrapper.start(grid, record(model), num_rounds=rounds)


def moved(arrays: ArrayRecord, model: Mapping[str, Any] = MODEL) -> dict[str, np.ndarray]:
    return {name: arrays[name].numpy() - np.asarray(value) for name, value in model.items()}


def test_the_mean_of_clipped_updates_is_what_moves_the_model(quiet: dict[str, Any]) -> None:
    _, result = play(quiet, federation(quiet, grow(0.125)))
    change = moved(result.arrays)
    assert np.allclose(change["weight"], 0.125, atol=1e-5) and np.allclose(change["scale"], 0.125, atol=1e-5)


def test_integer_buffers_stay_and_types_and_order_are_kept(quiet: dict[str, Any]) -> None:
    _, result = play(quiet, federation(quiet, grow(0.125)), rounds=2)
    assert list(result.arrays) == list(MODEL)
    assert {name: array.dtype for name, array in result.arrays.items()} == {
        "weight": "float32",
        "scale": "float32",
        "batches": "int64",
        "bias": "float64",
    }
    assert int(result.arrays["batches"].numpy()) == 5 and result.arrays["scale"].numpy().shape == ()


def test_num_examples_is_not_believed(quiet: dict[str, Any]) -> None:
    apps = {11: app_of(grow(0.3), [private_mod], examples=1e9)}
    apps |= {node: app_of(grow(0.0), [private_mod], examples=1.0) for node in (12, 13, 14)}
    _, result = play(quiet, TinyGrid(apps, quiet))
    assert np.allclose(moved(result.arrays)["weight"], 0.3 / 4, atol=1e-5)


@pytest.mark.parametrize("how", ["lost", "broken"])
def test_missing_replies_neither_discard_the_round_nor_change_the_denominator(how: str, quiet: dict[str, Any]) -> None:
    grid = federation(quiet, grow(0.25))
    setattr(grid, how, {13})
    _, result = play(quiet, grid)
    assert np.allclose(moved(result.arrays)["weight"], 3 * 0.25 / 4, atol=1e-5)
    with Ledger.open(quiet["sordino.ledger"], write=False) as ledger:
        (entry,) = ledger.entries
        assert entry.settled and len(entry.participants) == 4  # a message that did not come may have left its node


def test_no_replies_at_all_release_noise_alone(quiet: dict[str, Any]) -> None:
    grid = federation(quiet | {"sordino.noise-multiplier": 1.0}, grow(0.25))
    grid.lost = {11, 12, 13, 14}
    wrapper, result = play(quiet | {"sordino.noise-multiplier": 1.0}, grid)
    assert moved(result.arrays)["weight"].any() and wrapper.certificate is not None
    assert wrapper.certificate.releases == 1


def tampered(change: Any, config: dict[str, Any]) -> Any:
    """Returns a mod that lies about what private_mod made, as a stranger's client may."""

    def mod(message: Message, context: Context, call_next: Any) -> Message:
        made = PrivateReply.unpack(private_mod(message, context, call_next).content, 9)
        return Message(change(made).pack(), reply_to=message)

    return mod


@pytest.mark.parametrize("lie", [1e6, math.nan, math.inf])
def test_a_lying_client_moves_the_model_by_its_bound_at_most(lie: float, quiet: dict[str, Any]) -> None:
    def change(made: PrivateReply) -> PrivateReply:
        return PrivateReply(made.round_, torch.full((9,), lie), made.squared_multiplier, made.unclipped)

    grid = federation(quiet, grow(0.0))
    grid.apps[11] = app_of(grow(0.0), [tampered(change, quiet)])
    _, result = play(quiet, grid)
    change_ = np.concatenate([np.ravel(part) for part in moved(result.arrays).values()])
    assert np.isfinite(change_).all() and np.linalg.norm(change_) <= 0.25 + 1e-4


def test_replies_of_other_rounds_are_left_out(quiet: dict[str, Any]) -> None:
    def change(made: PrivateReply) -> PrivateReply:
        return PrivateReply(made.round_ + 1, made.update, made.squared_multiplier, made.unclipped)

    grid = federation(quiet, grow(0.25))
    grid.apps[11] = app_of(grow(0.25), [tampered(change, quiet)])
    _, result = play(quiet, grid)
    assert np.allclose(moved(result.arrays)["weight"], 3 * 0.25 / 4, atol=1e-5)


def test_a_repeated_reply_counts_once(quiet: dict[str, Any]) -> None:
    class Twice(TinyGrid):
        def send_and_receive(self, messages: Any, *, timeout: float | None = None) -> Any:
            return [reply for reply in super().send_and_receive(messages) for _ in range(2)]

    grid = Twice(federation(quiet, grow(0.25)).apps, quiet)
    _, result = play(quiet, grid)
    assert np.allclose(moved(result.arrays)["weight"], 0.25, atol=1e-5)


def test_clients_without_the_mod_are_refused(quiet: dict[str, Any]) -> None:
    with pytest.raises(ProtocolError, match="private_mod"):
        play(quiet, TinyGrid({node: app_of(grow(0.1)) for node in (11, 12)}, quiet))


def test_a_run_that_every_node_refuses_ends_with_their_sentence(run_config: dict[str, Any]) -> None:
    grid = federation(run_config, grow(0.1))
    grid.node_configs = {node: {"sordino.largest-clip-norm": 0.5} for node in grid.apps}
    with pytest.raises(ProtocolError, match=r"clip norm is 1 and this node allows at most 0\.5"):
        play(run_config, grid, rounds=3)
    assert len(grid.sent) == 4


def test_training_that_fails_everywhere_does_not_end_a_run(run_config: dict[str, Any]) -> None:
    def failing(arrays: dict[str, np.ndarray], node: int) -> Mapping[str, Any]:
        raise ValueError("no records")

    grid = federation(run_config, failing)
    wrapper, _ = play(run_config, grid, rounds=2)
    assert wrapper.certificate is not None and wrapper.certificate.releases == 2


@pytest.mark.parametrize("make", [FedAvg, FedAvgM, FedAdam, FedProx], ids=lambda make: make.__name__)
def test_the_wrapped_strategy_sees_releases_alone(make: Any, quiet: dict[str, Any]) -> None:
    options = {"server_momentum": 0.9} if make is FedAvgM else {"proximal_mu": 0.1} if make is FedProx else {}
    heard = list[Message]()

    class Listening(make):  # type: ignore[misc, valid-type]
        def aggregate_train(self, server_round: int, replies: Any) -> Any:
            heard.extend(replies)
            return super().aggregate_train(server_round, replies)

    grid = federation(quiet, grow(0.125))
    _, result = play(quiet, grid, rounds=2, strategy=Listening(**options, min_available_nodes=4))
    assert len(heard) == 2  # one a round, the release
    assert all(set(reply.content["arrays"]) == {"weight", "scale", "bias"} for reply in heard)
    assert moved(result.arrays)["weight"].any() and int(result.arrays["batches"].numpy()) == 5
    if make is FedProx:
        assert grid.sent[0].content["config"]["proximal-mu"] == 0.1


def test_a_strategy_that_trains_nobody_is_refused_before_anything_is_paid(quiet: dict[str, Any]) -> None:
    with pytest.raises(CompositionError, match="fraction_train"):
        play(quiet, federation(quiet, grow(0.1)), strategy=FedAvg(fraction_train=0.0))


def test_central_noise_has_the_stddev_that_the_price_needs(run_config: dict[str, Any]) -> None:
    wide = {"weight": np.zeros(40_000, np.float32)}
    config = run_config | {"sordino.noise-multiplier": 3.0, "sordino.clip-norm": 0.5, "sordino.epsilon": 50.0}
    grid = federation(config, grow(0.0))
    grid.lost = {12}
    _, result = play(config, grid, model=wide)
    stddev = 3.0 * 0.5 / 4
    found = float(result.arrays["weight"].numpy().std())
    assert 0.98 * stddev < found < 1.02 * stddev
    assert not 0.98 < found / (2 / 3 * stddev) < 1.02 and not 0.98 < found / (1.5 * stddev) < 1.02


def test_seeded_runs_repeat_and_say_so_and_others_do_not(run_config: dict[str, Any], tmp_path: Any) -> None:
    def run(name: str, seeded: bool) -> tuple[np.ndarray, bool]:
        config = run_config | {"sordino.ledger": str(tmp_path / name)}
        randomness = Streams(0) if seeded else None
        wrapper = PrivateStrategy(FedAvg(), server_context(config), randomness=randomness)
        result = wrapper.start(federation(config, grow(0.1)), record(MODEL), num_rounds=1)
        assert wrapper.certificate is not None
        return result.arrays["weight"].numpy(), wrapper.certificate.simulation

    (one, stamped), (two, _), (three, real) = run("a", True), run("b", True), run("c", False)
    assert np.array_equal(one, two) and not np.array_equal(one, three)
    assert stamped and not real


def test_clients_do_not_evaluate_by_default(run_config: dict[str, Any]) -> None:
    wrapper, result = play(run_config, federation(run_config, grow(0.1)))
    assert not result.evaluate_metrics_clientapp and wrapper.certificate is not None
    assert wrapper.certificate.entry("client", "outsider").status == "certified"


def test_evaluation_without_noise_is_in_the_certificate(run_config: dict[str, Any]) -> None:
    run_config["sordino.evaluate"] = "unprotected"
    wrapper, result = play(run_config, federation(run_config, grow(0.1)))
    assert result.evaluate_metrics_clientapp[1]["accuracy"] == 0.5 and wrapper.certificate is not None
    entry = wrapper.certificate.entry("client", "outsider")
    assert entry.epsilon is None and "scores without noise" in entry.reason


def test_settings_that_change_in_mid_run_are_refused(run_config: dict[str, Any]) -> None:
    grid = federation(run_config, grow(0.1))
    wrapper = PrivateStrategy(FedAvg(), server_context(run_config), randomness=Streams(0))
    with pytest.raises(RecipeError, match=r"sordino\.rounds"):
        wrapper.configure_train(1, record(MODEL), ConfigRecord(), grid)
    run_config["sordino.rounds"] = 5
    wrapper.configure_train(1, record(MODEL), ConfigRecord(), grid)
    run_config["sordino.clip-norm"] = 100.0
    with pytest.raises(RecipeError, match="middle of a run"):
        wrapper.configure_train(2, record(MODEL), ConfigRecord(), grid)
    wrapper.close()


def test_more_nodes_than_were_declared_are_refused(run_config: dict[str, Any]) -> None:
    with pytest.raises(RecipeError, match=r"sordino\.population is 4"):
        play(run_config, federation(run_config, grow(0.1), nodes=range(5)))


def test_batch_norms_variance_is_warned_about(quiet: dict[str, Any]) -> None:
    model = {"norm.running_var": np.ones(3, np.float32), "weight": np.zeros(3, np.float32)}
    with pytest.warns(SordinoWarning, match="may turn negative"):
        play(quiet, federation(quiet, grow(0.1)), model=model)
    quiet["sordino.exclude"] = "*running_*"
    _, result = play(quiet, federation(quiet, grow(0.1)), model=model)
    assert np.array_equal(result.arrays["norm.running_var"].numpy(), np.ones(3))


def test_nodes_may_come_later(quiet: dict[str, Any]) -> None:
    grid = federation(quiet, grow(0.1), nodes=(11, 12))

    class Growing(TinyGrid):
        def get_node_ids(self) -> Any:
            if len(self.sent) >= 2:
                self.apps[10] = self.apps[11]
            return super().get_node_ids()

    play(quiet, Growing(grid.apps, quiet), rounds=3)
    with Ledger.open(quiet["sordino.ledger"], write=False) as ledger:
        assert ledger.population == 3
        assert sorted(ledger.participations.tolist()) == [2, 3, 3]
        assert ledger.participations[2] == 2  # who came first keeps its place


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"sordino.epsilon": -1.0}, r"sordino\.epsilon"),
        ({"sordino.clipnorm": 1.0}, r"sordino\.clipnorm"),
        ({"sordino.select": "fixed"}, r"sordino\.cohort goes with"),
        ({"sordino.select": "fixed", "sordino.cohort": 9}, r"larger than sordino\.population"),
        ({"sordino.select": "poisson"}, r"sordino\.rate goes with"),
        ({"sordino.trust": "local", "sordino.clipping": "adaptive"}, "needs sordino.trust = 'central'"),
        ({"sordino.adjacency": "replace"}, "local"),
        ({"sordino.trust": "distributed"}, r"sordino\.trust"),
    ],
)
def test_impossible_settings_are_one_sentence(
    changed: dict[str, Any], sentence: str, run_config: dict[str, Any]
) -> None:
    config = run_config | changed
    with pytest.raises(RecipeError, match=sentence):
        play(config, federation(config, grow(0.1)))


def test_missing_settings_are_named(run_config: dict[str, Any]) -> None:
    for name in ("sordino.delta", "sordino.population", "sordino.epsilon"):
        config = {key: value for key, value in run_config.items() if key != name}
        with pytest.raises(RecipeError, match=name):
            play(config, federation(config, grow(0.1)))


def test_a_train_message_carries_the_whole_model(quiet: dict[str, Any]) -> None:
    grid = federation(quiet, grow(0.1))
    play(quiet, grid)
    content: RecordDict = grid.sent[0].content
    assert list(content["arrays"]) == list(MODEL) and content["config"]["server-round"] == 1


def test_heads_do_not_tell_whether_a_node_came_late(run_config: dict[str, Any]) -> None:
    """Each newcomer opened the ledger anew, and had a row and a head of its own: an outsider could count them."""
    told = []
    for late in (False, True):
        config = run_config | {"sordino.ledger": f"{run_config['sordino.ledger']}-{late}"}
        grid, first = federation(config, grow(0.1)), [[11, 12, 13]] if late else []
        grid.get_node_ids = lambda first=first: first.pop() if first else [11, 12, 13, 14]
        play(config, grid, rounds=2)
        lines = Path(f"{config['sordino.ledger']}.heads.jsonl").read_text().splitlines()
        told.append([json.loads(line)["seq"] for line in lines])
    assert told[0] == told[1]
