"""A real server of the S3 protocol on loopback, in a process of its own."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection

from tests.surfaces.server.serving import free_port


class Bucket:
    """A bucket named `runs`, and what a command needs to know to use it."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.environ = {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "somebody",
            "AWS_SECRET_ACCESS_KEY": "hush-hush",
            "AWS_REGION": "us-east-1",
        }

    def ask(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        """One request as anybody may send it: the server checks no signature."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(
                method, path, body, {"Authorization": "AWS4-HMAC-SHA256 Credential=a/20260101/us-east-1/s3/aws4_request"}
            )
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()


@contextmanager
def running_bucket() -> Iterator[Bucket]:
    """A new server with one empty bucket."""
    port = free_port()
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        bucket = Bucket(port)
        end = time.monotonic() + 60
        while not _is_made(bucket):
            assert server.poll() is None, "the server of the bucket has ended"
            assert time.monotonic() < end, "the server of the bucket does not answer"
            time.sleep(0.1)
        yield bucket
    finally:
        server.kill()
        server.wait()


def _is_made(bucket: Bucket) -> bool:
    try:
        return bucket.ask("PUT", "/runs")[0] == 200
    except OSError:
        return False
