"""Run folders: what is public holds nothing private, what is private is closed, and no ledger is ever forgotten."""

import json
import os
import re
import shutil
import stat

import numpy as np
import pytest

import sordino
from sordino.account.ledger.ledger import Ledger
from sordino.data.holdings import holdings
from sordino.errors import BudgetExceeded, LedgerError, LedgerTampered, RecipeError, SordinoWarning
from sordino.files import for_owner_only
from sordino.report import page, plots
from sordino.report.reading import read
from sordino.runs.folder import RunFolder

POISSON = {
    "mechanism": {"name": "dp_fedavg"},
    "partition": {"clients": 61},
    "select": {"kind": "poisson", "rate": 0.4},
    "run": {"rounds": 6, "seed": 918273645},
    "budget": {"epsilon": 3.0, "clients": {"17": 2.9}},
    "dropout": {"rate": 0.1},
    "public": {"test": False},
}


def recipe(**sections):
    return sordino.Recipe.from_dict({**POISSON, **sections})


def numbers_in(text):
    """Returns every number that is written down, hashes and keys left out."""
    words = re.findall(r"(?<![0-9a-zA-Z.])-?\d+\.?\d*(?:e-?\d+)?(?![0-9a-zA-Z])", text)
    return {float(word) for word in words}


@pytest.fixture(scope="module", params=["dp_fedavg", "dropout_robust", "fed_ldp", "dp_sgd"])
def outcome(request, tmp_path_factory):
    return sordino.run(recipe(mechanism={"name": request.param}), out=tmp_path_factory.mktemp("run") / "a")


@pytest.fixture(scope="module")
def published(outcome):
    """Everything public of a run, its page included, by file name."""
    folder = RunFolder(outcome.folder)
    view = read(outcome.folder, public=True)
    page.write(view, folder.public / "report.html", None)
    return {path.name: path.read_bytes() for path in folder.public.rglob("*") if path.is_file()}


def test_each_file_lies_where_it_belongs(outcome):
    folder = RunFolder(outcome.folder)
    assert {path.name for path in outcome.folder.iterdir()} == {"public", "private"}
    public = {"model.safetensors", "certificate.json", "metrics.jsonl", "recipe.toml", "heads.jsonl"}
    assert public <= {path.name for path in folder.public.iterdir()} <= public | {"report.html"}
    private = {"ledger.db", "recipe.toml", "run.json", "metrics.jsonl", "certificate.json", "checkpoint.safetensors"}
    assert private <= {path.name for path in folder.private.iterdir()}


def test_private_files_are_their_owners_alone(outcome, published):
    folder = RunFolder(outcome.folder)
    assert stat.S_IMODE(folder.private.stat().st_mode) == 0o700
    assert stat.S_IMODE(folder.public.stat().st_mode) == 0o755
    for path in folder.private.rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
    for path in folder.public.rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o755 if path.is_dir() else 0o644), path


def test_no_file_is_open_to_others_for_a_moment(tmp_path, monkeypatch):
    made, system = [], os.open

    def watched(path, flags, mode=0o777, **rest):
        handle = system(path, flags, mode, **rest)
        if flags & os.O_CREAT:
            made.append((str(path), stat.S_IMODE(os.fstat(handle).st_mode)))
        return handle

    monkeypatch.setattr(os, "open", watched)
    monkeypatch.setattr(os, "chmod", lambda *_, **__: pytest.fail("permissions come with the file"))
    sordino.run(recipe(run={"rounds": 2, "notes": True}), out=tmp_path / "run")
    closed = [mode for path, mode in made if "/private/" in path]
    assert closed and set(closed) == {0o600}


def test_pictures_of_a_private_page_are_closed_too(tmp_path):
    with for_owner_only():
        (tmp_path / "plots").mkdir()
        (tmp_path / "plots" / "a.svg").write_text("")
    assert stat.S_IMODE((tmp_path / "plots").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "plots" / "a.svg").stat().st_mode) == 0o600


