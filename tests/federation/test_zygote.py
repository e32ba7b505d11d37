"""A fork of the waiting process imports nothing more: on a node there is one for every message."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from federation.test_refusals import ASKED, operator
from sordino.federation.messages import Parcel
from sordino.messages import to_bytes

pytest.importorskip("flwr")

ANSWER = f"""
import pathlib, pickle, sys
from sordino.federation.zygote import load
load(node=True)
before = set(sys.modules)
from sordino.federation.node import Node
from sordino.federation.node_folder import NodeFolder
request = pickle.loads(pathlib.Path("request").read_bytes())
assert Node(NodeFolder(pathlib.Path("node-{ASKED}"))).answer(request, 102).parts
print(*sorted(set(sys.modules) - before))
"""


def test_answering_imports_nothing_more(tmp_path: Path) -> None:
    asked = operator(tmp_path)
    parts = {"plan": asked.plan.pack(), "terms": to_bytes(asked.terms)}
    request = Parcel("contribute", "run", 1, 0, ASKED, parts).sealed(asked.identity)
    folder = asked.village.nodes[ASKED].path.parent
    (folder / "request").write_bytes(pickle.dumps(request))
    command = [sys.executable, "-c", ANSWER]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    more = [name for name in done.stdout.split() if not name.startswith("encodings.")]
    assert not more, "load these in zygote.load: each message would import them anew"
