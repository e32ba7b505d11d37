"""The README's Python runs as printed, and is short; the public names are true."""

import re
from pathlib import Path

import sordino

README = Path(__file__).parents[1] / "README.md"


def test_the_readmes_code_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text(), re.S)
    assert len([line for line in code.splitlines() if line.strip()]) <= 15
    names: dict[str, object] = {}
    exec(code, names)
    assert names["outcome"].accuracy > 0.75
    assert names["outcome"].certificate.entry("client", "outsider").epsilon <= 2.0


def test_no_module_takes_the_place_of_a_public_name():
    for module in sorted((Path(sordino.__file__).parent).glob("*.py")):
        assert module.stem not in sordino.__all__
