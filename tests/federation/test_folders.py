"""Folders, keys, registry and policy: what is refused, in words."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from sordino.errors import FederationError, NodeRefused
from sordino.federation.folder import FederationFolder
from sordino.federation.limits import check_budget, check_plan
from sordino.federation.node_folder import NodeFolder
from sordino.federation.plan import plan_of
from sordino.federation.policy import DataPolicy, Policy, WhoPolicy
from sordino.federation.registry import MemberRegistry
from sordino.federation.remote import remote
from sordino.recipe import Recipe
from sordino.runs.setup import assemble


@pytest.fixture
def operator(tmp_path: Path) -> FederationFolder:
    folder = FederationFolder(tmp_path / "operator")
    folder.make("hospitals", ("127.0.0.1", "localhost"), 9099)
    return folder


def new_node(operator: FederationFolder, name: str) -> NodeFolder:
    told = json.loads((operator.path / "join.json").read_text())
    who = WhoPolicy(federation=told["federation"], operator=told["operator"], servers=(told["server"],))
    node = NodeFolder(operator.path.parent / name)
    node.make(name, told["server"], Policy(who=who), told["authority"].encode())
    return node


def enrolled(operator: FederationFolder, *names: str) -> list[NodeFolder]:
    nodes = [new_node(operator, name) for name in names]
    for node in nodes:
        operator.enrol(node.application())
    for node in nodes:
        node.accept_registry(operator.registry_file)
    return nodes


def test_a_node_knows_its_number_its_peers_and_its_own_ledger(operator: FederationFolder) -> None:
    a, b = enrolled(operator, "a", "b")
    assert (a.number, b.number) == (0, 1)
    assert b.registry.public_keys == {0: a.identity.public, 1: b.identity.public}
    with a.ledger() as ledger:
        assert ledger.population == 1 and ledger.federation == "hospitals"
    with a.ledger(write=False) as ledger:
        assert ledger.entries == []


def test_private_files_are_private(operator: FederationFolder) -> None:
    (node,) = enrolled(operator, "a")
    for path in (node.path / "keys" / "signing.pem", node.transport_key, operator.authority.key, operator.server_key):
        assert path.stat().st_mode & 0o077 == 0
    for folder in (node.state_dir, node.path / "keys", operator.path / "ca", operator.path / "operator"):
        assert folder.stat().st_mode & 0o077 == 0
    (node.path / "keys" / "signing.pem").chmod(0o644)
    with pytest.raises(FederationError, match="chmod 600"):
        _ = NodeFolder(node.path).identity


def test_the_policy_file_reads_back_as_it_was_written(operator: FederationFolder) -> None:
    (node,) = enrolled(operator, "a")
    policy = NodeFolder(node.path).policy
    assert policy == Policy(who=policy.who)
    assert Policy.load(node.policy_file).to_toml() == node.policy_file.read_text()


def test_registry_of_a_stranger_is_refused(operator: FederationFolder, tmp_path: Path) -> None:
    (node,) = enrolled(operator, "a")
    stranger = FederationFolder(tmp_path / "stranger")
    stranger.make("hospitals", ("127.0.0.1",), 9098)
    with pytest.raises(FederationError, match="not signed by the operator key"):
        node.accept_registry(stranger.registry_file)


def test_an_edited_registry_is_refused(operator: FederationFolder) -> None:
    a, b = enrolled(operator, "a", "b")
    told = json.loads(a.registry_file.read_text())
    told["members"][1]["signing"] = "00" * 32
    a.registry_file.write_text(json.dumps(told))
    with pytest.raises(FederationError, match="not signed"):
        _ = NodeFolder(a.path).registry
    assert b.registry.version == 3


def test_an_older_registry_is_refused_and_so_is_a_second_one_of_the_same_version(operator: FederationFolder) -> None:
    (node,) = enrolled(operator, "a")
    old = operator.registry_file.read_bytes()
    operator.enrol(new_node(operator, "b").application())
    node.accept_registry(operator.registry_file)
    operator.registry_file.write_bytes(old)
    with pytest.raises(FederationError, match="version 2 and this node has seen version 3"):
        node.accept_registry(operator.registry_file)
    operator.dismiss("a")
    with pytest.raises(FederationError, match="another version 3"):
        node.accept_registry(operator.registry_file)


def test_an_expired_registry_and_a_clock_that_is_behind_are_told_apart(operator: FederationFolder) -> None:
    enrolled(operator, "a")
    key, path, now = operator.operator.public.hex(), operator.registry_file, datetime.now(UTC)
    MemberRegistry.load(path, key, now=now + timedelta(days=89))
    MemberRegistry.load(path, key, now=now - timedelta(minutes=9))
    with pytest.raises(FederationError, match="expired on"):
        MemberRegistry.load(path, key, now=now + timedelta(days=91))
    with pytest.raises(FederationError, match="set the clock"):
        MemberRegistry.load(path, key, now=now - timedelta(minutes=11))
    operator.renew(1)
    with pytest.raises(FederationError, match="expired on"):
        MemberRegistry.load(path, key, now=now + timedelta(days=2))


def test_two_members_cannot_share_a_key(operator: FederationFolder) -> None:
    (node,) = enrolled(operator, "a")
    other = new_node(operator, "b").application()
    with pytest.raises(FederationError, match="same signing"):
        operator.enrol({**other, "signing": node.application()["signing"]})
    with pytest.raises(FederationError, match="same transport"):
        operator.enrol({**other, "transport": node.application()["transport"]})
    with pytest.raises(FederationError, match="same name"):
        operator.enrol({**other, "name": "a"})
    assert operator.registry.version == 2


def test_who_leaves_keeps_its_number_and_is_nobody_any_more(operator: FederationFolder) -> None:
    a, b = enrolled(operator, "a", "b")
    operator.dismiss("a")
    (c,) = enrolled(operator, "c")
    assert c.number == 2 and operator.registry.population == 3 and operator.registry.names == ["a", "b", "c"]
    assert set(operator.registry.public_keys) == {1, 2}
    b.accept_registry(operator.registry_file)
    assert a.identity.public.hex() not in [member.signing for member in b.registry.active]
    a.accept_registry(operator.registry_file)
    with pytest.raises(FederationError, match="has left"):
        _ = NodeFolder(a.path).number


def test_a_registry_with_another_key_under_this_nodes_name_is_refused(operator: FederationFolder) -> None:
    node, twin = new_node(operator, "a"), new_node(operator, "b")
    operator.enrol({**twin.application(), "name": "a"})
    node.accept_registry(operator.registry_file)
    with pytest.raises(NodeRefused, match="another key"):
        _ = node.number


def test_keys_and_ledgers_are_never_overwritten(operator: FederationFolder) -> None:
    (node,) = enrolled(operator, "a")
    with pytest.raises(FederationError, match="holds a node already"):
        node.make("a", "x:1", node.policy, b"")
    with pytest.raises(FederationError, match="holds a federation already"):
        operator.make("x", ("h",), 1)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"name": "fedavg"}, "mechanism.allowed"),
        ({"trust": "central"}, "mechanism.trusts"),
        ({"clip_norm": 1e6}, "largest_clip_norm"),
        ({"clip_norm": float("nan")}, "largest_clip_norm"),
        ({"clip_norm": -1.0}, "largest_clip_norm"),
        ({"noise_multiplier": 0.0}, "least_noise_multiplier"),
        ({"noise_multiplier": float("nan")}, "least_noise_multiplier"),
        ({"cohort": 1}, "smallest_cohort"),
    ],
)
def test_terms_outside_the_policy_are_refused_by_name(change: dict[str, object], match: str) -> None:
    policy = Policy(who=WhoPolicy(federation="f", operator="0" * 64, servers=("s:1",)))
    good = {"name": "dropout_robust", "trust": "distributed", "clip_norm": 1.0, "noise_multiplier": 0.5, "cohort": 5}
    policy.check_mechanism(**good)  # type: ignore[arg-type]
    with pytest.raises(NodeRefused, match=match):
        policy.check_mechanism(**{**good, **change})  # type: ignore[arg-type]


def test_other_servers_and_federations_are_refused() -> None:
    policy = Policy(who=WhoPolicy(federation="f", operator="0" * 64, servers=("s:1",)))
    policy.check_server("s:1")
    with pytest.raises(NodeRefused, match=r"who\.servers"):
        policy.check_server("s:2")
    with pytest.raises(NodeRefused, match=r"who\.federation"):
        policy.check_federation("g")


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("[who]\n", "who.federation is missing"),
        ('[who]\nfederation="f"\noperator="0"\nservers=["s:1"]\n', "who.operator"),
        ("[who\n", "not valid TOML"),
        ("[what]\n", "is missing|not a setting"),
    ],
)
def test_a_wrong_policy_is_one_sentence(tmp_path: Path, text: str, match: str) -> None:
    path = tmp_path / "policy.toml"
    path.write_text(text)
    with pytest.raises(FederationError, match=match):
        Policy.load(path)


def test_a_node_reads_its_own_records_and_no_more_than_its_policy_allows(operator: FederationFolder) -> None:
    (node,) = enrolled(operator, "a")
    x = np.random.default_rng(0).random((6, 1, 8, 8), dtype=np.float32)
    np.savez(node.path / "data" / "records.npz", x=x, y=np.arange(6) % 10)
    data = node.data(Recipe.load())
    assert data.x.shape == (6, 1, 8, 8) and data.clients.tolist() == [0] and data.sizes.tolist() == [6]
    assert abs(float(data.x[0].mean())) < 1e-6  # standardised, as the recipe says
    (node.path / "data" / "records.csv").write_text("age,name_code,income,label\n1,9,2,0\n3,9,4,1\n")
    own = DataPolicy(kind="csv", file=Path("data/records.csv"), columns=("age", "income"), most_records=2)
    node.policy_file.write_text(node.policy.model_copy(update={"data": own}).to_toml())
    assert NodeFolder(node.path).records().columns == ("age", "income")
    few = own.model_copy(update={"most_records": 1})
    node.policy_file.write_text(node.policy.model_copy(update={"data": few}).to_toml())
    with pytest.raises(NodeRefused, match="most_records"):
        NodeFolder(node.path).records()


def test_the_templates_of_a_new_federation_are_valid(operator: FederationFolder) -> None:
    folder = operator.path / "templates"
    assert Policy.load(folder / "policy.toml").who.operator == operator.operator.public.hex()
    recipe = Recipe.load(folder / "recipe.toml")
    assert recipe.public.shape == (10,) and recipe.mechanism.name == "dp_sgd"
    assert "label" in (folder / "records.csv").read_text()


def test_a_node_with_the_proposed_policy_plays_the_proposed_recipe_to_its_end(operator: FederationFolder) -> None:
    (node,) = enrolled(operator, "a")
    node.policy_file.write_bytes((operator.path / "templates" / "policy.toml").read_bytes())
    recipe = Recipe.load(operator.path / "templates" / "recipe.toml")
    context = assemble(recipe, federation=remote(recipe, operator.name, [str(number) for number in range(8)]))
    accepted, knobs = check_plan(node, plan_of(context, "run", 8, 2)), context.mechanism.adapter.start()
    with node.ledger() as ledger:
        for round_ in range(1, recipe.run.rounds + 1):
            cost = check_budget(node, ledger, accepted, accepted.mechanism.perturber.price(knobs, round_))
            node.filters.keep(cost.filters)
            ledger.reserve("run", round_, np.array([0]), cost.charges)
