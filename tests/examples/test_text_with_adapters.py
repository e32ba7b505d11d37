"""The example of adapters runs, small."""

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.filterwarnings("ignore::sordino.errors.SordinoWarning")
def test_text_with_adapters_trains_fewer_weights_under_less_noise(capsys):
    example = runpy.run_path(str(EXAMPLES / "text_with_adapters.py"))
    example["main"](steps=2, rounds=1, rank=2, epsilon=2.0, most=60)
    came, whole, adapters = capsys.readouterr().out.splitlines()[1:4]
    assert came.startswith("as it came") and whole.startswith("whole network: 48,480 of 48,480 weights")
    assert adapters.startswith("adapters of rank 2: 2,592 of 51,072 weights")
    lengths = [float(line.split("length ")[1].split(",")[0]) for line in (whole, adapters)]
    assert lengths[0] / lengths[1] == pytest.approx((48_480 / 2_592) ** 0.5, rel=0.02)
