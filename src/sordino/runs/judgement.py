"""What is wrong with a model, if anything: it is not finite, or worse than guessing without looking."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from sordino.runs.context import RunContext

UNEVEN = 50.0
"""Features whose sizes differ by more than this factor are worth a warning."""


def divergence(context: RunContext, weights: Tensor, loss: float | None, round_: int) -> str | None:
    """Returns a sentence where the model of this round is of no use, so that the run should stop; else None.

    **Formal guarantees**: it follows from the released model, and from the loss on test records only where these are
    public: what a stop gives away is a function of releases, and is charged as one (`Charging.forfeit`).
    """
    finite = math.isfinite(torch.linalg.vector_norm(weights.float()))  # beyond 10^19 every score and square overflows
    if finite and (loss is None or math.isfinite(loss) or not context.federation.test_public):
        return None
    what = "the test loss" if finite else "the model's weights"
    kept = f"the model of round {round_ - 1}" if round_ > 1 else "the model it began with"
    return (
        f"training diverged: round {round_} made {what} overflow, so the run stopped and kept {kept}; "
        f"lower server.learning_rate (now {context.step.learning_rate:g}) or train.learning_rate"
    )


def uneven(context: RunContext) -> str | None:
    """Returns a sentence where features of a table have very different scales and no ranges are declared; else None.

    They stand beside the constant 1 that a layer adds, which is a feature as well.

    It is measured on private records, told to whoever runs it, and written nowhere.
    """
    x, told = context.federation.train_x, context.federation.declared.ranges
    made = context.recipe.data.features != "none"  # rows of norm 1, whose ranges nobody could declare
    if made or x.dim() != 2 or not x.is_floating_point() or told or not len(x):
        return None
    sizes = x.double().square().mean(0).sqrt()
    sizes = torch.cat([torch.where(sizes > 0, sizes, sizes.max()), torch.ones(1, dtype=torch.float64)])
    largest, smallest = int(sizes.argmax()), int(sizes.argmin())
    ratio = float(sizes[largest] / sizes[smallest])
    if not ratio > UNEVEN:
        return None
    names = [f"feature {name}" for name in context.federation.columns or range(x.shape[1])] + ["the constant 1"]
    return (
        f"{names[largest]} is about {ratio:.2g} times as large as {names[smallest]}, so clipping leaves little of "
        "the small ones (measured on private records: do not publish it): declare lowest and highest values, e.g. "
        'public.ranges = { age = [0, 120], "*" = [0, 1] }; scaling by declared ranges costs nothing'
    )


def monotonous(context: RunContext) -> str | None:
    """Returns a sentence where all training records have one label, so that nothing can be learned; else None.

    It is measured on private records, told to whoever runs it, and written nowhere.
    """
    y, names = context.federation.train_y, context.federation.class_names
    if len(y) < 2 or not bool((y == y[0]).all()):
        return None
    if context.federation.classes:
        label = names[int(y[0])] if names else int(y[0])
        what = f"are of one class, {label}"
    else:
        what = "have one target"
    return (
        f"all training records {what} (measured on private records: do not publish it), so that there is nothing to "
        "learn: the model will give this answer whatever it is shown; check which column is the label, or add records "
        "with others"
    )


def disappointment(context: RunContext, loss: float | None, accuracy: float | None) -> str | None:
    """Returns a sentence where the final model is no better than one that never looks at features; else None.

    It is told to whoever runs it and written nowhere: where test records are private, so is the comparison.
    """
    y = context.federation.test_y
    if loss is None or not len(y):
        return None
    aside = "" if context.federation.test_public else " (measured on private test records: do not publish it)"
    if not math.isfinite(loss):
        return f"the loss of the final model on the test records is infinite or not a number{aside}: take smaller steps"
    if accuracy is not None:
        usual = float(y.bincount().max()) / len(y)
        if accuracy <= usual and accuracy < 1:
            return (
                f"the final model is right on {accuracy:.1%} of the test records, and always naming their most "
                f"frequent class on {usual:.1%}{aside}: it learned nothing of use; `sordino advise` says what would "
                "help"
            )
        return None
    mean = float((y.double() - y.double().mean(0)).square().mean())
    if loss >= mean:
        return (
            f"the final model's squared error on the test records is {loss:.4g}, and that of always naming their mean "
            f"{mean:.4g}{aside}: it learned nothing of use; `sordino advise` says what would help"
        )
    return None
