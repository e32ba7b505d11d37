"""Terminals that do not know Greek: every letter that they lack is spelled out, and nothing fails for it."""

from __future__ import annotations

import codecs
import io
import sys

_SPELLED = str.maketrans(
    {
        "ε": "epsilon", "δ": "delta", "μ": "mu", "σ": "sigma", "θ": "theta", "ϑ": "theta", "τ": "tau", "Δ": "Delta",
        "×": "x", "·": ".", "…": "...", "–": "-", "−": "-", "±": "+/-", "≤": "<=", "≥": ">=", "∞": "infinite",
        "→": "->", "√": "root ", "²": "^2", "’": "'",
    }
)  # fmt: skip


def spell_out() -> None:
    """Makes stdout and stderr spell out what their encoding lacks: ε is epsilon where only ASCII is known."""
    codecs.register_error("sordino.spelled", _spelled)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="sordino.spelled")


def _spelled(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    words = error.object[error.start : error.end].translate(_SPELLED)
    return words.encode("ascii", "replace").decode("ascii"), error.end
