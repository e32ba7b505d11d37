"""What the site makes itself: the pages of settings and commands, from the code; and links out of docs/."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
_OUTSIDE = re.compile(
    r"\[([^\]]*)\]\((?:\.\./)+((?:tests|src|benchmarks|examples|recipes)/[^)#]*|[A-Z]+\.md)(#[^)]*)?\)"
)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Fills in generated parts, and names files of the repository that are no pages of the site."""
    if "<!-- settings -->" in markdown:
        markdown = markdown.replace("<!-- settings -->", settings())
    if "<!-- commands -->" in markdown:
        markdown = markdown.replace("<!-- commands -->", commands())
    return _OUTSIDE.sub(_named, markdown)


def _named(found: re.Match[str]) -> str:
    """Returns a file outside of docs/ as text: it is in the repository, which a site may be read without."""
    words, path, _ = found.groups()
    if not (ROOT / path).exists():
        raise FileNotFoundError(f"a page links to {path}, which is not there")
    return f"{words} (`{path}` in the repository)" if path not in words else f"`{path}`"


def settings() -> str:
    """Returns every setting of a recipe as tables, section by section."""
    from sordino.mechanisms import MECHANISMS
    from sordino.recipe import Recipe

    parts = []
    for section, about in Recipe.model_fields.items():
        if section != "mechanism":
            parts.append(_table(f"[{section}]", about.annotation, (about.annotation.__doc__ or "").splitlines()[0]))
    for name, entry in MECHANISMS.items():
        parts.append(_table(f"[mechanism] {name}", entry.options, entry.summary))
    return "\n".join(parts)


def _table(title: str, model: Any, about: str) -> str:
    from sordino.cli.recipe import choices

    lines = [f"## {title}", "", about, "", "| setting | default | meaning |", "|---|---|---|"]
    for name, field in model.model_fields.items():
        default = field.get_default(call_default_factory=True)
        shown = "–" if default is None else f"`{default}`"
        of = choices(field)
        meaning = (field.description or "") + (f" ({', '.join(f'`{one}`' for one in of)})" if len(of) > 1 else "")
        lines.append(f"| `{name}` | {_cell(shown)} | {_cell(meaning)} |")
    return "\n".join([*lines, ""])


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def commands() -> str:
    """Returns every command with its options."""
    import typer

    from sordino.cli.app import app, register

    register()
    whole = typer.main.get_command(app)
    parts = []
    for name, command in whole.commands.items():
        inner = getattr(command, "commands", {})
        parts += [_command(f"{name} {sub}", one) for sub, one in inner.items()] if inner else [_command(name, command)]
    return "\n".join(parts)


def _command(name: str, command: Any) -> str:
    told = re.sub(r"\n {4,}", "\n", (command.help or "").strip())
    lines = [f"## `sordino {name}`", "", told, "", "| option | meaning |", "|---|---|"]
    for one in command.params:
        flags = ", ".join(f"`{flag}`" for flag in one.opts) if one.opts else f"`{one.name}`"
        shown = f"`{one.name.upper()}`" if one.param_type_name == "argument" else flags
        lines.append(f"| {shown} | {_cell(getattr(one, 'help', '') or '')} |")
    return "\n".join([*lines, ""])
