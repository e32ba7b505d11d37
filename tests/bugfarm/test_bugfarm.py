"""It catches planted bugs, and nothing in the clean code."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest
import torch
from torch import Tensor

from bugfarm import parts
from bugfarm.bugs import BUGS, CUT, Bug, clean_stage
from bugfarm.laws import LAWS, Law
from sordino.audit.attack import walk
from sordino.audit.finding import Finding
from sordino.audit.scene import Scene
from sordino.audit.whitebox import audit
from sordino.client.side import ClientSide
from sordino.client_state import ClientState
from sordino.data.client_data import ClientData
from sordino.errors import CompositionError
from sordino.events import Guarantee
from sordino.random.streams import Streams
from sordino.stages import Update
from sordino.stopwatch import Stopwatch
from sordino.terms import Terms, Turn
from sordino.train.trainer import Trainer


@cache
def audited_clean(mechanism: str, settings: tuple[str, ...], promise: Guarantee, trials: int) -> Finding:
    """Audits a stage without a bug: many bugs are planted on the same one, and it is looked at once."""
    return audit(clean_stage(mechanism, settings), promise, trials, seed=1, workers=1)


@pytest.mark.filterwarnings("ignore:invalid value encountered in cast")  # of what a bug lets through
@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_an_audit_finds_the_bug_and_not_the_clean_code(bug: Bug) -> None:
    clean = audited_clean(bug.mechanism, bug.settings, bug.promise(bug.clean()), bug.trials)
    planted = audit(bug.planted(), bug.promise(bug.planted()), bug.trials, seed=1, workers=1)
    assert planted.verdict == "violated", bug.story
    assert clean.verdict == "consistent"
    assert clean.certified is not None
    assert clean.lower_bound <= clean.certified


@dataclass(frozen=True, eq=False)
class Says:
    """Training that always comes to the same update, of clients that say they have a thousand times their records."""

    row: Tensor

    def train(self, trainer: Trainer, turn: Turn, data: ClientData) -> Update:
        return Update(data.clients, self.row.repeat(len(data.clients), 1), data.sizes * 1000)


def send(scene: Scene, row: Tensor) -> None:
    """Lets every client contribute this update in the last round."""
    clients, knobs = np.arange(scene.clients), walk(scene, 0).knobs[-1]
    side = ClientSide(replace(scene.mechanism, local=Says(row)), scene.trainer, Streams(0))
    turn = Turn(Terms(scene.rounds, torch.zeros(scene.width), knobs, clients), Streams(0))
    side.contribute(turn, scene.federation.gather(clients), ClientState.blank(len(clients)), Stopwatch())


@pytest.mark.parametrize("bug", CUT, ids=lambda bug: bug.name)
def test_noise_hides_what_a_bounder_lets_through(bug: Bug) -> None:
    planted = bug.planted()
    assert audit(planted, bug.promise(planted), bug.trials, seed=1, workers=1).verdict == "consistent", bug.story


UNBOUNDED = [
    bug
    for bug in (*BUGS, *CUT)
    if bug.part == "bounder" and "sums" not in bug.story and bug.broken is not parts.ForgetsToStayNear
]


@pytest.mark.parametrize("bug", UNBOUNDED, ids=lambda bug: bug.name)
def test_a_client_finds_the_bug_of_its_bounder_and_sends_nothing(bug: Bug) -> None:
    """All of them but updates that are not near the last one, which are no longer than they may be."""
    clean, planted, refused = bug.clean(), bug.planted(), 0
    axes = torch.eye(clean.width)
    for row in (1e3 * axes.sum(0), *(1e3 * axes), torch.where(axes[0] > 0, math.inf, axes[0])):
        send(clean, row)
        try:
            send(planted, row)
        except CompositionError as found:
            assert "nothing was sent" in str(found)
            refused += 1
    assert refused, bug.story


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)
def test_a_law_finds_the_bug_and_not_the_clean_code(law: Law) -> None:
    assert law.holds()
    assert law.found(), law.story


def test_the_farm_is_large_and_its_bugs_are_different() -> None:
    names = [bug.name for bug in (*BUGS, *CUT, *LAWS)]
    assert len(set(names)) == len(names) >= 20
