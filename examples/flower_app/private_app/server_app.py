"""The server: the strategy is wrapped in `PrivateStrategy`, and leaves a certificate."""

from __future__ import annotations

from flwr.app import ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from private_app.task import accuracy, network
from sordino.flower import PrivateStrategy

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Trains, evaluates on public images, and prints what was promised."""

    def evaluate(server_round: int, arrays: ArrayRecord) -> MetricRecord:
        model = network()
        model.load_state_dict(arrays.to_torch_state_dict())
        return MetricRecord({"accuracy": accuracy(model)})

    strategy = PrivateStrategy(FedAvg(), context)
    start = ArrayRecord(network().state_dict())
    rounds = int(context.run_config["num-server-rounds"])
    strategy.start(grid, start, num_rounds=rounds, evaluate_fn=evaluate)
    print(strategy.certificate)
