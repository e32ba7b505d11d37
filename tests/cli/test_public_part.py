"""Somebody who is given `public/` and nothing else: what can be read and checked, and what is said of the rest."""

import shutil

import pytest

SMALL = ["--set", "run.rounds=2", "--set", "mechanism.name=dp_sgd", "--set", "data.name=digits"]


@pytest.fixture
def handed_over(command, tmp_path):
    command("run", "--out", "run", *SMALL, cwd=tmp_path)
    (tmp_path / "officer").mkdir()
    shutil.copytree(tmp_path / "run" / "public", tmp_path / "officer" / "public")
    shutil.copytree(tmp_path / "run" / "public", tmp_path / "officer" / "renamed")
    return tmp_path / "officer"


def test_the_public_part_is_enough_to_read_and_to_check(command, handed_over):
    for part in (".", "public", "renamed", "renamed/certificate.json"):
        assert "One record against the server" in command("certificate", part, cwd=handed_over).stdout
        assert "nothing was changed" in command("certificate", "--check", part, cwd=handed_over).stdout
    command("report", "public", cwd=handed_over)
    assert (handed_over / "public" / "report.html").exists()


@pytest.mark.parametrize("options", [[], ["--verify"]])
@pytest.mark.parametrize("part", [".", "public", "renamed"])
def test_a_ledger_that_was_not_handed_over_is_named_as_private(command, handed_over, part, options):
    """It said that the certificate was of another version, and that sordino must be upgraded."""
    said = command("ledger", part, *options, cwd=handed_over, code=2).stderr
    assert "its ledger is private" in said and "sordino certificate --check" in said


def test_the_terminal_has_no_empty_column_and_is_short(command, tmp_path):
    said = command("run", "--out", "run", *SMALL, cwd=tmp_path).stdout
    assert "claimed" not in said and "computed without cryptography" in said and "recover a secret" not in said
    faithful = ("mechanism.name=fed_cad", "mechanism.mode=faithful", "mechanism.noise_multiplier=1", "run.rounds=1")
    settings = [word for setting in (*faithful, "budget.epsilon=none") for word in ("--set", setting)]
    assert "claimed ε" in command("run", *settings, cwd=tmp_path).stdout


def test_advice_on_a_recipe_begins_with_that_recipe(command, tmp_path):
    (tmp_path / "mine.toml").write_text("[mechanism]\nname = 'dp_sgd'\n[budget]\nepsilon = 2.0\n")
    assert "sordino run mine.toml --set" in command("advise", "mine.toml", cwd=tmp_path).stdout


def test_a_budget_that_is_spent_for_all_but_one_is_told_before_the_run(command, tmp_path):
    """Alice was stricter in the first study, so the second was played with her alone, and nobody said so."""
    rows = [f"{'alice' if k < 3 else f'p{k // 3}'},{k % 7},{k % 5},{k % 2}" for k in range(60)]
    (tmp_path / "people.csv").write_text("\n".join(["who,x,y,label", *rows]))
    public = ("public.population=20", "public.records=60", "public.classes=2", "data.test=0", "budget.epsilon=2")
    others = ("mechanism.name=dp_fedavg", "run.rounds=1", "ledger.path=l.db", "data.client=who", "data.name=csv")
    settings = [word for setting in (*public, *others, "data.file=people.csv") for word in ("--set", setting)]
    command("run", *settings, "--set", "budget.clients={alice=0.1}", "--out", "one", cwd=tmp_path)
    said = command("run", *settings, "--out", "two", cwd=tmp_path).stderr
    assert "of 20 clients that the ledger knows, 1 can pay for the first round" in said
