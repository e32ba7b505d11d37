"""A run's folder that was copied: two that go on would spend one budget twice."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import sordino
from sordino.errors import RecipeError


def begun(folder: Path, entropy: bool) -> Path:
    """Returns the folder of a run that was killed after its first round."""

    class Killed(Exception):
        pass

    def kill(metrics: object) -> None:
        raise Killed

    settings = {"mechanism": {"name": "dp_fedavg"}, "partition": {"clients": 20}}
    with pytest.raises(Killed):
        sordino.run(
            sordino.Recipe.from_dict(settings | {"run": {"rounds": 2, "entropy": entropy}}),
            out=folder / "original",
            watcher=kill,
            progress=False,
        )
    return folder / "original"


def test_a_copy_does_not_go_on_beside_the_original(tmp_path: Path) -> None:
    original, copy = begun(tmp_path, entropy=True), tmp_path / "copy"
    shutil.copytree(original, copy)
    with pytest.raises(RecipeError, match="is a copy of the folder"):
        sordino.run(out=copy, resume=True, progress=False)
    renamed = original.rename(tmp_path / "renamed")
    assert sordino.run(out=renamed, resume=True, progress=False).rounds
    facts = json.loads((copy / "private" / "run.json").read_text())
    del facts["place"]  # as the sentence says, where the original is gone
    (copy / "private" / "run.json").write_text(json.dumps(facts))
    assert sordino.run(out=copy, resume=True, progress=False).rounds


def test_copies_of_a_seeded_run_release_the_same_bits(tmp_path: Path) -> None:
    original, copy = begun(tmp_path, entropy=False), tmp_path / "copy"
    shutil.copytree(original, copy)
    models = [sordino.run(out=one, resume=True, progress=False).weights for one in (original, copy)]
    assert models[0].equal(models[1])
