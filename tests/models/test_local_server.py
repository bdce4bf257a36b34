"""The child process of the local model."""

import subprocess
import sys

import pytest

from assay.models.local import find_weights
from tests.models.test_local import HAS_LOCAL


@pytest.mark.heavy
@pytest.mark.skipif(not HAS_LOCAL, reason="the local extra is not installed")
def test_the_server_of_a_local_model_ends_with_its_input_so_that_none_outlives_its_parent() -> None:
    command = [sys.executable, "-m", "assay.models.local_server", str(find_weights())]
    ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=120, check=True)
    assert ended.stdout.startswith(b"http://127.0.0.1:")
    assert ended.stdout.count(b"\n") == 1
