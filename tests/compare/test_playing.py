"""Trials that are played in processes of their own."""

from __future__ import annotations

import subprocess
import sys

PARENT = """
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from sordino.compare.playing import live_with_parent

if __name__ == "__main__":
    with ProcessPoolExecutor(1, get_context("spawn"), live_with_parent) as pool:
        print(pool.submit(divmod, 17, 5).result(), flush=True)
        pool.submit(time.sleep, 600).result()
"""


def test_no_process_outlives_the_one_that_started_it(tmp_path):
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout.readline() == "(3, 2)\n"
        parent.kill()
        rest, _ = parent.communicate(timeout=600)  # ends when nobody can write any more: the other process is gone too
    assert rest == ""
