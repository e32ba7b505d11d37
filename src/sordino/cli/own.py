"""A model or data of the user's own, named on the command line."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import json
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sordino.errors import RecipeError, SordinoError

if TYPE_CHECKING:
    from torch import nn

    from sordino.data.federation import Federation
    from sordino.recipe import Recipe

MODEL_HELP = "your own model: module:name or file.py:name, a torch module or a function that returns one"
DATA_HELP = (
    "your own data: a .csv or .npz file (several .csv: once for each), or module:name, a Federation or a function that "
    "returns one"
)


def own_model(text: str | None) -> nn.Module | None:
    """Returns the module that `module:name` stands for.

    Raises:
        RecipeError: there is no such thing, or it is no module.
    """
    if text is None:
        return None
    from torch import nn

    found = _named("--model", text)
    model = _made("--model", text, found) if not isinstance(found, nn.Module) and callable(found) else found
    if not isinstance(model, nn.Module):
        raise RecipeError(f"--model {text} is a {type(model).__name__}: name a torch.nn.Module, or a function for one")
    return model


def own_data(given: Sequence[str] | None) -> Federation | None:
    """Returns the federation that `module:name` stands for; None for files (`data_settings`), and for nothing.

    Raises:
        RecipeError: there is no such thing, or it is no federation.
    """
    if not given or _files(given):
        return None
    text = given[0]
    from sordino.data.federation import Federation

    found = _named("--data", text)
    made = _made("--data", text, found) if callable(found) else found
    if not isinstance(made, Federation):
        raise RecipeError(f"--data {text} is a {type(made).__name__}: name a Federation, or a function for one")
    return made


def data_settings(given: Sequence[str] | None) -> list[str]:
    """Returns the settings that data files stand for, as `section.field=value`."""
    if not given or not (files := _files(given)):
        return []
    return [
        f"data.name={Path(files[0]).suffix[1:].lower()}",
        f"data.file={json.dumps(files) if files[1:] else files[0]}",
    ]


def data_again(given: Sequence[str] | None, recipe: Recipe) -> Federation | None:
    """Returns the data of a run that was played, from files that were moved or from `module:name`."""
    if not given or not (files := _files(given)):
        return own_data(given)
    from sordino.runs.setup import load

    if recipe.data.name not in ("csv", "npz"):
        raise RecipeError(
            f"--data {files[0]}: the run had data of {recipe.data.name!r}, not of a file: give module:factory, a "
            "function that returns the Federation"
        )
    return load(recipe.but(data={"file": files if files[1:] else files[0]}))


def _files(given: Sequence[str]) -> list[str]:
    """Returns the files (of a folder its tables), or nothing where something else is named.

    Raises:
        RecipeError: several things are named that do not go together.
    """
    if not all(given):
        raise RecipeError("--data is empty: name a file, a folder or module:name, or leave it out")
    named = [str(Path(text) / "*.csv") if Path(text).is_dir() else text for text in given]
    kinds = {Path(text).suffix.lower() for text in named}
    if kinds <= {".csv"} or (kinds == {".npz"} and len(named) == 1):
        return named
    if len(named) > 1:
        raise RecipeError(f"--data {' --data '.join(given)}: only .csv files can be several; name one thing otherwise")
    return []


def _named(option: str, text: str) -> Any:
    place, sep, name = text.rpartition(":")
    if not sep or not place or not name:
        files = "neither a .csv or .npz file nor " if option == "--data" else "not "
        raise RecipeError(f"{option} {text!r} is {files}of the form module:name (or file.py:name)")
    try:
        module = _file(Path(place)) if place.endswith(".py") else _module(place)
    except ImportError as error:
        raise RecipeError(f"{option} {text}: {place} cannot be imported ({error}): check its name and folder") from None
    except Exception as error:
        raise _theirs(option, text, error) from None
    if not hasattr(module, name):
        raise RecipeError(f"{option} {text}: {place} has no {name}: name what it defines")
    return getattr(module, name)


def _made(option: str, text: str, function: Callable[[], Any]) -> Any:
    """Returns what a function of the user's own returns."""
    with suppress(ValueError):  # of some, nobody knows what they take
        try:
            inspect.signature(function).bind()
        except TypeError as error:
            raise RecipeError(
                f"{option} {text}: it is called with nothing, but {error}: name a function that takes none"
            ) from None
    try:
        return function()
    except Exception as error:
        raise _theirs(option, text, error) from None


def _theirs(option: str, text: str, error: Exception) -> SordinoError:
    """Returns one sentence for what went wrong in the user's own code, with the last line of it that ran."""
    if isinstance(error, SordinoError):
        return error
    ran = [place for place in traceback.extract_tb(error.__traceback__) if "site-packages" not in place.filename]
    file, line = (
        (error.filename, error.lineno) if isinstance(error, SyntaxError) else (ran[-1].filename, ran[-1].lineno)
    )
    what = str(error.msg if isinstance(error, SyntaxError) else error).strip().partition("\n")[0] or "no reason given"
    return RecipeError(f"{option} {text}: {type(error).__name__} in {file}, line {line} ({what}): correct it there")


def _module(place: str) -> Any:
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    return importlib.import_module(place)


def _file(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise ImportError("there is no such file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # so that the source of its classes can be found
    spec.loader.exec_module(module)
    return module
