"""Models that keep something of one large record, in whatever place: it must not change what all others add to a sum.

Made-up records are small, so that the check before training met none of it: one record of 48 moved a clipped sum by 12
to 46 bounds.
"""

import numpy as np
import pytest
import torch
from torch import nn

from sordino.data.client_data import ClientData
from sordino.errors import ModelError
from sordino.layout import Layout
from sordino.models.checks import check
from sordino.models.losses import cross_entropy
from sordino.random.streams import Streams
from sordino.train.settings import LocalTraining
from sordino.train.trainer import Trainer

LARGE, BOUND, RECORDS = 10.0, 0.5, 48
SEEN = []


class Last(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = nn.Linear(20, 8)

    def forward(self, x):
        if x.abs().max() > LARGE:
            self.keep()
        return self.last(x / 255 if self.kept() else x)


class InATuple(Last):
    def __init__(self):
        super().__init__()
        self.box = ([],)

    def keep(self):
        self.box[0].append(1)

    def kept(self):
        return bool(self.box[0])


class InAFrozenWeight(Last):
    def __init__(self):
        super().__init__()
        self.top = nn.Parameter(torch.zeros(1), requires_grad=False)

    def keep(self):
        with torch.no_grad():
            self.top.add_(1)

    def kept(self):
        return bool(self.top > 0)


class InANewBuffer(Last):
    def keep(self):
        self.register_buffer("met", torch.ones(1))

    def kept(self):
        return hasattr(self, "met")


class InANewWeight(Last):
    def keep(self):
        self.met = nn.Parameter(torch.ones(1), requires_grad=False)

    def kept(self):
        return hasattr(self, "met")


class InAModulesPlace(Last):
    def __init__(self):
        super().__init__()
        self.gate = nn.Identity()

    def keep(self):
        self.gate = nn.Tanh()

    def kept(self):
        return isinstance(self.gate, nn.Tanh)


class ByItsMode(Last):
    def keep(self):
        self.last.eval()

    def kept(self):
        return not self.last.training


class InANewHook(Last):
    def keep(self):
        self.last.register_forward_pre_hook(lambda layer, given: (given[0] / 255,))

    def kept(self):
        return False


class Largest:
    """A hook that divides by the largest number that it met."""

    def __init__(self):
        self.top = torch.tensor(LARGE)

    def __call__(self, layer, given):
        self.top = torch.maximum(self.top, given[0].detach().abs().max())
        return (given[0] / self.top,)


def in_a_hook():
    model = nn.Sequential(nn.Linear(20, 8))
    model.register_forward_pre_hook(Largest())
    return model


class InAGlobal(Last):
    def keep(self):
        SEEN.append(1)

    def kept(self):
        return bool(SEEN)


class InItsClass(Last):
    met = False

    def keep(self):
        type(self).met = True

    def kept(self):
        return self.met


class InADefault(Last):
    def keep(self):
        self.kept().append(1)

    def kept(self, met=[]):  # noqa: B006
        return met


def in_a_closure():
    model, top = nn.Sequential(nn.Linear(20, 8)), [torch.tensor(LARGE)]

    def hook(layer, given):
        top[0] = torch.maximum(top[0], given[0].detach().abs().max())
        return (given[0] / top[0],)

    model.register_forward_pre_hook(hook)
    return model


class Backwards(torch.autograd.Function):
    """Passes numbers on; divides gradients by the largest one that it met."""

    top = 100.0

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        Backwards.top = max(Backwards.top, float(gradient.abs().max()))
        return gradient / Backwards.top


class Squared(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = nn.Linear(20, 8)

    def forward(self, x):
        return Backwards.apply(self.last(x)).square()


@pytest.mark.parametrize(
    "made",
    [InATuple, InAFrozenWeight, InANewBuffer, InANewWeight, InAModulesPlace, ByItsMode, InANewHook, in_a_hook],
)
def test_what_a_model_keeps_in_itself_is_gone_before_the_next_record(made):
    torch.manual_seed(0)
    model, x, y = made(), torch.randn(RECORDS, 20), torch.zeros(RECORDS, dtype=torch.int64)
    check(model, (20,))
    x[:, 0], x[0] = 3.0, 2000.0
    weights = Layout.of(model).flatten({name: p.detach() for name, p in model.named_parameters() if p.requires_grad})
    trainer = Trainer(model, cross_entropy, LocalTraining(), record=torch.zeros(20))

    def summed(first):
        data = ClientData(np.array([0]), np.array([0, RECORDS - first]), x[first:], y[first:])
        return trainer.example_sum(weights, data, BOUND, None, Streams(0), 1)[0]

    without = summed(1)  # first: the large record would have been seen by then
    assert float((summed(0) - without).norm()) <= BOUND


@pytest.mark.parametrize("made", [InAGlobal, InItsClass, InADefault, in_a_closure, Squared])
def test_a_model_that_keeps_something_outside_of_itself_is_refused(made):
    torch.manual_seed(0)
    with pytest.raises(ModelError, match="outside of itself"):
        check(made(), (20,))


def test_models_that_refuse_large_records_or_overflow_there_are_fine():
    class Narrow(nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.last = nn.Embedding(8, 4), nn.Linear(4, 2)

        def forward(self, x):
            return self.last(self.table(x[:, 0].abs().long()).exp())

    check(Narrow(), (20,))
    check(nn.Sequential(nn.Linear(20, 2), nn.Hardtanh(-1e3, 1e3)), (20,))
