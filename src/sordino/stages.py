"""What each stage of a round hands to the next: `Update → Bounded → Shielded → Summed → Released`.

Every type is made by exactly one kind of part, so that a step cannot be skipped unnoticed: only a bounder makes a
`Bounded`, only a perturber makes a `Shielded` or a `Released`, and adapters accept nothing earlier than a `Released`.
Rows are clients: `[clients, parameters]`; on a real client the same part gets one row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import Tensor

from sordino.types import IntArray


@dataclass(frozen=True)
class Trace:
    """What the last local steps left behind, for mechanisms that predict a step (component_adaptive).

    All tensors are `[clients, parameters]`. `before` is w_{K-1}; `gradient` is g_{K-1} and `last_gradient` g_K, the
    gradients of the last two steps; `state` is the optimiser's state *before* the last step, by name.
    """

    before: Tensor
    gradient: Tensor
    last_gradient: Tensor
    state: Mapping[str, Tensor] = field(default_factory=dict)
    steps: int = 0


@dataclass(frozen=True)
class Update:
    """Raw local updates u = w_K − w_0. Private: nothing derived from it may leave the client unshielded."""

    clients: IntArray
    rows: Tensor
    sizes: IntArray
    trace: Trace | None = None
    example_clip: float | None = None
    """Set when a row is a sum of per-example vectors, each of at most this L2 norm (record unit)."""
    client_clip: float | None = None
    """Set when `rows` is one row, the sum of all clients' updates, each clipped to this L2 norm."""
    norms: Tensor | None = None
    """Norms of the clients' updates before they were clipped and summed, beside `client_clip`."""
    noise_multiplier: float | None = None
    """Set when every local step was noised: standard deviation over `example_clip` (local DP-SGD)."""
    side: Mapping[str, Tensor] = field(default_factory=dict)
    """Further private columns by name, `[clients, width]`, that the perturber has to noise."""


@dataclass(frozen=True)
class Bounded:
    """Contributions whose norm is bounded by construction."""

    clients: IntArray
    rows: Tensor
    """Bounded contributions, already multiplied by `weights`."""
    weights: Tensor
    """How much each client counts, at most 1 in certified mechanisms."""
    clipped: Tensor
    """Which rows the bound changed (private: simulation metrics only, unless noised and charged)."""
    spread: Tensor | None = None
    """Noise scale of each entry, where a faithful mechanism derives it from private data (and so proves nothing)."""
    notes: Mapping[str, Tensor] = field(default_factory=dict)
    """Private numbers that a simulation may record on request (`run.notes`), never used by another part."""
    side: Mapping[str, Tensor] = field(default_factory=dict)
    """Further bounded columns by name, `[clients, width]`, that the perturber has to noise."""
    clipped_within: bool = False
    """Whether what a row was made of had been clipped in training, which `clipped` does not count."""


@dataclass(frozen=True)
class Shielded:
    """Messages as they leave the clients: with the client's share of noise, if the mechanism has one."""

    clients: IntArray
    rows: Tensor
    """One row a client; or, where only their sum is ever used, a single row for all of them."""
    weights: Tensor
    side: Mapping[str, Tensor] = field(default_factory=dict)
    """Further columns that ride along by name, `[clients, width]` (a bit, a count)."""
    kept: Tensor | None = None
    """The noise share, which the client keeps to itself until it is thinned (distributed trust)."""


@dataclass(frozen=True)
class Summed:
    """The sum of the survivors' messages (and side sums, by name, that ride along)."""

    total: Tensor
    survivors: IntArray
    weight: float
    """What the total is divided by: a public constant in every certified mechanism."""
    side: Mapping[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class Released:
    """What the world may see: the noisy mean update, and side releases by name."""

    mean: Tensor
    stddev: float
    """Noise standard deviation on each coordinate of `mean` (root mean square where coordinates differ)."""
    side: Mapping[str, Tensor] = field(default_factory=dict)
