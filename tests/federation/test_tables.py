"""Tables as hospitals have them, on nodes: words, gaps, columns in any order, read as `sordino run` reads them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from federation.test_refusals import ASKED, Operator, spent
from federation.village import SERVER, Village, generous
from sordino import data
from sordino.errors import DataError, FederationError
from sordino.federation.folder import FederationFolder
from sordino.federation.node_folder import NodeFolder
from sordino.federation.operator_records import operator_records
from sordino.federation.plan import plan_of
from sordino.federation.policy import DataPolicy, Policy, WhoPolicy
from sordino.recipe import Recipe
from sordino.terms import Terms

WORDS = {"sex": ("f", "m"), "pain": ("none", "some", "much")}
DATA = {"columns": ["age", "pressure", "sex", "pain"], "categories": WORDS, "class_names": ["well", "ill"]}
RANGES = {"age": (0.0, 120.0), "pressure": (80.0, 200.0)}
SHAPE = 2 + 2 + 3
OWN = DataPolicy(
    kind="csv", file=Path("data/own.csv"), class_names=("well", "ill"), missing="middle", categories=WORDS,
    columns=("pressure", "age", "sex", "pain"),
)  # fmt: skip
ORDERS = (["age", "pressure", "sex", "pain", "label", "id"], ["id", "label", "pain", "sex", "pressure", "age"])


def table(path: Path, number: int) -> None:
    """Writes a node's table: no two have their columns in the same order, and one of each cell is missing."""
    draws, header = np.random.default_rng(number), ORDERS[number % 2]
    mark, lines = ";" if number % 2 else ",", []
    for line in range(12):
        ages, words = draws.integers(20, 90), {name: draws.choice(told) for name, told in WORDS.items()}
        cells = {"age": str(ages), "pressure": str(ages + 60), "id": f"p{line}", "label": draws.choice(["well", "ill"])}
        cells |= {"age": "NA"} if line == 3 else {"pressure": "1e3"} if line == 4 else {}
        cells |= words | ({"pain": "?"} if line == 5 else {})
        lines.append(mark.join(str(cells[name]) for name in header))
    path.write_text("\n".join([mark.join(header), *lines]) + "\n")


def hospitals(path: Path, own: DataPolicy = OWN) -> Village:
    folder = FederationFolder(path / "operator")
    folder.make("village", ("fed.example.org",), 8000)
    who = WhoPolicy(federation="village", operator=folder.operator.public.hex(), servers=(SERVER,))
    nodes = [NodeFolder(path / f"node-{number}") for number in range(6)]
    for number, node in enumerate(nodes):
        policy = generous(who).model_copy(update={"data": own})
        node.make(node.path.name, SERVER, policy, folder.authority.certificate.read_bytes())
        table(node.path / "data" / "own.csv", number)
        folder.enrol(node.application())
    for node in nodes:
        node.accept_registry(folder.registry_file)
    settings = ["mechanism.name=fed_ldp", "train.steps=1", "run.rounds=2", "budget.epsilon=50", "model.name=linear"]
    settings += ["public.population=6", "public.records=72", "public.classes=2", f"public.shape=[{SHAPE}]"]
    recipe = Recipe.load(None, settings).but(data=DATA, public={"ranges": RANGES})
    folder.recipe_file.write_text(recipe.to_toml())
    return Village(folder, nodes, recipe)


def asking(made: Village) -> Operator:
    context = made.deployment().context
    plan = plan_of(context, "run", 6, made.folder.registry.version)
    return Operator(made, plan, Terms(1, context.weights, context.mechanism.adapter.start(), np.arange(6)),
                    made.folder.operator)  # fmt: skip


def test_a_policy_with_words_is_written_as_it_is_read(tmp_path: Path) -> None:
    made = hospitals(tmp_path).nodes[0]
    assert Policy.load(made.policy_file).data == OWN


def test_a_node_reads_its_table_as_a_simulation_does(tmp_path: Path) -> None:
    made = hospitals(tmp_path)
    for number in (0, 1):
        node = made.nodes[number]
        own = node.data(made.recipe)
        options = {**DATA, "missing": "middle", "test": 0.0, "file": node.path / "data" / "own.csv"}
        alone = data.federate("csv", normalise="auto", ranges=RANGES, outside="clip", **options)
        assert own.x.shape == (12, SHAPE) and torch.equal(own.x, alone.train_x) and torch.equal(own.y, alone.train_y)
        assert own.x[3, 0] == 0 and own.x[4, 1] == 1 and not own.x[5, 4:].any()  # gap, clipped, none of the words
        assert own.x[:, 2:4].sum(1).eq(1).all()


