"""Every import of these tests happens in a folder of its own, like those of the importers."""

from tests.integrations.importers.conftest import folder

__all__ = ["folder"]
