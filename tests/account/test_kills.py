"""200 SIGKILLs at random moments: the ledger never shows less than was released, stays whole, and every run resumes."""

import json
import subprocess
import sys
from pathlib import Path


def test_two_hundred_kills_lose_nothing(tmp_path):
    program = Path(__file__).with_name("releasing.py")
    done = subprocess.run(
        [sys.executable, str(program), str(tmp_path), "200", "0"],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    print(report)
    assert report.pop("kills") == 200
    assert report.pop("releases") > 200
    assert report == {"losses": 0, "corrupt": 0, "unresumed": 0, "overcharged": 0}
