"""Mechanisms: one small file each, a composition of parts."""

from sordino.mechanisms import (
    a_dpfl,
    component_adaptive,
    dp_fedavg,
    dp_fedavg_adaptive,
    dp_sgd,
    dropout_robust,
    fed_cad,
    fed_ldp,
    fedavg,
    geometric,
    laplace,
)
from sordino.mechanisms.facts import Entry

MECHANISMS: dict[str, Entry] = {
    "fedavg": fedavg.ENTRY,
    "fed_ldp": fed_ldp.ENTRY,
    "laplace": laplace.ENTRY,
    "dp_fedavg": dp_fedavg.ENTRY,
    "dp_fedavg_adaptive": dp_fedavg_adaptive.ENTRY,
    "dp_sgd": dp_sgd.ENTRY,
    "component_adaptive": component_adaptive.ENTRY,
    "dropout_robust": dropout_robust.ENTRY,
    "a_dpfl": a_dpfl.ENTRY,
    "fed_cad": fed_cad.ENTRY,
    "geometric": geometric.ENTRY,
}
"""Every mechanism by name."""