def test_nothing_public_tells_a_private_number(outcome, published):
    """The attack: read every public file for losses, counts, clip fractions, costs and ids that only private/ has."""
    private = RunFolder(outcome.folder).metrics()
    exact = {value for line in private for value in (line.get("loss"), line.get("accuracy"), line.get("clip_fraction"))}
    exact |= {value for line in private for value in line.get("seconds", {}).values()}
    if outcome.context.mechanism.coins_are_secret:  # elsewhere the dearest client's ε is the promise itself
        exact |= {value for line in private[:-1] for value in line.get("epsilon", {}).values()}
    exact = {value for value in exact if value is not None and f"{value:.3g}" != f"{value:.9g}"}
    assert len(exact) > 10
    for name, data in published.items():
        if name in ("model.safetensors", "heads.jsonl"):
            continue
        text = data.decode()
        if name == "report.html":  # the plotting library is 4 MB of numbers of its own
            text = "".join(part for part in re.split(r"<script>.*?</script>", text, flags=re.S))
        found = {round(number, 9) for number in numbers_in(text)} & {round(number, 9) for number in exact}
        assert not found, (name, found)


def test_nothing_public_tells_who_or_how_many(outcome, published):
    metrics = [json.loads(line) for line in published["metrics.jsonl"].decode().splitlines()]
    allowed = {"round", "noise_stddev", "knobs", "first_knobs", "aborted"}
    assert all(set(line) <= allowed for line in metrics)
    text = published["certificate.json"].decode()
    for word in ("worst", "median", "near_limit", "participations", "population", "cohort_size", "clients.f32"):
        assert f'"{word}"' not in text
    for line in RunFolder(outcome.folder).metrics():
        assert line["cohort"] not in numbers_in(published["metrics.jsonl"].decode()) - {float(line["round"])} or (
            line["cohort"] <= 6
        )
    assert "918273645" not in published["recipe.toml"].decode() + published["certificate.json"].decode()
    assert "17" not in published["recipe.toml"].decode()
    assert "918273645" not in published["report.html"].decode()


def test_no_unsalted_digest_of_the_data_is_written_anywhere(outcome):
    marks = [outcome.context.federation.digest.encode()]
    marks += [one.hex().encode() for one in holdings(outcome.context.federation)]
    marks += list(holdings(outcome.context.federation))
    for path in outcome.folder.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            assert not any(mark in data for mark in marks), path


def test_scores_are_public_where_the_test_records_are(tmp_path):
    told = sordino.run(recipe(run={"rounds": 2}, public={"test": True}), out=tmp_path / "run")
    assert RunFolder(told.folder).released()[-1]["accuracy"] == told.accuracy
    assert any(chart.key == "accuracy" for chart in plots.charts(read(told.folder, public=True)))


def test_noise_that_would_count_the_cohort_is_not_told(tmp_path):
    """Shares of noise follow the number of survivors, which a promise that credits sampling needs to be secret."""
    told = sordino.run(recipe(mechanism={"name": "dropout_robust"}), out=tmp_path / "run")
    secret = any(
        charge.payers == "eligible" for charge in told.context.mechanism.quote(told.context.mechanism.adapter.start())
    )
    for line in RunFolder(told.folder).released():
        assert (line.get("noise_stddev") is None) == (secret or "aborted" in line)


def halted(folder, after=3, **sections):
    """Plays a run and stops it after some rounds, as Ctrl-C does."""

    def stop(metrics):
        if metrics["round"] == after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sordino.run(recipe(**sections), out=folder, watcher=stop)
    return folder


def test_a_run_whose_ledger_is_gone_is_not_resumed(tmp_path):
    folder = halted(tmp_path / "run")
    for path in RunFolder(folder).private.glob("ledger.db*"):
        path.unlink()
    with pytest.raises(LedgerError, match="ledger"):
        sordino.run(recipe(), out=folder, resume=True)
    assert not RunFolder(folder).ledger.exists()


@pytest.mark.parametrize("heads", [False, True])
def test_a_run_whose_ledger_is_gone_with_its_heads_is_not_resumed(heads, tmp_path):
    folder = halted(tmp_path / "run")
    RunFolder(folder).ledger.unlink()
    if heads:
        RunFolder(folder).heads.unlink()
    with pytest.raises(LedgerError):
        sordino.run(recipe(), out=folder, resume=True)


@pytest.mark.parametrize("heads", [False, True])
def test_a_run_whose_ledger_was_rolled_back_is_not_resumed(heads, tmp_path):
    """The older copy comes back with its own head log, so that only the checkpoint knows better."""
    folder = RunFolder(tmp_path / "run")
    old = tmp_path / "old"

    def copy(metrics):
        if metrics["round"] == 2:
            old.mkdir()
            for path in [*folder.private.glob("ledger.db*"), *([folder.heads] if heads else [])]:
                shutil.copy(path, old / path.name)
        if metrics["round"] == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sordino.run(recipe(), out=folder.path, watcher=copy)
    for path in folder.private.glob("ledger.db-*"):
        path.unlink()
    for path in old.iterdir():
        shutil.copy(path, (folder.public if path.name == "heads.jsonl" else folder.private) / path.name)
    with pytest.raises(LedgerTampered):
        sordino.run(recipe(), out=folder.path, resume=True)


