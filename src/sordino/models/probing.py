"""A model run on made-up records: what a record's answer, or gradient, depends on besides it and the weights."""

from __future__ import annotations

import copy
from contextlib import suppress

import torch
from torch import Tensor, nn

from sordino.errors import ModelError
from sordino.models.outputs import scores

_TOLERANCE = 1e-4
_SIZES = (1e2, 1e4, 1e6)
"""How much larger other records may be than made-up ones: a model may keep something of such records alone."""


def copied(module: nn.Module) -> nn.Module:
    """Returns a copy of a model.

    Raises:
        ModelError: it cannot be copied.
    """
    try:
        return copy.deepcopy(module)
    except Exception as error:  # whatever the user's own code raises
        raise ModelError(
            f"the model cannot be copied ({error}): keep no computed tensors in it; of torch.nn.utils.weight_norm and "
            "spectral_norm, use those in torch.nn.utils.parametrizations"
        ) from error


def probe(module: nn.Module, x: Tensor) -> None:
    """Raises a ModelError unless each record's answer and gradient follow from that record and the weights alone.

    **Formal guarantees**: none for models that mean to deceive; what a layer keeps of records, or mixes of a batch, is
    found where it reaches an answer, or the gradient of one (a part that is taken off again by `detach` reaches the
    gradient alone).
    """
    trained = [name for name, parameter in module.named_parameters() if parameter.requires_grad]
    pristine = copied(module)
    _probe_answers(module.requires_grad_(False), x)
    alone, after, among = (
        _slopes(copied(pristine), trained, *seen) for seen in ((x[1:2], x[:1]), (x[2:3], x[:1]), (x[2:3], x))
    )
    if not _close(after, alone):
        raise ModelError(
            "a record's gradient depends on records that the model saw before: remove the layer that keeps them."
        )
    if not _close(among, after):
        raise ModelError("a record's gradient depends on the others in its batch: remove the layer that mixes them.")
    _probe_elsewhere(pristine, trained, x)


def _slopes(module: nn.Module, trained: list[str], before: Tensor, batch: Tensor) -> Tensor:
    """Returns the gradient of the first record's answer, of a model that has seen `before`."""
    weights = [parameter for name, parameter in module.named_parameters() if name in trained]
    _forward(module, before)
    answer = scores(module(batch))[0].flatten()
    told = (answer * torch.linspace(1, 2, len(answer), dtype=answer.dtype)).sum()
    if not told.requires_grad:
        return torch.zeros(1)
    try:
        found = torch.autograd.grad(told, weights, allow_unused=True)
    except RuntimeError as error:
        raise ModelError(f"the model's answers have no gradient: {error}") from error
    return torch.cat([torch.zeros(1), *(slope.flatten() for slope in found if slope is not None)])


def _probe_answers(module: nn.Module, x: Tensor) -> None:
    fresh = copy.deepcopy(module)
    state = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    before = {name: held.clone() for name, held in state.items()}
    together = _forward(module, x)
    for name, held in (*module.named_parameters(), *module.named_buffers()):
        if not torch.equal(held, before[name]):
            kind = "weight" if isinstance(held, nn.Parameter) else "buffer"
            raise ModelError(f"{kind} {name!r} changes in the forward pass: clients would share it; remove its layer.")
    if together.dim() < 2 or len(together) != len(x):
        raise ModelError(
            f"the model turns {len(x)} records into an output of shape {tuple(together.shape)}: "
            f"it must be [{len(x)}, outputs]."
        )
    if together.isnan().any() or not together.isfinite().any():
        raise ModelError(
            "the model's answer to made-up records (standard normal, or between 0 and 1) is not a number, so it cannot "
            "be checked: let it take any input, for instance by a clamp before a logarithm or a root."
        )
    if not _close(_forward(module, x), together):
        raise ModelError("the model gives another answer each time: remove the layer that draws random numbers.")
    if not _close(torch.cat([_forward(module, record[None]) for record in x]), together):
        raise ModelError("the model's answer for a record depends on the others in its batch: remove that layer.")
    _forward(fresh, x[1:])  # what a layer keeps of the first records that it meets, outside of weights and buffers
    if not _close(_forward(fresh, x), together):
        raise ModelError("the model's answer depends on records that it saw before: remove the layer that keeps them.")


def _probe_elsewhere(module: nn.Module, trained: list[str], x: Tensor) -> None:
    """Refuses a model that keeps something outside of itself: what one copy saw changes what another says.

    What a model keeps in itself is put back before every pass (`train/stateless.py`); here it is lost with its copy.
    """

    def said() -> tuple[Tensor, Tensor]:
        return _forward(copied(module), x), _slopes(copied(module), trained, x[:1], x[1:2])

    before, other = said(), copied(module)
    for size in _SIZES if x.is_floating_point() else ():
        with suppress(ModelError):  # it need not accept such records
            _slopes(other, trained, x * size, x * size)
    if not all(_close(*pair) for pair in zip(said(), before, strict=True)):
        raise ModelError(
            "the model's answer depends on larger records that another copy of it saw before: it keeps something "
            "outside of itself (in a global variable, a class, a default argument, a closure); keep nothing there."
        )


def _forward(module: nn.Module, x: Tensor) -> Tensor:
    try:
        return scores(module(x)).detach()
    except ModelError:
        raise
    except Exception as error:  # whatever the user's own code raises
        reason = str(error) if isinstance(error, RuntimeError | ValueError | IndexError) else repr(error)
        if isinstance(error, TypeError) and "positional argument" in str(error):
            reason += ": it is given one tensor of records; join several inputs into one, and take it apart in forward"
        shape, hint = tuple(x.shape[1:]), "" if x.dim() > 1 else "; where a record is one number, give x[:, None]"
        raise ModelError(f"the model does not accept records of shape {shape}: {reason}{hint}") from error


def _close(left: Tensor, right: Tensor) -> bool:
    """Returns whether two answers are the same up to rounding, which grows with the size of the answers."""
    if left.shape != right.shape:
        return False
    size = max(1.0, float(right.nan_to_num(0.0, 0.0, 0.0).abs().max()))
    return torch.allclose(left / size, right / size, rtol=_TOLERANCE, atol=_TOLERANCE, equal_nan=True)
