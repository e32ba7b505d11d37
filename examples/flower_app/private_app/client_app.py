"""The client: one argument, `mods=[private_mod]`, makes it private."""

from __future__ import annotations

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from private_app.task import loader, network, train
from sordino.flower import private_mod

app = ClientApp(mods=[private_mod])


@app.train()
def learn(message: Message, context: Context) -> Message:
    """Trains on the node's own images, as in any Flower app."""
    model, config = network(), context.run_config
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    data = loader(int(context.node_config["partition-id"]), int(context.node_config["num-partitions"]))
    train(model, data, int(config["local-epochs"]), float(config["learning-rate"]))
    metrics = MetricRecord({"num-examples": len(data.dataset)})  # dropped by private_mod, like every metric
    return Message(RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics}), reply_to=message)
