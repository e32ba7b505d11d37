"""Every experiment by its id, paper by paper; the readings of a table or figure follow it."""

from __future__ import annotations

from papers import (
    a_dpfl,
    a_dpfl_readings,
    a_dpfl_refusal,
    baek,
    baek_protocol,
    baek_readings,
    claims,
    fed_cad,
    fed_cad_learning,
    fed_cad_readings,
    recorded,
    xue,
    xue_checks,
    xue_learning,
    xue_readings,
    xue_study,
    yuan,
    yuan_checks,
    yuan_curves,
    yuan_online,
    yuan_others,
    yuan_readings,
)
from papers.cited import PAPERS
from papers.experiment import Experiment

_ALL: tuple[Experiment, ...] = (
    *baek.EXPERIMENTS,
    *baek_readings.EXPERIMENTS,
    *baek_protocol.EXPERIMENTS,
    *xue.EXPERIMENTS,
    *xue_study.EXPERIMENTS,
    *xue_learning.EXPERIMENTS,
    *xue_readings.EXPERIMENTS,
    *xue_checks.EXPERIMENTS,
    *a_dpfl.EXPERIMENTS,
    *a_dpfl_readings.EXPERIMENTS,
    *a_dpfl_refusal.EXPERIMENTS,
    *fed_cad.EXPERIMENTS,
    *fed_cad_learning.EXPERIMENTS,
    *fed_cad_readings.EXPERIMENTS,
    *yuan.EXPERIMENTS,
    *yuan_online.EXPERIMENTS,
    *yuan_others.EXPERIMENTS,
    *yuan_readings.EXPERIMENTS,
    *yuan_curves.EXPERIMENTS,
    *yuan_checks.EXPERIMENTS,
    *recorded.EXPERIMENTS,
    *claims.EXPERIMENTS,
)
_PLAIN = [one for one in _ALL if not one.id.endswith("-readings")]
EXPERIMENTS = {
    one.id: one
    for paper in PAPERS
    for plain in _PLAIN
    if plain.paper == paper
    for one in _ALL
    if one.id in (plain.id, f"{plain.id}-readings")
}
