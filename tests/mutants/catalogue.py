"""Every mutant, in the order of a round."""

from __future__ import annotations

from . import adapt, bound, mechanisms, perturb, rounds
from .mutant import Mutant

MUTANTS: tuple[Mutant, ...] = (*bound.MUTANTS, *perturb.MUTANTS, *adapt.MUTANTS, *mechanisms.MUTANTS, *rounds.MUTANTS)
