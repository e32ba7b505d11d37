"""What an audit publishes beside a certificate: made without the clients' records, and read by whoever shows it."""

import json
import re
import stat

import pytest

import played
from sordino.account.certificate.audit_bound import audit_bound
from sordino.audit.published_bound import publish_bound
from sordino.cli.certificate import _told
from sordino.errors import RecipeError
from sordino.report.reading import read
from sordino.runs.folder import RunFolder

SETTINGS = ("mechanism.name=fed_ldp", "budget.epsilon=2", "run.rounds=2", "run.evaluate_every=1")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return played.play(tmp_path_factory.mktemp("run") / "one", *SETTINGS).folder


@pytest.fixture(scope="module")
def bound(run):
    assert audit_bound(run) is None
    return publish_bound(RunFolder(run), 24, seed=1)


def test_it_bounds_what_is_certified_from_below(bound):
    assert bound.verdict == "consistent" and bound.certified == pytest.approx(2, abs=1e-3)
    assert 1 < bound.lower_bound < 2
    assert (bound.unit, bound.observer, bound.rounds, bound.confidence) == ("client", "server", 2, 0.95)


def test_it_is_read_back_and_everybody_may_read_it(run, bound):
    assert audit_bound(run) == bound
    assert stat.S_IMODE((run / "public" / "audit.json").stat().st_mode) == 0o644


def test_it_does_not_depend_on_the_records(run, bound, tmp_path):
    """Another deal of the data, another seed: the same file."""
    other = played.play(tmp_path / "other", *SETTINGS, "run.seed=7").folder
    assert publish_bound(RunFolder(other), 24, seed=1) == bound


def test_no_number_of_the_private_part_is_in_it(run, bound):
    told = {float(word) for word in re.findall(r"-?\d+\.\d+(?:e-?\d+)?", bound.to_json())}
    private = RunFolder(run).metrics()
    exact = {line[name] for line in private for name in ("loss", "accuracy", "clip_fraction", "noise_stddev")}
    assert exact and not told & exact


def test_certificate_and_report_tell_it_and_the_signed_document_stays(run, bound):
    before = (run / "public" / "certificate.json").read_text()
    for markdown in (False, True):
        text = " ".join(_told(run, False, markdown, False).split())
        assert f"ε ≥ {bound.lower_bound:.3g} for one client against the server" in text
    assert json.loads(_told(run, True, False, False)) == json.loads(before)
    assert read(run, public=True).facts["stated"]["audit"] == bound.words()


def test_a_run_that_the_stage_cannot_hold_publishes_nothing(run):
    assert publish_bound(RunFolder(run), 100_000, seed=1) is None


def test_a_damaged_file_is_named(run, bound):
    path = run / "public" / "audit.json"
    kept = path.read_text()
    path.write_text('{"unit": 3')
    with pytest.raises(RecipeError, match=r"audit.json is damaged: remove it"):
        audit_bound(run)
    path.write_text(kept)
