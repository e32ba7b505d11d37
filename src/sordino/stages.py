"""What each stage of a round hands to the next, and the proof that it carries along.

    client   Update → Bounded → Shielded   ···→   server   Summed → Released

Only a bounder makes a `Bounded`, only a perturber makes a `Shielded` or a `Released`, and adapters accept nothing
earlier than a `Released`. A `Bounded` states its sensitivity, noise is scaled by *that*, and a `Released` carries the
prices of the noise that was really there. Rows are clients: `[clients, parameters]`; a client on a network has one.
`Shielded` and `Revealed` are the messages that leave a client; `Update`, `Bounded` and `Kept` never do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from sordino.client_state import ClientState
from sordino.events import DpEvent, Guarantee
from sordino.types import IntArray, Unit

UNCLIPPED = "unclipped"
"""The side column that counts clients (or records) whose contribution was not clipped."""

Prices = tuple[tuple[Guarantee, DpEvent], ...]
"""What one release costs one participant, for each guarantee."""


@dataclass(frozen=True)
class Sensitivity:
    """How much one unit can contribute, in which norm, and why.

    **Formal guarantees**: the contribution of one unit has L`order` norm at most `norm`. So the sum moves by at most
    `norm` when the unit comes or goes or is zeroed out, and by at most twice that when it is replaced.
    """

    norm: float
    order: int
    unit: Unit
    why: str
    """By what argument, in words."""
    rowwise: bool = True
    """Whether each row by itself has that norm, so that the client's side can check it before anything leaves."""
    single: bool = True
    """Whether a row is one client's own, in units of the bound: noise on single messages needs that. Sums over clients,
    and rows that are multiplied by public weights, are not."""


@dataclass(frozen=True, eq=False)
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


@dataclass(frozen=True, eq=False)
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
    state: ClientState | None = None
    """What the clients remember from their last participation."""


@dataclass(frozen=True, eq=False)
class Bounded:
    """Contributions whose norm is bounded by construction, and by how much."""

    clients: IntArray
    rows: Tensor
    """Bounded contributions, already multiplied by `weights`."""
    weights: Tensor
    """How much each client counts, at most 1 in certified mechanisms."""
    clipped: Tensor
    """Which rows the bound changed (private: simulation metrics only, unless noised and charged)."""
    sensitivity: Sensitivity | None
    """What one unit can contribute; None where nothing bounds it."""
    spread: Tensor | None = None
    """Noise scale of each entry, where a faithful mechanism derives it from private data (and so proves nothing)."""
    notes: Mapping[str, Tensor] = field(default_factory=dict)
    """Private numbers that a simulation may record on request (`run.notes`), never used by another part."""
    side: Mapping[str, Tensor] = field(default_factory=dict)
    """Further bounded columns by name, `[clients, width]`, that the perturber has to noise."""
    noise_multiplier: float | None = None
    """Noise that is in the rows already, relative to the bound, where training put it there (local DP-SGD)."""
    clipped_within: bool = False
    """Whether what a row was made of had been clipped in training, which `clipped` does not count."""
    state: ClientState | None = None
    """What the clients remember from their last participation."""

    @property
    def norm(self) -> float:
        """The bound's norm, which noise is scaled by."""
        return self.stated.norm

    @property
    def stated(self) -> Sensitivity:
        """The bound, where there must be one."""
        if self.sensitivity is None:
            raise AssertionError("a mechanism whose noise needs a bound was composed with a part that makes none")
        return self.sensitivity

    def shielded(
        self, rows: Tensor, squared_multiplier: float | Tensor = 0.0, side: Mapping[str, Tensor] | None = None
    ) -> Shielded:
        """Returns the message that contributions become as these rows, and how much noise it says it carries.

        Args:
            rows: what is sent of each client; or of all of them, where only their sum is ever used.
            squared_multiplier: the variance of a client's noise over the squared norm of the bound: one number where
                all carry the same, or one for each client.
            side: further columns by name.
        """
        each = squared_multiplier
        if not isinstance(each, Tensor):
            each = torch.full((len(self.clients),), each, dtype=torch.float64)
        return Shielded(self.clients, rows, self.weights, each, self.sensitivity, side or {})


@dataclass(frozen=True, eq=False)
class Shielded:
    """Client → server: messages as they leave the clients, with the client's share of noise, if there is one."""

    clients: IntArray
    rows: Tensor
    """One row a client; or, where only their sum is ever used, a single row for all of them."""
    weights: Tensor
    squared_multipliers: Tensor
    """For each client, the variance of its noise over the squared norm of the bound: what it says it added."""
    sensitivity: Sensitivity | None = None
    side: Mapping[str, Tensor] = field(default_factory=dict)
    """Further columns that ride along by name, `[clients, width]` (a bit, a count)."""


@dataclass(frozen=True, eq=False)
class Kept:
    """What clients keep to themselves until the survivors are counted: their noise shares. Never sent."""

    clients: IntArray
    noise: Tensor
    weights: Tensor
    norm: float = 1.0
    """The bound that the noise was scaled by."""


@dataclass(frozen=True, eq=False)
class Revealed:
    """Client → server: the part of each noise share that is subtracted again, independent of what stays."""

    clients: IntArray
    rows: Tensor
    squared_multipliers: Tensor
    """For each client, how much of what `Shielded` says goes away with it."""


@dataclass(frozen=True, eq=False)
class Sent:
    """What shielding leaves: the message, what the clients keep to themselves, and what they will remember."""

    message: Shielded
    kept: Kept | None = None
    state: ClientState | None = None


@dataclass(frozen=True, eq=False)
class Summed:
    """The sum of the survivors' messages (and side sums, by name, that ride along), and the noise that is in it."""

    total: Tensor
    survivors: IntArray
    weight: float
    """What the total is divided by: a public constant in every certified mechanism."""
    squared_multiplier: float
    """Variance of the noise in the total over the squared norm of the bound, as the clients stated it."""
    least_squared_multiplier: float
    """The same for the single message that carries the least."""
    sensitivity: Sensitivity | None = None
    side: Mapping[str, Tensor] = field(default_factory=dict)

    @property
    def norm(self) -> float:
        """The bound's norm (0 where nobody sent anything, so that there is nothing to hide)."""
        return 0.0 if self.sensitivity is None else self.sensitivity.norm

    def mean(self, dtype: torch.dtype) -> Tensor:
        """Returns the sum over its weight, in this type."""
        return (self.total / self.weight).to(dtype)

    @property
    def empty(self) -> bool:
        """Whether nobody is in the sum."""
        return not len(self.survivors)


@dataclass(frozen=True, eq=False)
class Released:
    """What the world may see: the noisy mean update, and side releases by name; and what that really costs."""

    mean: Tensor
    stddev: float
    """Noise standard deviation on each coordinate of `mean` (root mean square where coordinates differ)."""
    prices: Prices
    """What this release costs one participant, from the noise that was really there."""
    side: Mapping[str, Tensor] = field(default_factory=dict)
    memory: Mapping[str, Tensor] = field(default_factory=dict)
    """What a trusted server keeps to itself for later rounds, by name. Private: never published, not even a digest."""
