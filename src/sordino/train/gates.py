"""GRU and LSTM through time, by hand: forward, backward, and the errors at the gates that per-example gradients need.

Sequences are `[records, time, features]`. Weights are constants here: their gradients follow from what the gates were
given (x and the states before each step) and from the errors at the gates, as for two linear layers over time.

**Reference**: Cho et al. (2014); Hochreiter, Schmidhuber (1997); gates in PyTorch's order.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from sordino.products import THIN, linear, plus, times

Dims = tuple[int | None, ...]


class _Cell(Function):
    """`vmap` over records hands them to the loop over time all at once."""

    @staticmethod
    def vmap(info: Any, in_dims: Dims, *inputs: Any) -> tuple[Any, Any]:
        raise NotImplementedError

    @classmethod
    def batched(cls, size: int, in_dims: Dims, inputs: tuple[Any, ...], constants: int) -> tuple[Any, Any]:
        """Calls the cell on records `[size, 1, …]` that `vmap` shows one by one; the first inputs are constants."""
        if any(dim is not None for dim in in_dims[:constants]):
            raise NotImplementedError("records that share their weights only")
        merged = [
            each.unsqueeze(0).expand(size, *each.shape) if dim is None else each.movedim(dim, 0)
            for each, dim in zip(inputs[constants:], in_dims[constants:], strict=True)
        ]
        found = cls.apply(*inputs[:constants], *(each.flatten(0, 1) for each in merged))
        return tuple(each.unflatten(0, (size, -1)) for each in found), (0,) * len(found)


class Gru(_Cell):
    """h ← (1 − z)·n + z·h, with r, z = σ(W x + U h) and n = tanh(W x + r·(U h)).

    Takes (W, U, b, c, x, h₀, zeros, zeros) and returns all states, and, without gradients, the states before each step
    and the gates. The zeros `[records, time, 3·hidden]` stand for the two sums at the gates, whose errors their
    gradients are.
    """

    @staticmethod
    def forward(
        w: Tensor, u: Tensor, b: Tensor | None, c: Tensor | None, x: Tensor, start: Tensor, *zeros: Tensor
    ) -> tuple[Tensor, ...]:
        records, steps, hidden = x.shape[0], x.shape[1], u.shape[1]
        given = linear(x.transpose(0, 1), w, b)
        states, gates = x.new_empty(steps + 1, records, hidden), x.new_empty(steps, records, 4 * hidden)
        states[0] = start
        transposed, constant = u.mT, x.new_zeros(len(u)) if c is None else c
        for t in range(steps):
            own = plus(constant, states[t], transposed)
            gate = gates[t]
            torch.add(given[t, :, : 2 * hidden], own[:, : 2 * hidden], out=gate[:, : 2 * hidden]).sigmoid_()
            r, z, n = gate[:, :hidden], gate[:, hidden : 2 * hidden], gate[:, 2 * hidden : 3 * hidden]
            gate[:, 3 * hidden :] = own[:, 2 * hidden :]
            torch.addcmul(given[t, :, 2 * hidden :], r, own[:, 2 * hidden :], out=n).tanh_()
            torch.lerp(n, states[t], z, out=states[t + 1])
        return states[1:].transpose(0, 1), states[:-1].transpose(0, 1), gates.transpose(0, 1)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.mark_non_differentiable(*output[1:])
        ctx.save_for_backward(inputs[0], inputs[1], *output[1:])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, error: Tensor | None, *_: Tensor | None) -> tuple[Tensor | None, ...]:
        if error is None:
            return (None,) * 8
        w, u, before, gates = ctx.saved_tensors
        before, gates, error = before.transpose(0, 1), gates.transpose(0, 1), error.transpose(0, 1)
        r, z, n, own = gates.chunk(4, 2)
        keep = 1 - z
        by_n, by_z, by_r = keep * (1 - n.square()), (before - n) * z * keep, own * r * (1 - r)
        steps, records, hidden = before.shape
        inner, outer = error.new_empty(steps, records, 3 * hidden), error.new_empty(steps, records, 3 * hidden)
        back = torch.zeros_like(error[0])
        for t in range(steps - 1, -1, -1):
            back = back + error[t]
            at_n = torch.mul(back, by_n[t], out=outer[t, :, 2 * hidden :])
            torch.mul(at_n, by_r[t], out=inner[t, :, :hidden])
            torch.mul(back, by_z[t], out=inner[t, :, hidden : 2 * hidden])
            torch.mul(at_n, r[t], out=inner[t, :, 2 * hidden :])
            back = plus(back.mul_(z[t]), inner[t], u)
        outer[..., : 2 * hidden] = inner[..., : 2 * hidden]
        outer, inner = outer.transpose(0, 1), inner.transpose(0, 1)
        return None, None, None, None, times(outer, w), back, outer, inner

    @staticmethod
    def vmap(info: Any, in_dims: Dims, *inputs: Any) -> tuple[Any, Any]:
        return Gru.batched(info.batch_size, in_dims, inputs, 4)


class Lstm(_Cell):
    """c ← f·c + i·g and h ← o·tanh c, with i, f, o = σ(W x + U h) and g = tanh(W x + U h).

    Takes (W, U, b, c, x, h₀, c₀, zeros) and returns all states h and the last c, and, without gradients, the states h
    before each step, all c, and the gates. The zeros `[records, time, 4·hidden]` stand for the sums at the gates.
    """

    @staticmethod
    def forward(
        w: Tensor, u: Tensor, b: Tensor | None, c: Tensor | None, x: Tensor, start: Tensor, cell: Tensor, *zeros: Tensor
    ) -> tuple[Tensor, ...]:
        records, steps, hidden = x.shape[0], x.shape[1], u.shape[1]
        given = linear(x.transpose(0, 1), w, b if c is None or b is None else b + c)
        states, cells = x.new_empty(2, steps + 1, records, hidden)
        states[0], cells[0] = start, cell
        transposed, roomy = u.mT, hidden >= THIN
        for t in range(steps):
            gate = (
                given[t].addmm_(states[t], transposed)
                if roomy
                else given[t].copy_(plus(given[t], states[t], transposed))
            )
            gate[:, : 2 * hidden].sigmoid_()
            gate[:, 2 * hidden : 3 * hidden].tanh_()
            gate[:, 3 * hidden :].sigmoid_()
            i, f, g, o = gate.chunk(4, 1)
            torch.addcmul(f * cells[t], i, g, out=cells[t + 1])
            torch.mul(o, cells[t + 1].tanh(), out=states[t + 1])
        # copies, as no output may be a view of another
        last = cells[-1].clone()
        return (
            states[1:].transpose(0, 1),
            last,
            states[:-1].transpose(0, 1),
            cells.transpose(0, 1),
            given.transpose(0, 1),
        )

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.mark_non_differentiable(*output[2:])
        ctx.save_for_backward(inputs[0], inputs[1], *output[3:])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, error: Tensor | None, last: Tensor | None, *_: Tensor | None) -> tuple[Tensor | None, ...]:
        w, u, cells, gates = ctx.saved_tensors
        cells, gates = cells.transpose(0, 1), gates.transpose(0, 1)
        i, f, g, o = gates.chunk(4, 2)
        squashed = cells[1:].tanh()
        by_c, by_o = o * (1 - squashed.square()), squashed * o * (1 - o)
        slopes = torch.cat([g * i * (1 - i), cells[:-1] * f * (1 - f), i * (1 - g.square())], 2)
        errors = torch.empty_like(gates)
        hidden = u.shape[1]
        back, memory = torch.zeros_like(cells[0]), torch.zeros_like(cells[0]) if last is None else last
        for t in range(len(gates) - 1, -1, -1):
            back = back if error is None else back + error[:, t]
            memory = torch.addcmul(memory, back, by_c[t])
            torch.mul(memory.repeat(1, 3), slopes[t], out=errors[t, :, : 3 * hidden])
            torch.mul(back, by_o[t], out=errors[t, :, 3 * hidden :])
            memory, back = memory * f[t], times(errors[t], u)
        errors = errors.transpose(0, 1)
        return None, None, None, None, times(errors, w), back, memory, errors

    @staticmethod
    def vmap(info: Any, in_dims: Dims, *inputs: Any) -> tuple[Any, Any]:
        return Lstm.batched(info.batch_size, in_dims, inputs, 4)
