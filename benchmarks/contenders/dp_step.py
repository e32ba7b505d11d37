"""Takes steps of DP-SGD in a process of its own: `dp_step.py CONTENDER WORKLOAD`; a line on stdin is a turn.

Answers leave as one JSON object a line: wall-clock and processor seconds of a step, and at the end of the first the
sum's norm without noise, so that one can see that all compute the same.
"""

import json
import os
import sys
import time
from pathlib import Path

import torch
from serve import processor_seconds
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from steps import CLIP_NORM, LEARNING_RATE, NOISE_MULTIPLIER, STEPS, Step


def sordino(step: Step, option: str):
    """Ten clients, their clipped gradients in one sum, noise as in a simulation."""
    import numpy as np

    from sordino.data.client_data import ClientData
    from sordino.models.losses import cross_entropy
    from sordino.random.streams import SERVER, Streams
    from sordino.train import LocalTraining, Trainer

    model, (x, y) = step.model(), step.batch()
    trainer, streams = Trainer(model, cross_entropy, LocalTraining(), option, record=x[0]), Streams(0)
    offsets = np.linspace(0, len(x), step.clients + 1).astype(np.int64)
    state = {"w": nn.utils.parameters_to_vector(model.parameters()).detach().clone(), "round": 0}
    lent = ClientData(np.arange(step.clients), offsets, x, y)

    def take(noise: float) -> None:
        state["round"] += 1
        total, *_ = trainer.example_sum(state["w"], lent, CLIP_NORM, None, streams, state["round"])
        drawn = streams.normals("noise", state["round"], np.array([SERVER]), len(state["w"]))[0]
        mean = (total + drawn * (noise * CLIP_NORM)) / len(x)
        state["w"] = state["w"] - LEARNING_RATE * mean.to(state["w"].dtype)

    return take, lambda: state["w"]


def opacus(step: Step, option: str):
    """Opacus 1.6: `hooks` or `ghost`, with physical batches of so many records."""
    from opacus.grad_sample import GradSampleModule
    from opacus.grad_sample.grad_sample_module_fast_gradient_clipping import GradSampleModuleFastGradientClipping
    from opacus.layers import DPGRU
    from opacus.optimizers import DPOptimizer, DPOptimizerFastGradientClipping
    from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping

    kind, physical = option.split(":")
    model, (x, y) = step.model(DPGRU), step.batch()
    plain = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    settings = {"noise_multiplier": NOISE_MULTIPLIER, "max_grad_norm": CLIP_NORM, "expected_batch_size": len(x)}
    criterion = nn.CrossEntropyLoss()
    if kind == "ghost":
        wrapped = GradSampleModuleFastGradientClipping(model, max_grad_norm=CLIP_NORM, use_ghost_clipping=True)
        optimizer = DPOptimizerFastGradientClipping(plain, **settings)
        criterion = DPLossFastGradientClipping(wrapped, optimizer, criterion, "mean")
    else:
        wrapped, optimizer = GradSampleModule(model), DPOptimizer(plain, **settings)
    parts = list(zip(x.split(int(physical)), y.split(int(physical)), strict=True))

    def take(noise: float) -> None:
        optimizer.noise_multiplier = noise
        for place, (some, labels) in enumerate(parts):
            optimizer.signal_skip_step(place + 1 < len(parts))
            loss = criterion(wrapped(some), labels)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()

    return take, lambda: nn.utils.parameters_to_vector(model.parameters()).detach()


def jax_privacy(step: Step, option: str):
    """jax_privacy 2.0: `clipped_grad`, compiled, with so many records at once."""
    import jax
    from jax_networks import outputs
    from jax_privacy.clipping import clipped_grad

    model, (x, y) = step.model(), step.batch()
    state = {name: jax.numpy.asarray(p.detach().numpy()) for name, p in model.named_parameters()}
    x, y = (jax.numpy.asarray(part.numpy()) for part in (x, y))

    def loss(weights, x, y):
        scores = jax.nn.log_softmax(outputs(step.name, weights, x))
        return -jax.numpy.take_along_axis(scores, y[:, None], 1).mean()

    sums = clipped_grad(loss, l2_clip_norm=CLIP_NORM, batch_argnums=(1, 2), microbatch_size=int(option))

    @jax.jit
    def stepped(weights, key, noise):
        totals, tree = jax.tree.flatten(sums(weights, x, y))
        keys = jax.random.split(key, len(totals))
        noisy = [
            total + noise * CLIP_NORM * jax.random.normal(own, total.shape)
            for own, total in zip(keys, totals, strict=True)
        ]
        return jax.tree.map(lambda w, g: w - LEARNING_RATE * g / len(x), weights, jax.tree.unflatten(tree, noisy))

    box = {"weights": state, "key": jax.random.key(0)}

    def take(noise: float) -> None:
        box["key"], own = jax.random.split(box["key"])
        box["weights"] = jax.block_until_ready(stepped(box["weights"], own, noise))

    def flat() -> torch.Tensor:
        return torch.cat([torch.tensor(jax.device_get(box["weights"][name])).flatten() for name in sorted(state)])

    return take, flat


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever a framework prints goes to standard error
    name, workload, option = sys.argv[1:]
    take, weights = {"sordino": sordino, "opacus": opacus, "jax_privacy": jax_privacy}[name](STEPS[workload], option)
    before = weights().clone()
    take(0.0)
    print(json.dumps({"moved": float((weights() - before).norm())}), file=answers)
    count = STEPS[workload].steps
    for _ in sys.stdin:
        began, busy = time.perf_counter(), processor_seconds()
        for _ in range(count):
            take(NOISE_MULTIPLIER)
        spent = time.perf_counter() - began, processor_seconds() - busy
        print(json.dumps([seconds / count for seconds in spent]), file=answers)


if __name__ == "__main__":
    main()
