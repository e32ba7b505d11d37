"""Local training, vectorised over the clients of a cohort."""

from sordino.train.settings import LocalTraining
from sordino.train.trainer import Trainer

__all__ = ["LocalTraining", "Trainer"]
