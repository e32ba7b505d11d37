"""Without Flower (`pip install 'sordino[flower]'`, which `make setup` does) there is nothing to collect here."""

from __future__ import annotations

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("flwr") else ["test_*.py"]
