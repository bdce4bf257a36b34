"""A Temporal server behind TLS: it is known by its certificate, and knows us by ours."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from assay.core.errors import StoreUnavailable
from assay.core.runs import TemporalServer
from tests.integrations.temporal.machines import TemporalProcess

pytestmark = pytest.mark.xdist_group("temporal")
connection = pytest.importorskip("assay.integrations.temporal.connection")
tls_door = pytest.importorskip("tests.integrations.temporal.tls_door")


@pytest.fixture
def door(tmp_path: Path, temporal: TemporalProcess) -> Iterator[TemporalServer]:
    """How the server is reached through a door that asks for a certificate."""
    authority = tls_door.Authority(tmp_path)
    own = authority.certificate("worker")
    with tls_door.TlsDoor(authority, temporal.port) as opened:
        yield TemporalServer(
            address=f"127.0.0.1:{opened.port}",
            server_ca=str(authority.path),
            client_certificate=str(own),
            client_key=str(own.with_suffix(".key")),
        )


def namespace_of(server: TemporalServer) -> str:
    """What a client that has spoken to the server knows."""
    return str(asyncio.run(connection.connect(server, environ={}, identity="test")).namespace)


def test_certificates_open_the_door(door: TemporalServer) -> None:
    assert namespace_of(door) == "default"


def test_without_a_certificate_of_our_own_the_door_stays_shut(door: TemporalServer) -> None:
    stranger = TemporalServer(address=door.address, server_ca=door.server_ca)
    with pytest.raises(StoreUnavailable, match="no Temporal server answers at"):
        namespace_of(stranger)


def test_a_server_that_nobody_vouches_for_is_not_spoken_to(door: TemporalServer, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = tls_door.Authority(tmp_path / "other")
    stranger = TemporalServer(address=door.address, server_ca=str(other.path))
    with pytest.raises(StoreUnavailable, match="the certificates do not lead to the Temporal server at"):
        namespace_of(stranger)
