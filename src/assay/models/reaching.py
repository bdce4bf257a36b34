"""Whether a provider can be reached and takes its key: one request for the list of its models, which costs nothing."""

import asyncio
import os
import ssl
import time
from collections.abc import Mapping
from urllib.parse import urlsplit

import msgspec

from assay.core.plan import ProviderPlan
from assay.core.version import __version__
from assay.models.endpoint import Endpoint, endpoint_problems, resolve_endpoint
from assay.models.http_connection import Broken, HttpReply
from assay.models.http_pool import HttpPool
from assay.models.transport import Scrubber

SECONDS = 5.0
"""For everything: the name, the connection, TLS and the answer."""
REFUSED = (401, 403)


class Reached(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it."""

    host: str
    """With the proxy on the way, where there is one."""
    seconds: float = 0.0
    status: int = 0
    """Of HTTP; 0 where there was no answer."""
    date: str = ""
    """The provider's time, as it says."""
    problem: str = ""
    hint: str = ""


async def ask_for_models(provider: ProviderPlan, *, environ: Mapping[str, str], seconds: float = SECONDS) -> Reached:
    """Ask an HTTP provider for its models; a key goes nowhere that a run would not send it to."""
    problems = endpoint_problems(provider, environ)
    if problems:
        return Reached(host=provider.base_url, problem=problems[0], hint="set it, or correct the run file")
    endpoint = resolve_endpoint(provider, environ)
    start = time.perf_counter()
    try:
        reply = await _asked(endpoint, seconds)
    except (Broken, OSError) as problem:
        return _unreached(endpoint, problem, seconds)
    return _answered(endpoint, reply, time.perf_counter() - start)


async def _asked(endpoint: Endpoint, seconds: float) -> HttpReply:
    pool = HttpPool(endpoint.url, seconds=seconds, proxy=endpoint.proxy)
    try:
        headers = {"Accept": "application/json", "User-Agent": f"assay/{__version__}", **endpoint.headers}
        async with asyncio.timeout(seconds):
            return await pool.send(pool.head("GET", endpoint.at(endpoint.models_path), headers) + b"\r\n")
    finally:
        await pool.close()


def _unreached(endpoint: Endpoint, problem: Broken | OSError, seconds: float) -> Reached:
    hint = "check the network, the address and the proxy settings"
    if isinstance(problem, ssl.SSLCertVerificationError):
        says = f"its certificate is not trusted: {problem.verify_message or problem.reason}"
        hint = "name the CA that signed it, such as that of your proxy, with SSL_CERT_FILE or REQUESTS_CA_BUNDLE"
    elif isinstance(problem, ssl.SSLError):
        says = f"TLS failed: {problem.reason or problem}"
    elif isinstance(problem, TimeoutError) and problem.errno is None:
        says = f"no answer within {seconds:g} s"
    else:
        says = f"no connection: {_reason(problem)}"
    return Reached(host=_host(endpoint), problem=Scrubber(endpoint.secrets()).text(says), hint=hint)


def _reason(problem: Broken | OSError) -> str:
    # The event loop has words of its own for what the system says; those of names that are not found are below zero.
    number = getattr(problem, "errno", None) or 0
    return (os.strerror(number) if number > 0 else getattr(problem, "strerror", None) or str(problem)).lower()


def _answered(endpoint: Endpoint, reply: HttpReply, seconds: float) -> Reached:
    found = Reached(host=_host(endpoint), seconds=seconds, status=reply.status, date=reply.headers.get("date", "")[:40])
    if reply.status in REFUSED:
        hint = "make a new key, or set the variable to the right one"
        return msgspec.structs.replace(found, problem=f"the key is refused (HTTP {reply.status})", hint=hint)
    if reply.status >= 500:
        return msgspec.structs.replace(found, problem=f"it answers with HTTP {reply.status}", hint="try again later")
    return found


def _host(endpoint: Endpoint) -> str:
    """Hosts only: neither a path nor a password of a proxy."""
    host = urlsplit(endpoint.url).netloc.rpartition("@")[2]
    return f"{host} through the proxy {urlsplit(endpoint.proxy).netloc.rpartition('@')[2]}" if endpoint.proxy else host
