"""What leaves a node: one bounded row, and under local trust its noise; nothing else, whatever training did."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from flwr.app import ConfigRecord, Context, Message, MessageType, RecordDict

from flower.in_process import MODEL, Learn, TinyGrid, app_of, grow, record
from sordino.account.ledger.ledger import Ledger
from sordino.errors import BudgetExceeded
from sordino.flower import private_mod
from sordino.flower.node_limits import NodeLimits
from sordino.flower.wire import UPDATE, FlowerTerms, PrivateReply

WIDTH = 9


@pytest.fixture(autouse=True)
def _somebody() -> None:
    """Flower signs replies with what this process is called, which a grid sets: none plays here."""
    TinyGrid({}, {})


def asked(terms: FlowerTerms | None, kind: str = MessageType.TRAIN, model: Mapping[str, Any] = MODEL) -> Message:
    content = RecordDict({"arrays": record(model), "config": ConfigRecord({"lr": 0.1})})
    if terms is not None:
        content["sordino"] = terms.pack()
    message = Message(content, 11, kind)
    message.metadata.__dict__["_message_id"] = "asked"
    return message


def terms_of(config: dict[str, Any], **changed: Any) -> FlowerTerms:
    told = {"trust": config.get("sordino.trust", "central"), "clip_norm": config["sordino.clip-norm"]}
    return FlowerTerms(**{"round_": 1, "noise_multiplier": 2.0, **told, **changed})


def reply_of(learn: Learn, config: dict[str, Any], node_config: dict | None = None, **changed: Any) -> Message:
    context = Context(7, 11, node_config or {}, RecordDict(), config)
    return app_of(learn, [private_mod])(asked(terms_of(config, **changed)), context)


def update_of(learn: Learn, config: dict[str, Any], **changed: Any) -> PrivateReply:
    reply = reply_of(learn, config, **changed)
    assert not reply.has_error(), reply.error
    return PrivateReply.unpack(reply.content, WIDTH)


def test_the_whole_update_is_clipped_0d_parameters_included(run_config: dict[str, Any]) -> None:
    sent = update_of(grow(100.0), run_config)
    assert torch.linalg.vector_norm(sent.update.double()) <= 1.0
    assert torch.allclose(sent.update, torch.full((WIDTH,), 1 / 3), rtol=1e-4)  # 9 equal entries, the 0-d one too


def test_a_0d_parameter_alone_cannot_exceed_the_bound(run_config: dict[str, Any]) -> None:
    sent = update_of(lambda arrays, node: arrays | {"scale": np.float32(1e6)}, run_config)
    assert sent.update.abs().sum() == pytest.approx(1.0, rel=1e-5)


def test_an_update_within_the_bound_is_sent_as_it_is(run_config: dict[str, Any]) -> None:
    sent = update_of(grow(0.125), run_config)
    assert torch.equal(sent.update, torch.full((WIDTH,), 0.125))


def test_a_zero_update_is_zero(run_config: dict[str, Any]) -> None:
    assert not update_of(grow(0.0), run_config).update.any()


@pytest.mark.parametrize("poison", [math.nan, math.inf, -math.inf, 1e38])
def test_what_is_not_finite_is_sent_as_zero(poison: float, run_config: dict[str, Any]) -> None:
    def learn(arrays: dict[str, np.ndarray], node: int) -> Mapping[str, Any]:
        arrays["weight"][0, 0] = poison
        return grow(0.125)(arrays, node)

    assert not update_of(learn, run_config).update.any()


def test_no_metrics_no_counts_and_no_weights_leave(run_config: dict[str, Any]) -> None:
    content = reply_of(grow(0.125), run_config).content
    assert set(content) == {UPDATE, "sordino"} and not content.metric_records
    assert set(content.array_records[UPDATE]) == {"update"}
    assert set(content["sordino"]) == {"format", "round", "squared-multiplier", "unclipped"}


def test_the_bit_of_adaptive_clipping_is_sent_only_where_it_is_asked_for(run_config: dict[str, Any]) -> None:
    assert not update_of(grow(0.125), run_config).unclipped
    run_config["sordino.clipping"] = "adaptive"
    assert update_of(grow(0.125), run_config, counted=True).unclipped
    assert not update_of(grow(100.0), run_config, counted=True).unclipped
    assert not update_of(grow(math.nan), run_config, counted=True).unclipped


def test_excluded_arrays_are_not_sent(run_config: dict[str, Any]) -> None:
    run_config["sordino.exclude"] = "bias, sc*"
    reply = reply_of(grow(0.125), run_config)
    assert PrivateReply.unpack(reply.content, 6).update.shape == (6,)


def test_the_clientapp_sees_what_it_would_see_without_us(run_config: dict[str, Any]) -> None:
    seen = list[RecordDict]()

    def spy(message: Message, context: Context, call_next: Any) -> Message:
        seen.append(copy.deepcopy(message.content))
        return call_next(message, context)

    context = Context(7, 11, {}, RecordDict(), run_config)
    app_of(grow(0.1), [private_mod, spy])(asked(terms_of(run_config)), context)
    assert set(seen[0]) == {"arrays", "config"}


def test_settings_are_read_at_each_call(run_config: dict[str, Any]) -> None:
    app, context = app_of(grow(100.0), [private_mod]), Context(7, 11, {}, RecordDict(), run_config)
    norms = []
    for clip_norm in (1.0, 0.25):
        run_config["sordino.clip-norm"] = clip_norm
        reply = app(asked(terms_of(run_config)), context)
        norms.append(float(PrivateReply.unpack(reply.content, WIDTH).update.norm()))
    assert norms == pytest.approx([1.0, 0.25], rel=1e-4)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"trust": "local"}, "asks for local trust"),
        ({"clip_norm": 1e6}, "clip norm is 1e\\+06"),
        ({"noise_multiplier": 1.0}, "noise multiplier is 1"),
    ],
)
def test_terms_that_contradict_the_run_configuration_are_refused(
    changed: dict[str, Any], sentence: str, run_config: dict[str, Any]
) -> None:
    run_config["sordino.noise-multiplier"] = 2.0
    reply = reply_of(grow(0.1), run_config, **changed)
    assert reply.has_error()
    with pytest.raises(AssertionError, match=sentence):
        raise AssertionError(reply.error.reason)


def test_without_terms_nothing_is_answered(run_config: dict[str, Any]) -> None:
    context = Context(7, 11, {}, RecordDict(), run_config)
    reply = app_of(grow(0.1), [private_mod])(asked(None), context)
    assert reply.has_error() and "PrivateStrategy" in reply.error.reason


def test_other_messages_are_refused_unless_declared_unprotected(run_config: dict[str, Any]) -> None:
    app, context = app_of(grow(0.1), [private_mod]), Context(7, 11, {}, RecordDict(), run_config)
    assert "without noise" in app(asked(None, MessageType.EVALUATE), context).error.reason
    run_config["sordino.evaluate"] = "unprotected"
    assert app(asked(None, MessageType.EVALUATE), context).content["metrics"]["accuracy"] == 0.5


def failing(arrays: dict[str, np.ndarray], node: int) -> Mapping[str, Any]:
    raise ValueError("patient 7 has no label")


def test_a_crash_reaches_a_trusted_server_as_an_error(run_config: dict[str, Any]) -> None:
    assert "patient 7" in reply_of(failing, run_config).error.reason


def test_under_local_trust_a_crash_tells_nothing(run_config: dict[str, Any]) -> None:
    run_config["sordino.trust"] = "local"
    crashed, quiet = update_of(failing, run_config), update_of(grow(0.0), run_config)
    assert crashed.update.any() and quiet.update.any()
    assert crashed.squared_multiplier == quiet.squared_multiplier == 4.0


def test_a_reply_with_another_model_is_refused(run_config: dict[str, Any]) -> None:
    reply = reply_of(lambda arrays, node: {"weight": np.zeros((2, 2), np.float32)}, run_config)
    assert "weight" in reply.error.reason


def test_local_noise_has_the_stddev_that_is_stated_and_is_fresh_for_each_reply(run_config: dict[str, Any]) -> None:
    run_config |= {"sordino.trust": "local", "sordino.clip-norm": 0.5}
    wide = {"weight": np.zeros(40_000, np.float32)}
    context = Context(7, 11, {}, RecordDict(), run_config)
    app = app_of(grow(0.0), [private_mod])
    rows = [
        PrivateReply.unpack(app(asked(terms_of(run_config), model=wide), context).content, 40_000).update.numpy()
        for _ in range(2)
    ]
    stddev = 2.0 * 0.5
    for row in rows:
        assert 0.98 * stddev < row.std() < 1.02 * stddev
        assert not 0.98 < row.std() / (2 / 3 * stddev) < 1.02 and not 0.98 < row.std() / (1.5 * stddev) < 1.02
    assert abs(np.corrcoef(rows)[0, 1]) < 0.03
    # integers times a power of two: the low bits of a message tell nothing
    steps = rows[0].astype(np.float64) * 2.0**31
    assert np.array_equal(steps, np.rint(steps))


@pytest.mark.parametrize(
    ("limits", "sentence"),
    [
        ({"sordino.largest-clip-norm": 0.5}, "allows at most 0.5"),
        ({"sordino.least-noise-multiplier": 3.0}, "wants at least 3"),
        ({"sordino.trust": "central"}, "takes part under central trust"),
        ({"sordino.clip": 1}, "sordino.clip is unknown"),
        ({"sordino.epsilon": 1.0}, "go together"),
        ({"sordino.largest-clip-norm": "nan"}, "largest-clip-norm is nan: give a number"),
        ({"sordino.least-noise-multiplier": -1.0}, "least-noise-multiplier is -1: give a number"),
    ],
)
def test_a_node_has_limits_of_its_own(limits: dict[str, Any], sentence: str, run_config: dict[str, Any]) -> None:
    run_config["sordino.trust"] = "local"
    assert sentence in reply_of(grow(0.1), run_config, limits).error.reason


def test_a_node_counts_its_own_answers_durably_and_stops_before_its_budget(
    run_config: dict[str, Any], tmp_path: Path
) -> None:
    run_config["sordino.trust"] = "local"
    own = {"sordino.epsilon": 3.0, "sordino.delta": 1e-5, "sordino.ledger": str(tmp_path / "node.db")}
    answers = [reply_of(grow(0.1), run_config, own) for _ in range(4)]  # the same round, asked for again and again
    # one Gaussian of multiplier 2 costs 1.9931, two 2.93 and three more than 3
    assert [answer.has_error() for answer in answers] == [False, False, True, True]
    assert "does not allow another answer" in answers[2].error.reason
    with Ledger.open(tmp_path / "node.db", write=False) as ledger:
        assert len(ledger.entries) == 2


def test_a_node_with_a_budget_takes_no_part_under_central_trust(run_config: dict[str, Any], tmp_path: Path) -> None:
    own = {"sordino.epsilon": 3.0, "sordino.delta": 1e-5, "sordino.ledger": str(tmp_path / "node.db")}
    assert "only local trust" in reply_of(grow(0.1), run_config, own).error.reason


@pytest.mark.parametrize(
    "own", [{"sordino.trust": "local"}, {"sordino.least-noise-multiplier": 1.0}, {"sordino.epsilon": 1.0}]
)
def test_an_operator_cannot_have_scores_without_noise_of_a_node_with_limits(
    own: dict[str, Any], run_config: dict[str, Any], tmp_path: Path
) -> None:
    """The run configuration is the operator's: it alone once let every answer but training leave as it was."""
    if "sordino.epsilon" in own:
        own = own | {"sordino.delta": 1e-5, "sordino.ledger": str(tmp_path / "own.db")}
    config = run_config | {"sordino.evaluate": "unprotected"}
    app = app_of(grow(0.1), [private_mod])
    refused = app(asked(None, MessageType.EVALUATE), Context(7, 11, own, RecordDict(), config))
    assert refused.has_error() and "without noise" in str(refused.error.reason)
    assert not app(asked(None, MessageType.EVALUATE), Context(7, 11, {}, RecordDict(), config)).has_error()


