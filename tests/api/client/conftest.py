"""One real service for all tests of its client."""

from collections.abc import Iterator

import pytest

import assay
from tests.surfaces.server.serving import Serving


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with Serving(tmp_path_factory.mktemp("service"), settings="requests_per_minute: 100000\n") as serving:
        yield serving


@pytest.fixture(scope="session")
def client(service: Serving) -> assay.Client:
    return assay.Client(f"http://127.0.0.1:{service.port}")
