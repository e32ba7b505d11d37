"""Every experiment by its id."""

from __future__ import annotations

from papers import a_dpfl, baek, fed_cad, xue, xue_study, yuan, yuan_online, yuan_others
from papers.experiment import by_id

EXPERIMENTS = by_id(
    baek.EXPERIMENTS,
    xue.EXPERIMENTS,
    xue_study.EXPERIMENTS,
    a_dpfl.EXPERIMENTS,
    fed_cad.EXPERIMENTS,
    yuan.EXPERIMENTS,
    yuan_online.EXPERIMENTS,
    yuan_others.EXPERIMENTS,
)
