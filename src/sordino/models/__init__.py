"""Models: the small ones of the papers by name, their losses, and a check for any `torch.nn.Module` of the user's."""

from sordino.models.checks import check, check_outputs, in_memory, made_up, suited
from sordino.models.losses import LOSSES, loss
from sordino.models.outputs import scores
from sordino.models.zoo import MODELS, Blueprint, build

__all__ = [
    "LOSSES",
    "MODELS",
    "Blueprint",
    "build",
    "check",
    "check_outputs",
    "in_memory",
    "loss",
    "made_up",
    "scores",
    "suited",
]
