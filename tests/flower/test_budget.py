"""What a private run costs: the prices of our own accountants, and a halt before the budget."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import ArrayRecord, MetricRecord
from flwr.serverapp.strategy import FedAvg, Result

from flower.in_process import MODEL, TinyGrid, app_of, exact_mod, federation, grow, record, server_context
from sordino.account.accountants.accountant import epsilon
from sordino.account.certificate.check import check
from sordino.account.certificate.document import CertificateDocument
from sordino.account.ledger.ledger import Ledger
from sordino.errors import BudgetExceeded
from sordino.events import GaussianDpEvent, PoissonSampledDpEvent, SampledWithoutReplacementDpEvent
from sordino.flower import PrivateStrategy
from sordino.random.streams import Streams


def play(config: dict[str, Any], grid: TinyGrid, rounds: int) -> tuple[PrivateStrategy, Result]:
    wrapper = PrivateStrategy(FedAvg(min_available_nodes=1), server_context(config), randomness=Streams(0))
    return wrapper, wrapper.start(grid, record(MODEL), num_rounds=rounds)


def promised(wrapper: PrivateStrategy, observer: str = "outsider") -> float:
    assert wrapper.certificate is not None
    found = wrapper.certificate.entry("client", observer).epsilon
    assert found is not None
    return found


def test_noise_is_calibrated_to_the_budget_and_the_rounds(run_config: dict[str, Any]) -> None:
    wrapper, _ = play(run_config, federation(run_config, grow(0.1)), rounds=5)
    assert promised(wrapper) == pytest.approx(4.0, abs=1e-4) and promised(wrapper) <= 4.0
    assert wrapper.stopped is None and wrapper.privacy_spent().num_releases == 5  # type: ignore[union-attr]
    assert wrapper.document is not None and wrapper.document.stopped == "rounds"


def test_it_halts_before_the_budget_and_keeps_the_model(run_config: dict[str, Any]) -> None:
    config = run_config | {"sordino.noise-multiplier": 2.0}
    grid = federation(config, grow(0.1))
    wrapper, result = play(config, grid, rounds=20)
    rounds = len(grid.sent) // 4
    assert epsilon({GaussianDpEvent(2.0): rounds}, 1e-5) <= 4.0 < epsilon({GaussianDpEvent(2.0): rounds + 1}, 1e-5)
    assert "sordino.epsilon = 4" in str(wrapper.stopped) and promised(wrapper) <= 4.0
    assert result.arrays["weight"].numpy().any()


def test_a_second_run_goes_on_from_what_was_spent(run_config: dict[str, Any]) -> None:
    config = run_config | {"sordino.noise-multiplier": 2.0}
    play(config, federation(config, grow(0.1)), rounds=2)
    grid = federation(config, grow(0.1))
    wrapper, _ = play(config, grid, rounds=20)
    both = 2 + len(grid.sent) // 4
    assert epsilon({GaussianDpEvent(2.0): both}, 1e-5) <= 4.0 < epsilon({GaussianDpEvent(2.0): both + 1}, 1e-5)
    assert wrapper.certificate is not None and wrapper.certificate.releases == both
    with pytest.raises(BudgetExceeded, match="lets 0 clients pay"):
        play(config, federation(config, grow(0.1)), rounds=1)


def test_the_cost_is_durable_before_anybody_is_asked(run_config: dict[str, Any]) -> None:
    class Dying(TinyGrid):
        def send_and_receive(self, messages: Any, *, timeout: float | None = None) -> Any:
            list(messages)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        play(run_config, Dying(federation(run_config, grow(0.1)).apps, run_config), rounds=1)
    with Ledger.open(run_config["sordino.ledger"], write=False) as ledger:
        (entry,) = ledger.entries
        assert not entry.settled and len(entry.participants) == 4


def test_a_run_that_its_user_ends_says_so_and_what_its_price_rests_on(run_config: dict[str, Any]) -> None:
    """Whoever stops once the released model is good enough pays for the path: "after the planned rounds", it said."""

    def enough(round_: int, model: ArrayRecord) -> MetricRecord | None:
        if round_ == 2:
            raise RuntimeError("good enough")
        return None

    wrapper = PrivateStrategy(FedAvg(min_available_nodes=1), server_context(run_config), randomness=Streams(0))
    grid = federation(run_config, grow(0.1))
    with pytest.raises(RuntimeError, match="good enough"):
        wrapper.start(grid, record(MODEL), num_rounds=5, evaluate_fn=enough)
    assert wrapper.document is not None and wrapper.document.releases == 2
    assert wrapper.document.stopped == "interrupted"
    assert any("did not follow from what it had released" in one for one in wrapper.document.statement.assumptions)


def test_poisson_selection_costs_what_the_accountant_proves(run_config: dict[str, Any]) -> None:
    config = run_config | {"sordino.select": "poisson", "sordino.rate": 0.5, "sordino.noise-multiplier": 2.0}
    config["sordino.population"] = 40
    grid = federation(config, grow(0.1), nodes=range(11, 51))
    wrapper, _ = play(config, grid, rounds=4)
    assert promised(wrapper) == pytest.approx(epsilon({PoissonSampledDpEvent(0.5, GaussianDpEvent(2.0)): 4}, 1e-5))
    assert 50 < len(grid.sent) < 110  # 160 coins
    per_round = np.bincount([int(message.content["sordino"]["round"]) for message in grid.sent])[1:]
    assert len(set(per_round.tolist())) > 1


def test_fixed_cohorts_cost_what_the_accountant_proves(run_config: dict[str, Any]) -> None:
    config = run_config | {"sordino.select": "fixed", "sordino.cohort": 5, "sordino.noise-multiplier": 2.0}
    config["sordino.population"] = 20
    grid = federation(config, grow(0.1), nodes=range(11, 31))
    wrapper, _ = play(config, grid, rounds=4)
    event = SampledWithoutReplacementDpEvent(20, 5, GaussianDpEvent(2.0))
    assert promised(wrapper) == pytest.approx(epsilon({event: 4}, 1e-5, adjacency="zero_out"))
    assert len(grid.sent) == 20


def test_a_fixed_cohort_is_drawn_from_the_declared_population_whoever_is_there(run_config: dict[str, Any]) -> None:
    config = run_config | {"sordino.select": "fixed", "sordino.cohort": 5, "sordino.population": 20}
    config |= {"sordino.noise-multiplier": 1e-6, "sordino.rounds": 40}
    del config["sordino.epsilon"]
    grid = federation(config, grow(0.05), nodes=range(11, 21))  # half of them
    play(config, grid, rounds=40)
    assert 70 < len(grid.sent) < 130  # 200 places were drawn, half of them nobody's


def test_local_trust_promises_against_the_server(run_config: dict[str, Any]) -> None:
    config = run_config | {"sordino.trust": "local", "sordino.noise-multiplier": 4.0}
    grid = federation(config, grow(0.1))
    grid.lost = {12}
    wrapper, result = play(config, grid, rounds=3)
    assert promised(wrapper, "server") == pytest.approx(epsilon({GaussianDpEvent(4.0): 3}, 1e-5))
    assert result.arrays["weight"].numpy().any()
    assert all(reply.content["sordino"]["squared-multiplier"] == 16.0 for reply in grid.replies)


def test_local_replace_costs_twice_the_sensitivity(run_config: dict[str, Any]) -> None:
    config = run_config | {"sordino.trust": "local", "sordino.noise-multiplier": 4.0, "sordino.adjacency": "replace"}
    wrapper, _ = play(config, federation(config, grow(0.1)), rounds=1)
    assert promised(wrapper, "server") == pytest.approx(epsilon(GaussianDpEvent(2.0), 1e-5))


def test_local_noise_is_in_the_sum_as_stated(run_config: dict[str, Any]) -> None:
    config = run_config | {"sordino.trust": "local", "sordino.noise-multiplier": 4.0}
    grid = TinyGrid({node: app_of(grow(0.0), [exact_mod(1)]) for node in (11, 12, 13, 14)}, config)
    wrapper = PrivateStrategy(FedAvg(), server_context(config), randomness=Streams(0))
    result = wrapper.start(grid, record({"weight": np.zeros(40_000, np.float32)}), num_rounds=1)
    stddev, found = 4.0 * 2 / 4, float(result.arrays["weight"].numpy().std())  # √4 noises of 4, over 4
    assert 0.98 * stddev < found < 1.02 * stddev
    assert not 0.98 < found / (2 / 3 * stddev) < 1.02 and not 0.98 < found / (1.5 * stddev) < 1.02


def clip_norms(grid: TinyGrid) -> list[float]:
    told = {int(m.content["sordino"]["round"]): float(m.content["sordino"]["clip-norm"]) for m in grid.sent}
    return [told[round_] for round_ in sorted(told)]


@pytest.mark.parametrize(("size", "grows"), [(10.0, True), (0.001, False)])
def test_adaptive_clipping_goes_the_right_way_round(size: float, grows: bool, run_config: dict[str, Any]) -> None:
    config = run_config | {"sordino.clipping": "adaptive", "sordino.epsilon": 50.0, "sordino.population": 40}
    grid = federation(config, grow(size), nodes=range(11, 51))
    play(config, grid, rounds=6)
    norms = clip_norms(grid)
    assert norms[0] == 1.0 and (norms[-1] > 1.2 if grows else norms[-1] < 0.8)


def test_adaptive_noise_follows_the_norm_that_was_applied(run_config: dict[str, Any]) -> None:
    config = run_config | {"sordino.clipping": "adaptive", "sordino.noise-multiplier": 1.0, "sordino.epsilon": 50.0}
    config |= {"sordino.quantile-rate": 3.0}  # the next norm is far from this one
    wide = {"weight": np.zeros(40_000, np.float32)}
    wrapper = PrivateStrategy(FedAvg(), server_context(config), randomness=Streams(0))
    grid = federation(config, grow(0.0))
    result = wrapper.start(grid, record(wide), num_rounds=1)
    stddev = float(result.arrays["weight"].numpy().std()) * 4
    # the joint release has multiplier 1; the count's noise of 1 takes its part of it
    assert stddev == pytest.approx((1.0 - (2 * 1.0) ** -2) ** -0.5, rel=0.02)
    assert promised(wrapper) == pytest.approx(epsilon(GaussianDpEvent(1.0), 1e-5))


def test_the_certificate_is_written_and_can_be_checked(run_config: dict[str, Any], tmp_path: Path) -> None:
    config = run_config | {"sordino.certificate": str(tmp_path / "certificate.json")}
    wrapper, _ = play(config, federation(config, grow(0.1)), rounds=2)
    document = CertificateDocument.from_json((tmp_path / "certificate.json").read_text())
    assert document == wrapper.document
    told = list(check(tmp_path / "certificate.json"))
    assert any("client against the outsider (add_remove): ε = " in sentence for sentence in told)


def test_two_runs_with_one_seed_on_one_ledger_share_no_noise(run_config: dict[str, Any]) -> None:
    """Else the difference of two released models would be that of two sums, to the bit."""
    config = run_config | {"sordino.noise-multiplier": 2.0}
    models = [play(config, federation(config, grow(0.1)), rounds=1)[1].arrays["weight"].numpy() for _ in range(2)]
    assert not np.isclose(models[0], models[1]).any()
