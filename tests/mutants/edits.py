"""Places in a function, found by what they are in the syntax tree, and what to put there instead.

The replacement is an expression in which `_` stands for what was there before. A call also offers `_on` (what its
method is called on) and `_0`, `_1`, … (its arguments), an operation `_left` and `_right`, and a choice `_test`,
`_then` and `_else`.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Place:
    """One expression of a tree, by where it hangs."""

    parent: ast.AST
    field: str
    index: int | None = None

    @property
    def node(self) -> ast.expr:
        """The expression that is there."""
        held = getattr(self.parent, self.field)
        found: ast.expr = held if self.index is None else held[self.index]
        return found

    def put(self, node: ast.expr) -> None:
        """Hangs another expression there."""
        if self.index is None:
            setattr(self.parent, self.field, node)
        else:
            getattr(self.parent, self.field)[self.index] = node


@dataclass(frozen=True)
class Edit:
    """A change of one expression: which places are meant, and what comes there instead."""

    what: str
    """The kind of place, in words."""
    places: Callable[[ast.AST], Iterator[Place]]
    to: str
    mentions: str | None = None
    """A name, attribute or string that the expression must have in it, to tell it from others of its kind."""

    def apply(self, scope: ast.AST) -> None:
        """Makes the change in a function or class.

        Raises:
            ValueError: there is no such place, or more than one.
        """
        found = [place for place in self.places(scope) if self.mentions is None or self.mentions in _words(place.node)]
        if len(found) != 1:
            raise ValueError(f"{self.what}{f' with {self.mentions}' if self.mentions else ''} is found {len(found)}×")
        old = found[0].node
        template = ast.parse(self.to, mode="eval").body
        found[0].put(_Filled(_parts(old)).visit(template))


def argument(call: str, at: int | str, to: str, mentions: str | None = None) -> Edit:
    """An argument of a call, by position or by name."""

    def places(scope: ast.AST) -> Iterator[Place]:
        for place in _calls(scope, call):
            made = place.node
            assert isinstance(made, ast.Call)
            if isinstance(at, int):
                if at < len(made.args):
                    yield Place(made, "args", at)
            else:
                yield from (Place(word, "value") for word in made.keywords if word.arg == at)

    return Edit(f"argument {at!r} of {call}", places, to, mentions)


def called(call: str, to: str, mentions: str | None = None) -> Edit:
    """A call, by the name of the function or method."""
    return Edit(f"call of {call}", lambda scope: _calls(scope, call), to, mentions)


def assigned(name: str, to: str, mentions: str | None = None) -> Edit:
    """What a variable is set to; of `a, b = x, y` the part that is its own."""

    def places(scope: ast.AST) -> Iterator[Place]:
        for node in ast.walk(scope):
            if isinstance(node, ast.AugAssign | ast.AnnAssign) and node.value and ast.unparse(node.target) == name:
                yield Place(node, "value")
            for target in node.targets if isinstance(node, ast.Assign) else []:
                names = [ast.unparse(part) for part in (target.elts if isinstance(target, ast.Tuple) else [target])]
                if name in names and isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                    yield Place(node.value, "elts", names.index(name))
                elif name in names:
                    yield Place(node, "value")

    return Edit(f"value of {name}", places, to, mentions)


def returned(to: str, mentions: str | None = None) -> Edit:
    """What the function returns."""
    return _every("return", ast.Return, "value", to, mentions)


def condition(to: str, mentions: str | None = None) -> Edit:
    """The condition of an `if` statement."""
    return _every("if", ast.If, "test", to, mentions)


def chosen(to: str, mentions: str | None = None) -> Edit:
    """A choice `_then if _test else _else`."""
    return _kind("choice", ast.IfExp, to, mentions)


def multiplied(to: str, mentions: str | None = None) -> Edit:
    """A product."""
    return _operation("*", ast.Mult, to, mentions)


def divided(to: str, mentions: str | None = None) -> Edit:
    """A quotient."""
    return _operation("/", ast.Div, to, mentions)


def added(to: str, mentions: str | None = None) -> Edit:
    """A sum."""
    return _operation("+", ast.Add, to, mentions)


def subtracted(to: str, mentions: str | None = None) -> Edit:
    """A difference."""
    return _operation("-", ast.Sub, to, mentions)


def masked(to: str, mentions: str | None = None) -> Edit:
    """A conjunction by `&`."""
    return _operation("&", ast.BitAnd, to, mentions)


def compared(to: str, mentions: str | None = None) -> Edit:
    """A comparison of two things."""
    return _kind("comparison", ast.Compare, to, mentions)


def negated(to: str, mentions: str | None = None) -> Edit:
    """An expression with a sign or a `not` before it; `_0` is what stands after it."""
    return _kind("sign", ast.UnaryOp, to, mentions)


def entry(key: str, to: str, mentions: str | None = None) -> Edit:
    """The value of a key in a dictionary that is written out."""

    def places(scope: ast.AST) -> Iterator[Place]:
        for node in ast.walk(scope):
            for index, name in enumerate(node.keys if isinstance(node, ast.Dict) else []):
                if isinstance(name, ast.Constant) and name.value == key:
                    yield Place(node, "values", index)

    return Edit(f"entry {key!r}", places, to, mentions)


def pair(to: str, mentions: str) -> Edit:
    """A tuple that is written out."""
    return _kind("tuple", ast.Tuple, to, mentions)


def listed(to: str, mentions: str | None = None) -> Edit:
    """The expression of a comprehension, list or generator."""

    def places(scope: ast.AST) -> Iterator[Place]:
        return (Place(n, "elt") for n in ast.walk(scope) if isinstance(n, ast.ListComp | ast.GeneratorExp))

    return Edit("comprehension", places, to, mentions)


def _every(what: str, kind: type[ast.AST], field: str, to: str, mentions: str | None) -> Edit:
    def places(scope: ast.AST) -> Iterator[Place]:
        return (Place(n, field) for n in ast.walk(scope) if isinstance(n, kind) and getattr(n, field) is not None)

    return Edit(what, places, to, mentions)


def _kind(what: str, kind: type[ast.expr], to: str, mentions: str | None) -> Edit:
    return Edit(what, lambda scope: (p for p in _expressions(scope) if isinstance(p.node, kind)), to, mentions)


def _operation(what: str, operator: type[ast.operator], to: str, mentions: str | None) -> Edit:
    def places(scope: ast.AST) -> Iterator[Place]:
        for place in _expressions(scope):
            if isinstance(place.node, ast.BinOp) and isinstance(place.node.op, operator):
                yield place

    return Edit(what, places, to, mentions)


def _expressions(scope: ast.AST) -> Iterator[Place]:
    for parent in ast.walk(scope):
        for field, held in ast.iter_fields(parent):
            if isinstance(held, ast.expr):
                yield Place(parent, field)
            elif isinstance(held, list):
                yield from (Place(parent, field, i) for i, node in enumerate(held) if isinstance(node, ast.expr))


def _calls(scope: ast.AST, name: str) -> Iterator[Place]:
    for place in _expressions(scope):
        node = place.node
        if isinstance(node, ast.Call):
            callee = node.func
            said = callee.attr if isinstance(callee, ast.Attribute) else getattr(callee, "id", None)
            if said == name:
                yield place


def _words(node: ast.AST) -> set[str]:
    """Returns all names, attributes, keywords and strings of an expression."""
    told: set[Any] = set()
    for part in ast.walk(node):
        told |= {getattr(part, field, None) for field in ("id", "attr", "arg")}
        told |= {part.value} if isinstance(part, ast.Constant) and isinstance(part.value, str) else set()
    return told - {None}


def _parts(old: ast.expr) -> dict[str, ast.expr]:
    parts = {"_": old}
    if isinstance(old, ast.Call):
        parts |= {f"_{index}": node for index, node in enumerate(old.args)}
        if isinstance(old.func, ast.Attribute):
            parts["_on"] = old.func.value
    elif isinstance(old, ast.BinOp):
        parts |= {"_left": old.left, "_right": old.right}
    elif isinstance(old, ast.Compare):
        parts |= {"_left": old.left, "_right": old.comparators[0]}
    elif isinstance(old, ast.UnaryOp):
        parts["_0"] = old.operand
    elif isinstance(old, ast.Tuple):
        parts |= {f"_{index}": node for index, node in enumerate(old.elts)}
    elif isinstance(old, ast.IfExp):
        parts |= {"_test": old.test, "_then": old.body, "_else": old.orelse}
    return parts


class _Filled(ast.NodeTransformer):
    """Puts the parts of the old expression in the place of their names."""

    def __init__(self, parts: Mapping[str, ast.expr]) -> None:
        self._parts = parts

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return copy.deepcopy(self._parts[node.id]) if node.id in self._parts else node
