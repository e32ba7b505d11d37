"""What cannot be trained per client or per example, named by layer, with what to use instead."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd
from torch.nn.modules.instancenorm import _InstanceNorm

from sordino.errors import ModelError, SordinoWarning
from sordino.models.outputs import scores
from sordino.models.probing import copied, probe

_PROBES = 3


def check(
    module: nn.Module, input_shape: Sequence[int] | None = None, input_dtype: torch.dtype = torch.float32
) -> None:
    """Raises a ModelError unless every example's loss depends on that example and the weights alone.

    Per-example and per-client gradients are meaningless otherwise, and so is a bound on them. With `input_shape`, a
    copy of the model is also run on made-up records, which finds the same faults in layers not known by name.

    **Formal guarantees**: the module and PyTorch's global generator are left as they were; no private data is used.

    **Edge cases**: weights shared between layers are fine (they are one component); frozen weights too (they are not
    trained). `nn.Dropout` is fine too: its draws are keyed (`train/dropout.py`). Other layers that draw from the global
    generator are refused, as a run could not be repeated.
    """
    for name, layer in module.named_modules():
        complaint = _complaint(layer)
        if complaint:
            raise ModelError(f"layer {name or '(the model)'!r} is {type(layer).__name__}: {complaint}")
    _check_weights(module)
    if input_shape is not None:
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.manual_seed(0)
            probed = copied(module).train()
            for layer in probed.modules():
                layer.train(type(layer) is not nn.Dropout and layer.training)
            for parameter in probed.parameters():
                # moved a little: behind a last layer of zeros every answer would be the same
                parameter.add_(torch.randn(parameter.shape) / 10)
            with torch.enable_grad():  # as in training: a layer may ask, and keep records only then
                probe(probed, made_up(module, input_shape, input_dtype))


def made_up(
    module: nn.Module, input_shape: Sequence[int], input_dtype: torch.dtype = torch.float32, count: int = _PROBES
) -> Tensor:
    """Returns records that are nobody's: standard normal, or whole numbers that the model's embeddings hold.

    **Edge cases**: where the model has no finite answer to those (it takes a logarithm, say), numbers between 0 and 1.
    Whole numbers are from as far as the model can look up: the entries of a table that every record shares (one of
    positions, of kinds) would make all records alike.
    """
    choices = list(_choices(module, (count, *input_shape), input_dtype))
    tried = copy.deepcopy(module).eval()
    return next((x for x in choices[:-1] if _answers(tried, x)), choices[-1])


def _choices(module: nn.Module, shape: Sequence[int], dtype: torch.dtype) -> Iterator[Tensor]:
    if dtype.is_floating_point:
        yield torch.randn(*shape, generator=torch.Generator().manual_seed(0))
        yield torch.rand(*shape, generator=torch.Generator().manual_seed(0))
        return
    for most in sorted({len(table) for table in _tables(module)} or {1}, reverse=True):
        yield torch.randint(0, most, tuple(shape), generator=torch.Generator().manual_seed(0))


def _answers(module: nn.Module, x: Tensor) -> bool:
    try:
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            return bool(scores(module(x)).isfinite().all())
    except Exception:  # whatever the user's own code raises; `probe` tells it
        return False


def in_memory(module: nn.Module | type[nn.Module]) -> nn.Module:
    """Returns the module where weights are kept (ordinary memory): itself, or a copy of one that is on a device."""
    if not isinstance(module, nn.Module):
        made = f"call it, model={module.__name__}()" if isinstance(module, type) else "give a torch.nn.Module"
        raise ModelError(f"model is {module!r}: {made}, or give settings of the recipe's model section.")
    if isinstance(module, (nn.DataParallel, nn.parallel.DistributedDataParallel)):
        raise ModelError(f"model is wrapped in {type(module).__name__}: give the network inside, model.module.")
    if isinstance(getattr(module, "_orig_mod", None), nn.Module) or isinstance(module, torch.jit.ScriptModule):
        raise ModelError("model is compiled, so nobody sees its layers: give it as it was before.")
    held = [*module.parameters(), *module.buffers()]
    if any(each.is_meta for each in held):
        raise ModelError("model has weights without numbers (on the meta device): call model.to_empty, and fill them.")
    return copy.deepcopy(module).cpu() if any(each.device.type != "cpu" for each in held) else module


def suited(module: nn.Module, x: Tensor) -> Tensor:
    """Returns inputs as the model takes them: whole numbers become floats where it has no embedding to look them up in.

    Raises:
        ModelError: a number is beyond every embedding of the model.
    """
    if x.is_floating_point():
        return x
    tables = _tables(module)
    if not tables:
        return x.to(torch.float32)
    most = max(map(len, tables))
    if x.numel() and not 0 <= int(x.min()) <= int(x.max()) < most:
        raise ModelError(
            f"inputs are whole numbers {int(x.min())} … {int(x.max())}, but the model's embedding holds 0 … {most - 1}"
            ": give it more entries (num_embeddings), or number the inputs from 0."
        )
    return x


def _tables(module: nn.Module) -> list[Tensor]:
    kinds = (nn.Embedding, nn.EmbeddingBag)
    return [layer.weight for layer in module.modules() if isinstance(layer, kinds)]


def check_outputs(
    module: nn.Module,
    input_shape: Sequence[int],
    classes: int,
    target_shape: Sequence[int],
    input_dtype: torch.dtype = torch.float32,
) -> None:
    """Raises a ModelError unless the model has an output for each class, or for each number that is to be predicted.

    **Edge cases**: more outputs than classes are fine: the others are never right. Shares that add up to 1 are warned
    of. No private data is used.
    """
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        records = torch.zeros(_PROBES, *input_shape, dtype=input_dtype)
        answer = scores(copy.deepcopy(module).eval()(records))
        found = tuple(answer.shape)
    each = f"the model's output has shape {found[1:]} for a record"
    if classes and (len(found) != 2 or found[1] < classes):
        raise ModelError(
            f"{each}, but there are {classes} classes, numbered from 0: give its last layer {classes} outputs, or "
            "number the labels 0, 1, … without gaps."
        )
    if classes and bool((answer >= 0).all()) and torch.allclose(answer.sum(1), torch.ones(len(answer)), atol=1e-5):
        warnings.warn(
            "the model's outputs add up to 1, as after a softmax, and the loss takes the softmax once more, which "
            "leaves little to learn from: leave the last one out",
            SordinoWarning,
            stacklevel=2,
        )
    if not classes and math.prod(found[1:]) != math.prod(target_shape):
        raise ModelError(
            f"{each}, but {math.prod(target_shape)} numbers are to be predicted: give its last layer as many outputs "
            "(labels that are classes must be integers)."
        )


def _complaint(layer: nn.Module) -> str | None:
    if isinstance(layer, _BatchNorm):
        features = getattr(layer, "num_features", 0)
        return f"it mixes examples and counts batches; use {_group_norm(features)} instead."
    if isinstance(layer, _InstanceNorm) and layer.track_running_stats:
        return "it keeps running statistics; make it with track_running_stats=False."
    idle = isinstance(layer, _DropoutNd) and (type(layer) is nn.Dropout or layer.p == 0)
    if isinstance(layer, (_DropoutNd, nn.RReLU)) and not idle:
        return "it draws from the global generator, so no run could be repeated; remove it, or use nn.Dropout."
    if isinstance(layer, (nn.Embedding, nn.EmbeddingBag)) and layer.max_norm is not None:
        return "with max_norm it shortens the rows that records look up, which would show who looked; leave it out."
    if isinstance(layer, (nn.RNNBase, nn.MultiheadAttention)) and layer.dropout:
        return "its dropout draws from the global generator, so no run could be repeated; set dropout=0."
    return None


def _group_norm(channels: int) -> str:
    return f"nn.GroupNorm({math.gcd(channels, 8)}, {channels})" if channels else "nn.GroupNorm"


def _check_weights(module: nn.Module) -> None:
    if not any(p.requires_grad for p in module.parameters()):
        raise ModelError("the model has no trainable weights: unfreeze some (requires_grad_(True)).")
    for name, parameter in module.named_parameters():
        if isinstance(parameter, nn.parameter.UninitializedParameter):
            raise ModelError(f"weight {name!r} has no shape yet: run the model on one record before training.")
        if parameter.dtype != torch.float32:
            raise ModelError(f"weight {name!r} is {parameter.dtype}: call model.float() before training.")
        if not torch.isfinite(parameter).all():
            raise ModelError(f"weight {name!r} is not finite: initialise it again.")
