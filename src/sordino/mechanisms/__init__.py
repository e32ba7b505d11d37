"""Mechanisms: one small file each, a composition of parts, with everything that belongs to it."""

from sordino.mechanisms import (
    a_dpfl,
    auto,
    banded,
    component_adaptive,
    distributed_gaussian,
    dp_fedavg,
    dp_fedavg_adaptive,
    dp_sgd,
    dropout_robust,
    fed_cad,
    fed_ldp,
    fedavg,
    geometric,
    laplace,
    local_dp_sgd,
)
from sordino.mechanisms.registry import MECHANISMS

for _mechanism in (
    fedavg,
    fed_ldp,
    laplace,
    dp_fedavg,
    dp_fedavg_adaptive,
    banded,
    dp_sgd,
    local_dp_sgd,
    distributed_gaussian,
    component_adaptive,
    dropout_robust,
    a_dpfl,
    fed_cad,
    geometric,
    auto,
):
    MECHANISMS.register(_mechanism.SPEC)

__all__ = ["MECHANISMS"]
