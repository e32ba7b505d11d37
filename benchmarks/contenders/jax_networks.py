"""The networks of the steps of DP-SGD, written for JAX; weights have the names and shapes that torch gives them."""

import jax
from jax import lax
from jax import numpy as jnp


def outputs(name: str, weights: dict[str, jax.Array], x: jax.Array) -> jax.Array:
    """Returns the scores of a batch."""
    return {"W4": _cnn, "W5": _mlp, "W6": _gru}[name](weights, x)


def _linear(weights: dict[str, jax.Array], name: str, x: jax.Array) -> jax.Array:
    return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]


def _mlp(weights: dict[str, jax.Array], x: jax.Array) -> jax.Array:
    return _linear(weights, "3", jax.nn.relu(_linear(weights, "1", x.reshape(len(x), -1))))


def _cnn(weights: dict[str, jax.Array], x: jax.Array) -> jax.Array:
    for name, padding in (("0", [(3, 3), (3, 3)]), ("3", "VALID")):
        x = lax.conv_general_dilated(x, weights[f"{name}.weight"], (2, 2), padding)
        x = jax.nn.relu(x + weights[f"{name}.bias"][:, None, None])
        x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 1, 1), "VALID")
    return _linear(weights, "9", jax.nn.relu(_linear(weights, "7", x.reshape(len(x), -1))))


def _gru(weights: dict[str, jax.Array], x: jax.Array) -> jax.Array:
    def cell(h, given):
        old = h @ weights["cells.weight_hh_l0"].T + weights["cells.bias_hh_l0"]
        (reset, keep, new), (old_reset, old_keep, old_new) = (jnp.split(part, 3, 1) for part in (given, old))
        reset, keep = jax.nn.sigmoid(reset + old_reset), jax.nn.sigmoid(keep + old_keep)
        return (1 - keep) * jnp.tanh(new + reset * old_new) + keep * h, None

    given = weights["table.weight"][x] @ weights["cells.weight_ih_l0"].T + weights["cells.bias_ih_l0"]
    last, _ = lax.scan(cell, jnp.zeros((len(x), 128)), given.swapaxes(0, 1))
    return _linear(weights, "scores", last)
