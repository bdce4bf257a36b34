"""A door before a server without TLS: it asks for a certificate and passes everything on, for the time of a `with` block."""

import asyncio
import ssl
import threading
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


class Authority:
    """Makes certificates that trust each other, each a file with its key beside it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name.from_rfc4514_string("CN=assay tests")
        made = _builder(self._name, self._name, self._key.public_key()).add_extension(
            x509.BasicConstraints(True, None), critical=True
        )
        self.path = self._write("ca", made.sign(self._key, hashes.SHA256()), self._key)

    def certificate(self, name: str) -> Path:
        """For loopback; the key is in the file of the same name that ends in `.key`."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name.from_rfc4514_string(f"CN={name}")
        place = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1")), x509.DNSName("localhost")])
        made = _builder(subject, self._name, key.public_key()).add_extension(place, critical=False)
        return self._write(name, made.sign(self._key, hashes.SHA256()), key)

    def _write(self, name: str, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Path:
        path = self._folder / f"{name}.pem"
        path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        plain = serialization.NoEncryption()
        private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
        path.with_suffix(".key").write_bytes(private)
        return path


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    made = x509.CertificateBuilder(issuer, subject, key, x509.random_serial_number())
    return made.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))


class TlsDoor:
    """The door; whoever shows no certificate of the authority is not let in."""

    def __init__(self, authority: Authority, port: int) -> None:
        own = authority.certificate("server")
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(own, own.with_suffix(".key"))
        self._context.load_verify_locations(authority.path)
        self._context.verify_mode = ssl.CERT_REQUIRED
        self._context.set_alpn_protocols(["h2"])
        self._behind = port
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self.port = 0

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _serve(self) -> None:
        server = self._loop.run_until_complete(asyncio.start_server(self._pass, "127.0.0.1", 0, ssl=self._context))
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        self._loop.run_forever()
        server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0.05))
        self._loop.close()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        behind_reader, behind_writer = await asyncio.open_connection("127.0.0.1", self._behind)
        await asyncio.gather(_pour(reader, behind_writer), _pour(behind_reader, writer))


async def _pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while content := await reader.read(1 << 16):
            writer.write(content)
            await writer.drain()
    except (ConnectionError, ssl.SSLError, asyncio.CancelledError):
        # One side has gone.
        pass
    finally:
        writer.close()
