"""Mechanisms that a paper compares itself with and that are nothing else here: registered when they are played."""

from __future__ import annotations

from multiprocessing import parent_process

import sordino
from papers.rivals import adap_dp_fl, cl_fl, dp_dyns, fed_alpha_cdp, private_dl

SPECS = (adap_dp_fl.SPEC, private_dl.SPEC, dp_dyns.SPEC, fed_alpha_cdp.SPEC, cl_fl.SPEC)


def admit() -> None:
    """Registers all of them, as any program registers its own mechanisms."""
    for spec in SPECS:
        sordino.register(spec)


if parent_process() is not None:  # a process that plays one run: its recipe brings this module with it
    admit()
