"""One service for all tests that leave nothing behind which others would mind."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.surfaces.server.serving import HOSTILE, Serving, dataset


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    # A busy machine may keep a test from sending its next piece for long.
    settings = "requests_per_minute: 100000\nmax_queue: 10000\nidle_seconds: 120\n"
    with Serving(tmp_path_factory.mktemp("service"), settings=settings) as serving:
        yield serving


@pytest.fixture(scope="session")
def finished(service: Serving) -> Any:
    """A run of five records, one of them invalid, answered by an echo of hostile prompts."""
    document = dataset(5, dataset_id="reading")
    for record, prompt in zip(document["records"], HOSTILE, strict=False):
        record["input"]["prompt"] = prompt
    document["records"][4]["input"]["prompt"] = 7
    return service.ended(service.submit(document, "?model=scripted/echo").json["run_id"])
