"""Where an outsider is promised not to learn who is there, no published number may be a count of those who are."""

import json

import numpy as np

from sordino import run
from sordino.data.federation import Federation
from sordino.data.public import PublicCounts


def published(folder, clients):
    """The public certificate of a run whose coins could end it, but for what differs anyway."""
    x = np.random.default_rng(0).normal(size=(60, 5)).astype(np.float32)[:clients]
    data = Federation.of(x, (x[:, 0] > 0).astype(int), None, None, 2, public=PublicCounts(60, 60, 2))
    outcome = run(
        federation=data,
        out=folder,
        progress=False,
        mechanism={"name": "dropout_robust", "noise_multiplier": 4.0},
        select={"kind": "poisson", "rate": 0.2},
        budget={"epsilon": 2.2},
        run={"rounds": 10},
    )
    told = json.loads((folder / "public" / "certificate.json").read_text())
    (outsider,) = [one for one in told["promises"] if one["observer"] == "outsider"]
    assert (outcome.stopped, outsider["adjacency"]) == ("rounds", "add_remove")
    return outsider


def test_a_certificate_does_not_tell_how_many_clients_there_are(tmp_path):
    """What of δ covers an early end was computed for the clients at hand: 60 and 59 were told apart by reading it."""
    sixty, fewer = (published(tmp_path / str(clients), clients) for clients in (60, 59))
    assert sixty["proof"]["taken_out"] > 0
    assert sixty == fewer
