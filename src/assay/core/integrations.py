"""Optional parts of assay, found by their entry points: nothing else in the package imports them.

An installed distribution declares a part in the group `assay.integrations`, as pyproject.toml does for those of this repository:

    [project.entry-points."assay.integrations"]
    mlflow = "assay.integrations.mlflow"
"""

from functools import cache
from importlib import import_module
from types import ModuleType

from assay.core.errors import MissingExtra

GROUP = "assay.integrations"
"""Group of entry points; each names the module, or package, of a part."""


def load_integration(name: str, part: str = "", *, user: str) -> ModuleType:
    """Import a part, or one of its modules; `user` is what needs it, such as `a shared ledger`.

    Raises MissingExtra when no distribution declares the part or its folder is gone, and ModuleNotFoundError when a package that it
    needs is missing.
    """
    # Found by name and not imported, so that a missing extra breaks the one command that needs it and nothing at start-up.
    module = _declared_modules().get(name)
    if module is None:
        raise _missing(name, user)
    try:
        return import_module(f"{module}.{part}" if part else module)
    except ModuleNotFoundError as problem:
        # The part itself is gone; any other missing name is a package that it needs.
        if f"{module}.{part}.".startswith(f"{problem.name}."):
            raise _missing(name, user) from problem
        raise


def _missing(name: str, user: str) -> MissingExtra:
    what = f"{user} needs the integration '{name}', which is not installed"
    return MissingExtra(what, hint="install all parts of assay: pip install --force-reinstall assay")


@cache
def _declared_modules() -> dict[str, str]:
    """Read the declared parts once; importlib.metadata is imported here because most commands need none."""
    points = import_module("importlib.metadata").entry_points(group=GROUP)
    return {point.name: point.value for point in points}
