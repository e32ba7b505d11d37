"""Numbers beyond all bounds, and files that no run wrote: one sentence, exit code 2, no traceback."""

import pytest

from sordino.errors import StorageError
from sordino.runs.checkpoint import about

DEEP = "[" * 100_000


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            ("account", "--noise-multiplier", "1e300", "--sampling-rate", "0.1", "--rounds", "9", "--delta", "1e-5"),
            "too large",
        ),
        (
            ("account", "--noise-multiplier", "1e-320", "--sampling-rate", "0.1", "--rounds", "9", "--delta", "1e-5"),
            "too small",
        ),
        (("plan", "--cohort", "10", "--rounds", "9" * 400, "--epsilon", "1"), "too large"),
        (
            ("advise", "--clients", "9", "--records", "99", "--features", "9", "--epsilon", "1", "--delta", "1e-320"),
            "delta",
        ),
        (("run", "--set", "ledger.federation=\udcff"), "not valid text"),
    ],
)
def test_numbers_and_texts_beyond_all_bounds_are_a_sentence(command, arguments, says, tmp_path):
    done = command(*arguments, cwd=tmp_path, code=2)
    assert says in done.stderr and done.stderr.count("\n") == 1 and not list(tmp_path.iterdir())


@pytest.mark.parametrize("text", [DEEP, "null", "[1]"])
@pytest.mark.parametrize(
    ("file", "arguments"),
    [
        ("private/run.json", ("run", "--out", "run", "--resume")),
        ("private/run.json", ("ledger", "run")),
        ("private/certificate.json", ("ledger", "run")),
        ("public/certificate.json", ("certificate", "run")),
    ],
)
def test_files_that_no_run_wrote_are_a_sentence(command, file, arguments, text, tmp_path):
    (tmp_path / "run" / file).parent.mkdir(parents=True)
    (tmp_path / "run" / file).write_text(text)
    done = command(*arguments, cwd=tmp_path, code=2)
    assert done.stderr.startswith("sordino:") and done.stderr.count("\n") == 1


@pytest.mark.parametrize("data", [b"", b"\0\xff", DEEP.encode(), b"\x04" + b"\0" * 7 + b"null"])
def test_a_damaged_checkpoint_is_named(data):
    with pytest.raises(StorageError, match="safetensors is damaged"):
        about(data)
