"""Colours, told apart by most people with a colour vision deficiency; the page has them for light and dark."""

from __future__ import annotations

LIGHT = ("#2f5fd0", "#d9622b", "#1f8a70", "#8a4fbf", "#a97a05", "#c2407a", "#3a8399", "#6b7280")
DARK = ("#8aabff", "#ff9a6b", "#56cba8", "#c89dfa", "#e6b84a", "#f58bb9", "#80cbe0", "#a9b2c0")
INK, MUTED, GRID = "#1c2330", "#5d6778", "#e4e7ee"
HEAT = ("#f3f5fa", "#2f5fd0")
WARN = "#b3261e"


def css() -> str:
    """Returns the palettes as CSS variables `--c0` … for each theme, under the names that style.css uses."""

    def block(colors: tuple[str, ...]) -> str:
        return "".join(f"--c{place}:{color};" for place, color in enumerate(colors))

    dark = block(DARK)
    return (
        f":root{{{block(LIGHT)}}}"
        f"@media (prefers-color-scheme:dark){{:root:not([data-theme=light]){{{dark}}}}}"
        f":root[data-theme=dark]{{{dark}}}"
    )