def test_a_run_that_was_stopped_goes_on_to_the_same_bits(tmp_path):
    folder = halted(tmp_path / "run")
    again = sordino.run(recipe(), out=folder, resume=True)
    whole = sordino.run(recipe(), out=tmp_path / "whole")
    assert np.array_equal(again.weights.numpy(), whole.weights.numpy())
    assert [p.numbers for p in again.document.promises] == [p.numbers for p in whole.document.promises]
    assert RunFolder(folder).released() == RunFolder(whole.folder).released()


def test_a_shared_ledger_says_what_was_spent_and_refuses_other_holders(tmp_path):
    shared = {"ledger": {"path": tmp_path / "books" / "ledger.db"}, "budget": {"epsilon": 8.0}}
    (tmp_path / "books").mkdir()
    first = sordino.run(recipe(**shared, run={"rounds": 2}), out=tmp_path / "one")
    same, more = first.context.federation, {**shared, "budget": {"epsilon": 40.0}}
    with pytest.raises(BudgetExceeded, match=r"earlier runs on this ledger have spent .*one-"):
        sordino.run(recipe(**shared, run={"rounds": 2, "seed": 1}), out=tmp_path / "spent", federation=same)
    with pytest.warns(SordinoWarning, match=r"earlier runs on this ledger have spent .*one-"):
        sordino.run(recipe(**more, run={"rounds": 2, "seed": 1}), out=tmp_path / "more", federation=same)
    with pytest.raises(LedgerError, match="hold"):
        sordino.run(recipe(**shared, run={"rounds": 2, "seed": 5}), out=tmp_path / "two")
    assert not (tmp_path / "two").exists()


def test_a_shared_ledger_that_was_removed_is_not_begun_anew_by_resume(tmp_path):
    shared = {"ledger": {"path": tmp_path / "books" / "ledger.db"}}
    (tmp_path / "books").mkdir()
    folder = halted(tmp_path / "run", **shared)
    shutil.rmtree(tmp_path / "books")
    (tmp_path / "books").mkdir()
    with pytest.raises(LedgerError):
        sordino.run(recipe(**shared), out=folder, resume=True)
    assert list((tmp_path / "books").iterdir()) == []


def test_heads_are_published_to_a_witness(tmp_path):
    witness = tmp_path / "elsewhere.jsonl"
    told = sordino.run(recipe(ledger={"witness": witness}, run={"rounds": 2}), out=tmp_path / "run")
    assert told.document.ledger_head in witness.read_text()
    assert told.document.ledger_head in RunFolder(told.folder).heads.read_text()
    with Ledger.open(RunFolder(told.folder).ledger, write=False, witness=witness) as ledger:
        ledger.verify()


def test_holdings_follow_the_records_and_not_their_order():
    x, y = np.random.default_rng(0).normal(size=(8, 3)).astype(np.float32), np.array([0, 1] * 4)
    owners = np.array(["a", "a", "a", "b", "b", "c", "c", "c"])
    made = sordino.Federation.of(x, y, owners, test=None)
    order = np.array([2, 0, 1, 4, 3, 7, 6, 5])
    assert holdings(made) == holdings(sordino.Federation.of(x[order], y[order], owners[order], test=None))
    swapped = owners.copy()
    swapped[[0, 3]] = swapped[[3, 0]]
    other = holdings(sordino.Federation.of(x, y, swapped, test=None))
    assert [a == b for a, b in zip(holdings(made), other, strict=True)] == [False, False, True]


@pytest.mark.parametrize("how", ["open", "link"])
def test_a_private_folder_that_was_there_is_its_owners_alone(tmp_path, how):
    """Whoever made it beforehand could have swapped files in it, or sent them elsewhere."""
    folder, elsewhere = RunFolder(tmp_path / "run"), tmp_path / "elsewhere"
    folder.path.mkdir()
    if how == "link":
        elsewhere.mkdir(0o700)
        folder.private.symlink_to(elsewhere)
    else:
        folder.private.mkdir()
        folder.private.chmod(0o755)
    with pytest.raises(RecipeError, match="private/ already"):
        folder.prepare()
    assert not list(folder.private.iterdir())
    if how == "open":
        folder.private.chmod(0o700)
        folder.prepare()
