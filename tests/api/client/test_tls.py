"""The client over TLS: a real certificate of a CA that only this test knows, on a proxy before a real service."""

import json
import os
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import assay
from assay.core.errors import ServerProblem
from tests.surfaces.server.serving import Serving, dataset


def certificate(folder: Path) -> tuple[Path, Path]:
    """A CA, and a file with the certificate and key of this machine that it has signed."""
    ca, server = folder / "ca.pem", folder / "server.pem"
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    # From Python 3.13 on, certificates are checked by the letter of RFC 5280: a CA must say what its key is for.
    usage = ["-addext", "keyUsage=critical,keyCertSign,cRLSign"]
    openssl("req", "-x509", *key, *usage, "-subj", "/CN=test CA", "-keyout", str(folder / "ca.key"), "-out", str(ca))
    openssl("req", *key, "-subj", "/CN=localhost", "-keyout", str(folder / "server.key"), "-out", str(folder / "server.csr"))
    extensions = "subjectAltName=DNS:localhost,IP:127.0.0.1\nauthorityKeyIdentifier=keyid\n"
    (folder / "extensions").write_text(extensions, encoding="utf-8")
    signing = [
        "-CA",
        str(ca),
        "-CAkey",
        str(folder / "ca.key"),
        "-CAcreateserial",
        "-extfile",
        str(folder / "extensions"),
        "-days",
        "2",
    ]
    openssl("x509", "-req", "-in", str(folder / "server.csr"), *signing, "-out", str(server))
    with server.open("ab") as file:
        file.write((folder / "server.key").read_bytes())
    return ca, server


def openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)


def pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while piece := source.recv(65536):
            target.sendall(piece)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def serve_tls(listener: ssl.SSLSocket, port: int) -> None:
    """Pass every connection on, as a proxy before a service does."""
    while True:
        try:
            outside, _ = listener.accept()
        except OSError:
            # A client that refuses the certificate hangs up in the middle of the handshake, one way or another.
            if listener.fileno() < 0:
                return
            continue
        threading.Thread(target=pass_on, args=(outside, port), daemon=True).start()


def pass_on(outside: socket.socket, port: int) -> None:
    with outside, socket.create_connection(("127.0.0.1", port)) as inside:
        asking = threading.Thread(target=pump, args=(outside, inside), daemon=True)
        asking.start()
        pump(inside, outside)
        asking.join(60)


@pytest.fixture(scope="module")
def secure(service: Serving, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """The address of a service behind TLS, and the CA that vouches for it."""
    ca, server = certificate(tmp_path_factory.mktemp("tls"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(server)
    with context.wrap_socket(socket.create_server(("0.0.0.0", 0)), server_side=True) as listener:
        threading.Thread(target=serve_tls, args=(listener, service.port), daemon=True).start()
        yield f"https://localhost:{listener.getsockname()[1]}", ca


def test_service_with_a_certificate_of_a_known_ca_is_used(secure: tuple[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    address, ca = secure
    monkeypatch.setenv("SSL_CERT_FILE", str(ca))
    client = assay.Client(address)
    run = client.start(json.dumps(dataset(2)).encode(), contract="batch_v1", media_type="application/json")
    assert [event.state for event in client.events(run.run_id)][-1] == "completed"
    assert client.run(run.run_id).counts.evaluated_records == 2


def test_requests_ca_bundle_names_the_ca_of_a_service(secure: tuple[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    address, ca = secure
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(ca))
    assert assay.Client(address, patience=0).health()


def test_certificate_of_an_unknown_ca_is_refused_and_says_what_to_do(secure: tuple[str, Path]) -> None:
    with pytest.raises(ServerProblem, match="certificate") as refused:
        assay.Client(secure[0], patience=0).health()
    assert "SSL_CERT_FILE" in refused.value.hint


def test_certificate_for_another_name_is_refused(secure: tuple[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(secure[1]))
    with pytest.raises(ServerProblem, match="certificate is not valid for"):
        assay.Client(secure[0].replace("localhost", socket.gethostname()), patience=0).health()


def test_command_uses_a_service_over_tls(secure: tuple[str, Path], tmp_path: Path) -> None:
    (tmp_path / "data.json").write_text(json.dumps(dataset(2)), encoding="utf-8")
    command = [sys.executable, "-m", "assay", "run", "data.json", "--server", secure[0]]
    environment = {**os.environ, "SSL_CERT_FILE": str(secure[1])}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
