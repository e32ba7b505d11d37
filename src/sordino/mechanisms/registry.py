"""All mechanisms by name: ours, those of installed packages, and those that a program registers itself.

A package offers mechanisms through the entry-point group `sordino.mechanisms`; each entry point names a
`MechanismSpec`. They are loaded when the registry is first asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points

from sordino.errors import CompositionError
from sordino.mechanisms.spec import MechanismSpec

GROUP = "sordino.mechanisms"


class Registry(Mapping[str, MechanismSpec]):
    """Mechanisms by name, in the order in which they were registered.

    **Edge cases**: a name is given once; an entry point that cannot be loaded, or is no `MechanismSpec`, is refused
    with its own name in the sentence.
    """

    def __init__(self) -> None:
        self._specs: dict[str, MechanismSpec] = {}
        self._waiting = True

    def register(self, spec: MechanismSpec) -> MechanismSpec:
        """Adds a mechanism, and returns it.

        Raises:
            CompositionError: it has no name, or the name is taken.
        """
        if not isinstance(spec, MechanismSpec) or not spec.name:
            raise CompositionError(f"{spec!r} cannot be registered: give a MechanismSpec whose options name it")
        if spec.name in self._specs and self._specs[spec.name] != spec:
            raise CompositionError(f"a mechanism named {spec.name!r} is registered already: choose another name")
        self._specs[spec.name] = spec
        return spec

    def __getitem__(self, name: str) -> MechanismSpec:
        self._load()
        return self._specs[name]

    def __iter__(self) -> Iterator[str]:
        self._load()
        return iter(self._specs)

    def __len__(self) -> int:
        self._load()
        return len(self._specs)

    def _load(self) -> None:
        if self._waiting:
            self._waiting = False
            for entry in entry_points(group=GROUP):
                self.register(_loaded(entry))


def _loaded(entry: EntryPoint) -> MechanismSpec:
    try:
        spec = entry.load()
    except Exception as error:  # whatever a stranger's module raises
        raise CompositionError(
            f"the mechanism {entry.name!r} of an installed package cannot be loaded ({error}): mend or remove it"
        ) from error
    if not isinstance(spec, MechanismSpec):
        raise CompositionError(f"the entry point {entry.name!r} is no MechanismSpec: name one, or remove the package")
    return spec


MECHANISMS = Registry()
"""Every mechanism by name."""
