"""One service for all tests that leave nothing behind which others would mind."""

from collections.abc import Iterator

import pytest

from tests.surfaces.server.serving import Serving


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    # A busy machine may keep a test from sending its next piece for long.
    settings = "requests_per_minute: 100000\nmax_queue: 10000\nidle_seconds: 120\n"
    with Serving(tmp_path_factory.mktemp("service"), settings=settings) as serving:
        yield serving
