"""Networks as people write them: own forward passes, recurrent layers, attention, weights that are used twice."""

import torch
from torch import nn
from torch.nn import functional


class Chained(nn.Module):
    """A chain of layers, half of them functions. Input [1, 12, 12]."""

    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 3, 3), nn.Conv2d(3, 4, 3)
        self.fc1, self.fc2 = nn.Linear(16, 6), nn.Linear(6, 4)

    def forward(self, x):
        x = functional.max_pool2d(functional.relu(self.conv1(x)), 2)
        x = functional.max_pool2d(self.conv2(x).relu(), kernel_size=2, stride=1)
        x = x.view(x.size(0), -1)
        return functional.log_softmax(self.fc2(torch.tanh(self.fc1(x))), dim=1)


class Residual(nn.Module):
    """Branches and group normalisation. Input [1, 8, 8]."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.fc = nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.Linear(144, 4)

    def forward(self, x):
        h = self.norm(self.conv(x))
        return self.fc((h + h.relu()).flatten(1))


class Text(nn.Module):
    """Next character. Input: 7 of 20 characters."""

    def __init__(self, kind=nn.GRU, layers=1, both=False, **options):
        super().__init__()
        width = 10 if both else 5
        self.table, self.cells = nn.Embedding(20, 6, padding_idx=0), kind(6, 5, layers, bidirectional=both, **options)
        self.norm, self.scores = nn.LayerNorm(width), nn.Linear(width, 4)

    def forward(self, x):
        x = self.table(x)
        states, _ = self.cells(x if self.cells.batch_first else x.transpose(0, 1))
        last = states[:, -1] if self.cells.batch_first else states[-1]
        return self.scores(self.norm(last))


class Answer:
    def __init__(self, logits):
        self.logits = logits


class Transformer(nn.Module):
    """Attention, a table that is the last layer too, positions that belong to no layer, and `.logits`."""

    def __init__(self, batch_first=True):
        super().__init__()
        block = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=batch_first)
        self.first, self.table, self.places = batch_first, nn.Embedding(20, 8), nn.Parameter(torch.randn(7, 8))
        self.blocks, self.norm = nn.TransformerEncoder(block, 1, enable_nested_tensor=False), nn.LayerNorm(8)

    def forward(self, x):
        h, mask = self.table(x) + self.places, nn.Transformer.generate_square_subsequent_mask(7)
        h = self.blocks(h if self.first else h.transpose(0, 1), mask=mask)
        h = h if self.first else h.transpose(0, 1)
        return Answer(self.norm(h.mean(1)) @ self.table.weight[:4].T)


class Twice(nn.Module):
    """A layer that is passed twice."""

    def __init__(self):
        super().__init__()
        self.inner, self.outer = nn.Linear(5, 5), nn.Linear(5, 4)

    def forward(self, x):
        return self.outer(torch.tanh(self.inner(torch.tanh(self.inner(x)))))


class Forked(nn.Module):
    """A path that depends on the record: nothing but one example after the other will do."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(5, 4), nn.Linear(5, 4)

    def forward(self, x):
        return torch.cat([self.a(each) if each.sum() > 0 else self.b(each) for each in x.split(1)])
