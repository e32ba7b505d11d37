"""Whether a fast engine's gradients are those of plain autograd, at every place: tried on made-up records."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from sordino.errors import ModelError
from sordino.layout import Layout
from sordino.models.losses import Loss
from sordino.train.alike import TRIED, answers_alike, batch_alike, clients_alike
from sordino.train.gradients import Gradients
from sordino.train.looped import LoopedGradients

_TOLERANCE = 2e-3
_FAR = 1e30


def disagreement(fast: Gradients, model: nn.Module, loss: Loss, record: Tensor) -> str:
    """Returns in what an engine differs from plain autograd on two made-up records; empty where it does not.

    A norm that is too small would break the bound on a record, so a model that an engine does not see through (hooks,
    patched methods, weights in unusual places) is left to the loop. So is one where the library's last digits follow a
    record's place in its batch: a record that comes or goes would change what all the others contribute.
    """
    plain, layout = LoopedGradients(model, loss), Layout.of(model)
    trained = {name: p.detach() for name, p in model.named_parameters() if p.requires_grad}
    start = layout.flatten(trained)
    # moved a little: behind a last layer of zeros no gradient of the others could be compared
    moved = torch.randn(len(start), generator=torch.Generator().manual_seed(0)) / 10
    row = (start + moved.to(start))[None]
    x = torch.stack([record, record.flip(-1) if record.dim() else record])[None]
    mask = row.new_ones(1, 2)
    outputs = plain.outputs(row, x).detach()
    y = next((y for y in _targets(outputs) if _taken(loss, outputs, y)), None)
    if y is None:
        return "no targets of its loss are known"
    try:
        wanted = (*plain.clipped_examples(row, x, y, mask, _FAR), plain.gradients(row, x, y, mask))
    except RuntimeError as error:
        reason = str(error).strip().partition("\n")[0][:160]
        raise ModelError(f"the model's gradient cannot be computed ({reason}): change that layer.") from None
    try:
        sums, norms = fast.clipped_examples(row, x, y, mask, _FAR)
        found = (sums, _rounded_down(norms, wanted[1], trained), fast.gradients(row, x, y, mask))
    except Exception as error:  # whatever an engine raises where it meets something new
        return f"raised {type(error).__name__}"
    names = ("sums of gradients", "norms of gradients", "gradients of clients")
    differs = next((name for name, *pair in zip(names, found, wanted, strict=True) if _far(*pair)), "")
    with _one_thread():
        same = not differs and _alike(fast, row[0], x[0], y[0])
    return differs or ("" if same else "last digits, which follow a record's place")


def _rounded_down(norms: Tensor, wanted: Tensor, trained: Mapping[str, Tensor]) -> Tensor:
    """Returns norms without what engines add to be safe: about 2⁻²⁴ of them for each number that a layer adds up.

    That is 0.3 % where a layer has 50,000 inputs. A norm may be too large by so much (the record is clipped a little
    more), and too small by nothing of it.
    """
    most = max((math.prod(p.shape[1:]) for p in trained.values()), default=0)
    return norms - (norms - wanted).clamp(min=0).minimum(wanted * most * 2**-23)


def _alike(fast: Gradients, row: Tensor, x: Tensor, y: Tensor) -> bool:
    """Returns whether the first of two records is computed alike wherever it stands."""
    many = torch.arange(max(TRIED), device=x.device).clamp_max(1)
    gradients = all(batch_alike(fast, row, x[many], y[many], own, TRIED) for own in (False, True))
    return gradients and clients_alike(fast, row, x[many], y[many]) and answers_alike(fast, row, x[many])


@contextmanager
def _one_thread() -> Iterator[None]:
    """Computes as clients are trained: several threads cut a product by how many rows there are."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _targets(outputs: Tensor) -> Iterator[Tensor]:
    """Yields targets that a loss may take: a class for each record, or for each place in it, or numbers."""
    yield torch.zeros(outputs.shape[:2], dtype=torch.int64, device=outputs.device)
    yield torch.zeros(*outputs.shape[:2], *outputs.shape[3:], dtype=torch.int64, device=outputs.device)
    yield torch.zeros_like(outputs)


def _taken(loss: Loss, outputs: Tensor, y: Tensor) -> bool:
    try:
        return len(loss(outputs.flatten(0, 1), y.flatten(0, 1))) == outputs.shape[1]
    except (RuntimeError, ValueError, IndexError, TypeError):
        return False


def _far(found: Tensor, wanted: Tensor) -> bool:
    size = float(wanted.double().norm())
    return not float((found.double() - wanted.double()).norm()) <= _TOLERANCE * size + 1e-9
