"""`python -m tests.without_integrations NAME... -- COMMAND`: assay as if the folders of some integrations were deleted.

Without a name, as if the whole package of integrations were gone.
"""

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType


class MissingFolders:
    """A finder before all others: what is below these packages cannot be found."""

    def __init__(self, packages: Sequence[str]) -> None:
        self._packages = tuple(f"{package}." for package in packages)

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:  # noqa: ARG002
        if f"{name}.".startswith(self._packages):
            raise ModuleNotFoundError(f"No module named '{name}'", name=name)
        return None


if __name__ == "__main__":
    names = sys.argv[1 : sys.argv.index("--")]
    gone = [f"assay.integrations.{name}" for name in names] or ["assay.integrations"]
    sys.meta_path.insert(0, MissingFolders(gone))  # type: ignore[arg-type]  # a finder needs no more than this
    sys.argv = ["assay", *sys.argv[sys.argv.index("--") + 1 :]]
    import_module("assay.surfaces.cli.main").main()