def test_two_answers_at_once_do_not_both_spend_the_rest(
    run_config: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_config["sordino.trust"] = "local"
    own = {"sordino.epsilon": 2.5, "sordino.delta": 1e-5, "sordino.ledger": str(tmp_path / "node.db")}
    affordable, twice = Ledger.affordable, list[Message]()

    def overtaken(ledger: Ledger, *args: Any, **more: Any) -> Any:
        told = affordable(ledger, *args, **more)
        monkeypatch.setattr(Ledger, "affordable", affordable)
        twice.append(reply_of(grow(0.1), run_config, own))
        return told

    monkeypatch.setattr(Ledger, "affordable", overtaken)
    assert reply_of(grow(0.1), run_config, own).has_error() and not twice[0].has_error()


def test_a_node_breaks_no_promise_by_another_adjacency(tmp_path: Path) -> None:
    own = {"sordino.epsilon": 50.0, "sordino.delta": 1e-5, "sordino.ledger": str(tmp_path / "node.db")}
    limits, terms = NodeLimits.read(own), FlowerTerms(1, "local", 1.0, 4.0)
    limits.charge(terms, "first", "replace")
    with pytest.raises(BudgetExceeded, match=r"'replace'.*would break"):
        limits.charge(terms, "second", "zero_out")
    limits.charge(terms, "third", "replace")
    with Ledger.open(tmp_path / "node.db", write=False) as ledger:
        assert [entry.run for entry in ledger.entries] == ["first", "third"]