def test_a_run_over_tables_ends_with_a_model(tmp_path: Path) -> None:
    made = hospitals(tmp_path)
    table(made.folder.path / "test.csv", 7)
    with pytest.raises(DataError, match="gaps"):
        operator_records(made.folder, "test")
    (made.folder.path / "test.csv").write_text("age,pressure,sex,pain,label\n50,110,f,none,ill\n")
    test = operator_records(made.folder, "test")
    assert test is not None and test[0].shape == (1, SHAPE) and test[1].tolist() == [1]
    last = replace(made.deployment(), test=test).play()
    assert last.stopped and last.here.weights.isfinite().all() and last.here.weights.any()
    assert spent(asking(made)) == 2


def test_two_files_of_test_records_are_refused(tmp_path: Path) -> None:
    made = hospitals(tmp_path).folder
    for name in ("test.csv", "test.npz"):
        (made.path / name).write_text("")
    with pytest.raises(FederationError, match=r"test\.npz and test\.csv"):
        operator_records(made, "test")


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"class_names": ["ill", "well"]}, "data.class_names"),
        ({"label": "id"}, "data.label"),
        ({"columns": [*DATA["columns"], "id"]}, "data.columns"),
        ({"categories": WORDS | {"sex": ("m", "f")}}, "data.categories.sex"),
        ({"categories": {"pain": WORDS["pain"]}}, "data.categories.sex"),
        ({"categories": WORDS | {"age": ("20", "30")}}, "data.categories.age"),
    ],
)
def test_a_run_that_takes_the_table_for_another_is_refused(
    tmp_path: Path, changes: dict[str, object], why: str
) -> None:
    asked = asking(hospitals(tmp_path))
    refusal = asked.but(data=changes).ask("hello").refused
    assert why in refusal and spent(asked) == 0


def test_a_plan_chooses_among_columns_and_orders_them(tmp_path: Path) -> None:
    made = hospitals(tmp_path)
    fewer = made.recipe.but(data={"columns": ["sex", "age"], "categories": {"sex": WORDS["sex"]}},
                            public={"ranges": {"age": (0.0, 120.0)}})  # fmt: skip
    whole, part = (made.nodes[0].data(recipe).x for recipe in (made.recipe, fewer))
    assert torch.equal(part, whole[:, [0, 2, 3]])


def test_no_plan_asks_by_refusals_what_stands_in_a_table(tmp_path: Path) -> None:
    """Gaps in a column without a range, and a range that is one number in single precision, were such questions."""
    asked = asking(hospitals(tmp_path))
    records = asked.village.nodes[ASKED].records()
    age = float(records.train_x[0, records.columns.index("age")])
    for ranges in ({"pressure": (80.0, 200.0)}, {"*": (-1e38, 3e38)}, {"age": (age, age + 1e-9)}):
        told = asked.but(public={"ranges": ranges})
        assert not told.ask("hello").refused
        assert asked.village.nodes[ASKED].data(asked.village.recipe.but(public={"ranges": ranges})).x.isfinite().all()


def test_a_word_that_the_owner_did_not_declare_stays_with_the_owner(tmp_path: Path) -> None:
    made = hospitals(tmp_path)
    file = made.nodes[ASKED].path / "data" / "own.csv"
    file.write_text(file.read_text().replace(",f,", ",rare,"))
    refusal = asking(made).ask("hello").refused
    assert "its own log" in refusal and "rare" not in refusal
    with pytest.raises(DataError, match="rare"):
        made.nodes[ASKED].records()


def test_numbers_to_predict_may_all_be_whole(tmp_path: Path) -> None:
    made = hospitals(tmp_path, DataPolicy(kind="csv", file=Path("data/own.csv"), columns=("age",), missing="middle",
                                          label="pressure"))  # fmt: skip
    for node in made.nodes:
        (node.path / "data" / "own.csv").write_text("age,pressure\n50,120\n60,130\n")
    recipe = made.recipe.but(public={"classes": 0, "shape": [1], "ranges": None}, data={
        "columns": ["age"], "categories": None, "class_names": None, "label": "pressure"})  # fmt: skip
    assert made.nodes[0].data(recipe).y.dtype == torch.float32
