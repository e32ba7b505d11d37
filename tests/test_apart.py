"""Processes of their own end with whoever started them."""

from __future__ import annotations

import subprocess
import sys

PARENT = """
import time
from sordino.apart import live_with_parent, processes

if __name__ == "__main__":
    with processes(1, live_with_parent) as pool:
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


INTERRUPTED = """
import time
from sordino.apart import live_with_parent, processes

if __name__ == "__main__":
    with processes(2, live_with_parent) as pool:
        print(pool.submit(divmod, 17, 5).result(), flush=True)
        for _ in range(9):
            pool.submit(time.sleep, 600)
        raise KeyboardInterrupt
"""


def test_leaving_by_an_exception_ends_what_is_running_and_what_waits(tmp_path):
    script = tmp_path / "parent.py"
    script.write_text(INTERRUPTED)
    ended = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=600)
    assert ended.stdout == "(3, 2)\n"
    assert "KeyboardInterrupt" in ended.stderr
