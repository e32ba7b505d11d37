"""Attention as a module that can be tapped: what `nn.MultiheadAttention` computes, with the same weights' names."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from sordino.products import linear, matrices
from sordino.train.taps import Tappable


class Attention(Tappable):
    """Several heads of scaled dot products; queries, keys and values are three linear layers, and so is the outcome."""

    def __init__(self, source: nn.MultiheadAttention) -> None:
        super().__init__()
        self.in_proj_weight, self.in_proj_bias = source.in_proj_weight, source.in_proj_bias
        self.out_proj = source.out_proj
        self.num_heads, self.batch_first, self.embed_dim = source.num_heads, source.batch_first, source.embed_dim
        self._qkv_same_embed_dim = True

    @staticmethod
    def knows(module: nn.Module) -> bool:
        """Whether a module can be replaced by this one."""
        return (
            type(module) is nn.MultiheadAttention
            and module._qkv_same_embed_dim
            and module.bias_k is None
            and not module.add_zero_attn
        )

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        alone, turned = query.dim() == 2, query.dim() == 3 and not self.batch_first
        given = [
            each.unsqueeze(0) if alone else each.transpose(0, 1) if turned else each for each in (query, key, value)
        ]
        queries, keys, values = (self._heads(place, each) for place, each in enumerate(given))
        scores = matrices(queries, keys.mT) / (self.embed_dim // self.num_heads) ** 0.5
        for mask in self._masks(attn_mask, key_padding_mask, scores):
            scores = scores + mask
        shares = scores.softmax(-1)
        joined = matrices(shares, values).transpose(1, 2).flatten(2)
        w, b = self.weight("out_proj.weight"), self.weight("out_proj.bias")
        y = self._tap("out", joined, linear(joined, w, b))
        y = y.squeeze(0) if alone else y.transpose(0, 1) if turned else y
        seen = (shares.mean(1) if average_attn_weights else shares) if need_weights else None
        return y, seen.squeeze(0) if alone and seen is not None else seen

    def weight(self, name: str) -> Any:
        if not name.startswith("out_proj"):
            return super().weight(name)
        found = getattr(self.out_proj, name.rpartition(".")[2])
        return found if found is None or self.recorder is None else found.detach()

    def _heads(self, place: int, x: Tensor) -> Tensor:
        w, b = self.weight("in_proj_weight"), self.weight("in_proj_bias")
        rows = slice(place * self.embed_dim, (place + 1) * self.embed_dim)
        y = self._tap("qkv"[place], x, linear(x, w[rows], None if b is None else b[rows]))
        heads: Tensor = y.unflatten(2, (self.num_heads, -1)).transpose(1, 2)
        return heads

    def _tap(self, name: str, x: Tensor, y: Tensor) -> Tensor:
        return y if self.recorder is None else self.recorder.tap(f"{self.name}.{name}", x, y)

    def _masks(self, attention: Tensor | None, padding: Tensor | None, scores: Tensor) -> list[Tensor]:
        """Returns what is added to the scores `[records, heads, queries, keys]`."""
        masks = []
        if attention is not None:
            mask = _added(attention, scores)
            masks.append(mask if mask.dim() == 2 else mask.unflatten(0, (-1, self.num_heads)))
        if padding is not None:
            mask = _added(padding, scores)
            masks.append((mask if mask.dim() == 2 else mask.unsqueeze(0))[:, None, None, :])
        return masks


def _added(mask: Tensor, like: Tensor) -> Tensor:
    """Returns a mask as numbers: −∞ where a mask of truth values says true."""
    if mask.dtype == torch.bool:
        return torch.zeros_like(mask, dtype=like.dtype).masked_fill(mask, float("-inf"))
    return mask.to(like.dtype)
