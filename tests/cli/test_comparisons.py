"""Files of a comparison: whole, their owner's alone where test records are private, and safe from hostile names."""

import json
import os
import stat
from pathlib import Path

import numpy as np
import pytest

HOSTILE = "[red]x[link=http:e]<img src=q onerror=alert(1)>|\x1b[31m![t](http:e)"
PLAIN = ("--no-rivals", "--no-tune", "--seeds=1", "--jobs=1", "--set=run.rounds=2")


@pytest.fixture
def table(tmp_path):
    """A table of one's own: nobody said that its test records are public."""
    path, rng = tmp_path / "mine.csv", np.random.default_rng(3)
    rows = rng.uniform(size=(120, 3)).round(3)
    path.write_text("a,b,y\n" + "\n".join(f"{a},{b},{int(c > 0.5)}" for a, b, c in rows) + "\n")
    return path


def test_a_comparison_on_private_test_records_says_so_and_is_its_owners(tmp_path, table, command):
    """It told exact, uncharged scores on the clients' own records in files for everybody, without a word."""
    own = ["data.name=csv", f"data.file={table}", "data.label=y", "partition.clients=1", "public.population=1"]
    own += ["public.records=96", "public.classes=2"]
    before = os.umask(0o022)
    try:
        asked = [f"--set={one}" for one in own]
        shown = command("compare", "dp_sgd", *PLAIN, "--no-images", "--out=own", *asked, cwd=tmp_path)
        asked = ["--set=partition.clients=4"]
        known = command("compare", "dp_sgd", *PLAIN, "--no-images", "--out=digits", *asked, cwd=tmp_path)
    finally:
        os.umask(before)
    assert "private:" in shown.stdout and "private:" not in known.stdout
    for name in ("comparison.json", "comparison.md", "comparison.html"):
        modes = [stat.S_IMODE((tmp_path / folder / name).stat().st_mode) for folder in ("own", "digits")]
        assert modes == [0o600, 0o644]
    for name in ("comparison.md", "comparison.html"):
        words = [(tmp_path / folder / name).read_text() for folder in ("own", "digits")]
        assert "nobody declared public" in words[0] and "nobody declared public" not in words[1]


def test_a_hostile_name_is_a_name_everywhere(tmp_path, command):
    """Contenders are called after files that strangers send: no markup, tag, link or escape sequence is obeyed."""
    recipe = tmp_path / f"{HOSTILE.replace('/', '')}.toml"
    recipe.write_text('[mechanism]\nname = "dp_sgd"\n[partition]\nclients = 4\n')
    done = command("compare", recipe.name, *PLAIN, "--out=made", cwd=tmp_path)
    assert "\x1b[31m" not in done.stdout and "[red]x[link=" in done.stdout
    text = (tmp_path / "made" / "comparison.md").read_text()
    assert "<img" not in text and "![t](" not in text and r"!\[t\](http" in text
    assert "<img" not in (tmp_path / "made" / "comparison.html").read_text()
    page = (tmp_path / "made" / "comparison.html").read_text()
    figures = json.loads(page.split('id="figures">')[1].split("</script>")[0])
    assert "<img" not in json.dumps(figures) and "&lt;img" in json.dumps(figures)


def test_a_full_disk_leaves_the_last_comparison_whole(tmp_path, command, monkeypatch):
    """It was cut short in place."""
    asked = ("compare", "dp_sgd", *PLAIN, "--no-images", "--out=made", "--set=partition.clients=4")
    command(*asked, cwd=tmp_path)
    kept, synced = (tmp_path / "made" / "comparison.json").read_bytes(), os.fsync

    def full(file):
        if Path(f"/proc/self/fd/{file}").readlink().name == ".comparison.json.new":
            raise OSError(28, "No space left on device")
        synced(file)

    monkeypatch.setattr(os, "fsync", full)
    failed = command(*asked, cwd=tmp_path, code=2)
    assert "No space left" in failed.stderr and (tmp_path / "made" / "comparison.json").read_bytes() == kept
    assert not list(Path(tmp_path / "made").glob(".*"))


def test_a_terminal_of_80_columns_shows_every_number_whole(tmp_path, command, monkeypatch):
    """The table asked for 120 columns, so that its lines broke in the middle of numbers."""
    monkeypatch.setenv("COLUMNS", "80")
    done = command("compare", "geometric", *PLAIN[1:], "--no-images", "--out=made", cwd=tmp_path)
    table = done.stdout[done.stdout.index("client against the server") :]
    assert max(map(len, table.splitlines())) <= 80
    (panel,) = json.loads((tmp_path / "made" / "comparison.json").read_text())["panels"]
    assert len(panel["rows"]) > 1 and all(f" {100 * row['mean']:.2f} %" in table for row in panel["rows"])
