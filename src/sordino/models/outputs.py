"""What a model returns: a tensor of scores, or an object that holds them as `.logits`."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from sordino.errors import ModelError


def scores(returned: Any) -> Tensor:
    """Returns the scores in what a model returned: the tensor itself, or its `.logits` (or `["logits"]`).

    Raises:
        ModelError: there are none.
    """
    found = returned
    if not isinstance(returned, Tensor):
        found = returned.get("logits") if isinstance(returned, dict) else getattr(returned, "logits", None)
    if not isinstance(found, Tensor):
        raise ModelError(
            f"the model returns {type(returned).__name__}: it must return one tensor of outputs, or an object with "
            "such a tensor as .logits."
        )
    return found
