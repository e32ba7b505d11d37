"""A ServerApp that is killed and started again goes on with its run: the same model, and nothing asked twice."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.serverapp.strategy import FedAdam, FedAvg, FedAvgM, Result, Strategy

from flower.in_process import MODEL, TinyGrid, federation, grow, record, server_context
from sordino.account.ledger.ledger import Ledger
from sordino.errors import LedgerTampered, RecipeError
from sordino.flower import PrivateStrategy
from sordino.random.streams import Streams

ROUNDS = 4


class Killed(Exception):
    """Stands for the end of the process."""


class Dying(TinyGrid):
    """Dies before it asks anybody (`before`), or after everybody was asked, in a round."""

    def __init__(self, grid: TinyGrid, turn: int, before: bool) -> None:
        super().__init__(grid.apps, grid.run_config)
        self._turn, self._before, self._looks = turn, before, 0

    def get_node_ids(self) -> Iterable[int]:
        self._looks += 1
        if self._before and self._looks == self._turn:
            raise Killed
        return super().get_node_ids()

    def send_and_receive(self, messages: Any, *, timeout: float | None = None) -> Any:
        asked = list(messages)
        if not self._before and asked and self._looks == self._turn:
            raise Killed
        return super().send_and_receive(asked)


@pytest.fixture
def config(run_config: dict[str, Any], tmp_path: Path) -> dict[str, Any]:
    return run_config | {"sordino.checkpoint": str(tmp_path / "run.ckpt"), "sordino.clipping": "adaptive"}


def play(config: dict[str, Any], grid: TinyGrid, strategy: Strategy, rounds: int = ROUNDS, **more: Any) -> Result:
    wrapper = PrivateStrategy(strategy, server_context(config), randomness=Streams(0))
    return wrapper.start(grid, record(MODEL), num_rounds=rounds, **more)


def entries(config: dict[str, Any]) -> int:
    with Ledger.open(config["sordino.ledger"], write=False) as ledger:
        return len(ledger.entries)


@pytest.mark.parametrize("make", (FedAvg, FedAdam, lambda: FedAvgM(server_momentum=0.9)))
def test_a_run_that_is_killed_between_rounds_ends_with_the_same_model(
    make: Any, config: dict[str, Any], tmp_path: Path
) -> None:
    whole = config | {"sordino.checkpoint": str(tmp_path / "other.ckpt"), "sordino.ledger": str(tmp_path / "other.db")}
    expected = play(whole, federation(whole, grow(0.125)), make())
    grid = federation(config, grow(0.125))
    with pytest.raises(Killed):
        play(config, Dying(grid, 3, before=True), make())
    seen = list[int]()
    result = play(config, grid, make(), evaluate_fn=lambda round_, arrays: seen.append(round_))
    for name in MODEL:
        assert np.array_equal(result.arrays[name].numpy(), expected.arrays[name].numpy())
    assert {int(message.content["sordino"]["round"]) for message in grid.sent} == {3, 4}
    assert seen == [2, 3, 4] and entries(config) == ROUNDS


@pytest.mark.parametrize("turn", (1, 3))
def test_a_round_that_was_announced_is_paid_for_and_never_asked_again(turn: int, config: dict[str, Any]) -> None:
    grid = federation(config, grow(0.125))
    with pytest.raises(Killed):
        play(config, Dying(grid, turn, before=False), FedAvg())
    assert entries(config) == turn
    result = play(config, grid, FedAvg())
    asked = {int(message.content["sordino"]["round"]) for message in grid.sent}
    assert asked == set(range(turn + 1, ROUNDS + 1)) and entries(config) == ROUNDS
    assert result.arrays["weight"].numpy().any()
    # a run that is over asks nobody, and still has its model
    again = play(config, grid, FedAvg())
    assert np.array_equal(again.arrays["weight"].numpy(), result.arrays["weight"].numpy())
    assert entries(config) == ROUNDS


def test_a_run_goes_on_under_its_own_settings_and_ledger_only(config: dict[str, Any], tmp_path: Path) -> None:
    grid = federation(config, grow(0.125))
    with pytest.raises(Killed):
        play(config, Dying(grid, 1, before=False), FedAvg())
    old = Path(config["sordino.ledger"]).read_bytes()
    with pytest.raises(RecipeError, match="other settings"):
        play(config | {"sordino.clip-norm": 2.0}, grid, FedAvg())
    with pytest.raises(RecipeError, match="num_rounds"):
        play(config, grid, FedAvg(), rounds=9)
    with pytest.raises(Killed):
        play(config, Dying(grid, 2, before=False), FedAvg())
    for beside in tmp_path.glob("ledger.db-*"):
        beside.unlink()
    Path(config["sordino.ledger"]).write_bytes(old)
    with pytest.raises(LedgerTampered):
        play(config, grid, FedAvg())
    Path(config["sordino.checkpoint"]).write_bytes(b"something else")
    with pytest.raises(RecipeError, match="is not a run's"):
        play(config, grid, FedAvg())
