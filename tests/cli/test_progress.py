"""Progress where no bar can be drawn."""

from types import SimpleNamespace

import pytest

from sordino.runs import progress


@pytest.mark.parametrize(("quiet", "told"), [(False, "rounds 2 of 1,000\nlosses 5 of 1,000\n"), (True, "")])
def test_a_log_has_a_line_now_and_then(quiet, told, monkeypatch, capsys):
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: clock.now))
    with progress.Bar(quiet) as bar:
        for second, done, words in ((1, 1, None), (31, 2, None), (32, 3, None), (60, 4, None), (62, 5, "losses")):
            clock.now = float(second)
            bar.show(done, 1000, words)
    assert capsys.readouterr().err == told
