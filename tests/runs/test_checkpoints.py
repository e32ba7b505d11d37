"""Checkpoints between the ones that are synced: whole after a kill, passed over when power tore them."""

import numpy as np
import pytest
from tests.runs.test_folder import recipe

import sordino
from sordino.runs.client_store import ClientStore
from sordino.runs.folder import RunFolder


@pytest.fixture(autouse=True)
def _nothing_is_synced(monkeypatch):
    monkeypatch.setattr("sordino.runs.run._SYNCED", 1e9)


def stopped_in(path, round_):
    """A run that was stopped after this round; nothing was synced since it began."""

    def stop(metrics):
        if metrics["round"] == round_:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sordino.run(recipe(), out=path, watcher=stop)
    return RunFolder(path)


def test_a_run_goes_on_from_its_latest_checkpoint(tmp_path):
    folder = stopped_in(tmp_path / "run", 4)
    assert folder.load(ClientStore()).here.round_ == 3


@pytest.mark.parametrize("tear", [lambda data: b"", lambda data: data[:-1], lambda data: data[:-64] + bytes(64)])
def test_a_torn_one_is_passed_over_and_the_run_ends_with_the_same_bits(tmp_path, tear):
    folder = stopped_in(tmp_path / "run", 4)
    latest = folder.private / "latest.checkpoint"
    assert latest.exists()
    latest.write_bytes(tear(latest.read_bytes()))
    torn = folder.load(ClientStore())
    assert torn is None or torn.here.round_ < 3
    again = sordino.run(recipe(), out=folder.path, resume=True)
    whole = sordino.run(recipe(), out=tmp_path / "whole")
    assert np.array_equal(again.weights.numpy(), whole.weights.numpy())
    assert [p.numbers for p in again.document.promises] == [p.numbers for p in whole.document.promises]
    assert not latest.exists()
