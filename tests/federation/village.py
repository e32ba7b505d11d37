"""A whole federation in one process, for tests: the operator's folder, nodes with records of their own, and a grid."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from flwr.clientapp import ClientApp

from sordino.data.federation import Federation
from sordino.federation.client_app import client_app
from sordino.federation.deadlines import Deadlines
from sordino.federation.deployment import Deployment
from sordino.federation.folder import FederationFolder
from sordino.federation.grid import Fates, InProcessGrid
from sordino.federation.node_folder import NodeFolder
from sordino.federation.operator_records import operator_records
from sordino.federation.policy import BudgetPolicy, MechanismPolicy, Policy, SecurePolicy, WhoPolicy
from sordino.files import PUBLIC, replace_file
from sordino.mechanisms import MECHANISMS
from sordino.random.streams import Entropy, Randomness, Streams
from sordino.recipe import Recipe
from sordino.runs.folder import RunFolder
from sordino.runs.outcome import Outcome
from sordino.runs.run import run
from sordino.runs.setup import declared, load

SERVER = "fed.example.org:8000"
QUICK = Deadlines(stage=0.3, train=0.3, gather=1.0)
"""An in-process grid answers at once, or never."""


def generous(who: WhoPolicy) -> Policy:
    """A policy that takes part in every certified mechanism."""
    return Policy(
        who=who,
        mechanism=MechanismPolicy(
            allowed=tuple(MECHANISMS),
            trusts=("local", "distributed", "central"),
            largest_clip_norm=5.0,
            least_noise_multiplier=0.01,
            smallest_cohort=3,
        ),
        budget=BudgetPolicy(epsilon=100.0),
        secure=SecurePolicy(smallest_threshold=2),
    )


@dataclass
class Village:
    """The operator, the nodes by number (their Flower ids are 100 + number), and what becomes of requests."""

    folder: FederationFolder
    nodes: list[NodeFolder]
    recipe: Recipe
    fates: Fates = lambda node, kind: "answer"
    randomness: Randomness = field(default_factory=Entropy)
    app: ClientApp | None = None

    def grid(self, numbers: list[int] | None = None) -> InProcessGrid:
        app = self.app or client_app(self.randomness)
        chosen = range(len(self.nodes)) if numbers is None else numbers
        configs = {100 + n: {"folder": str(self.nodes[n].path)} for n in chosen}
        return InProcessGrid(dict.fromkeys(configs, app), configs, lambda node, kind: self.fates(node - 100, kind))

    def deployment(self, grid: InProcessGrid | None = None, **changes: object) -> Deployment:
        public = operator_records(self.folder, "public")
        chosen = Deployment(self.folder, grid or self.grid(), self.randomness, QUICK, public=public)
        return replace(chosen, **changes)  # type: ignore[arg-type]


def simulated(*settings: str) -> tuple[Recipe, Federation]:
    """Returns a small recipe and the data that a simulation of it deals out."""
    recipe = Recipe.load(None, ["train.chunk=1", "train.steps=1", "run.evaluate_every=100", *settings])
    return recipe, declared(recipe, load(recipe))


def played_and_made(path: Path, mechanism: str, *settings: str) -> tuple[Outcome, Village]:
    """Plays a simulation, and makes a federation whose nodes draw as it did; `mechanism` may bring settings along."""
    name, *own = mechanism.split()
    recipe, data = simulated(*settings, f"mechanism.name={name}", *own)
    outcome = run(recipe, federation=data, out=path / "simulation", idle_settings="warn")
    made = village(path, recipe, data)
    made.randomness = Streams(RunFolder(path / "simulation").facts()["stream"])
    return outcome, made


def village(path: Path, recipe: Recipe, data: Federation, policy: Callable[[WhoPolicy], Policy] = generous) -> Village:
    """Makes the folders of everybody: each client of the simulation's data becomes a node."""
    folder = FederationFolder(path / "operator")
    folder.make("village", ("fed.example.org",), 8000)
    who = WhoPolicy(federation="village", operator=folder.operator.public.hex(), servers=(SERVER,))
    nodes = []
    for number in range(data.population):
        node, own = NodeFolder(path / f"node-{number}"), data.gather(np.array([number]))
        node.make(f"node-{number}", SERVER, policy(who), folder.authority.certificate.read_bytes())
        np.savez(node.path / "data" / "records.npz", x=own.x.numpy(), y=own.y.numpy())
        folder.enrol(node.application())
        nodes.append(node)
    for node in nodes:
        replace_file(node.registry_file, folder.registry_file.read_bytes(), PUBLIC)
    told = data.declared
    shown = {"population": told.people, "records": told.total, "classes": told.classes, "shape": data.input_shape}
    deployed = recipe.but(data={"name": "npz", "normalise": "none", "public_fraction": 0.0}, public=shown)
    replace_file(folder.recipe_file, deployed.to_toml().encode(), PUBLIC)
    if data.public_x is not None and data.public_y is not None:
        np.savez(folder.path / "public.npz", x=data.public_x.numpy(), y=data.public_y.numpy())
    return Village(folder, nodes, deployed)
