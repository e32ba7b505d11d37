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
