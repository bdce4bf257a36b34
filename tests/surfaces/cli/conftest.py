"""The service that the tests of its client use, for commands with `--server`."""

from tests.api.client.conftest import service

__all__ = ["service"]
