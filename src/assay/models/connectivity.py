"""Connectivity check of a provider and its key: one request for the list of its models, which costs nothing."""

import asyncio
import os
import ssl
import time
from collections.abc import Mapping
from urllib.parse import urlsplit

import msgspec

from assay.core.plan import ProviderPlan
from assay.core.version import __version__
from assay.models.endpoint import Endpoint, endpoint_problems, open_socket, resolve_endpoint
from assay.models.http_client import ExchangeFailed, HttpPool, HttpReply
from assay.models.transport import KeyScrubber

SECONDS = 5.0
"""Timeout of the whole check: name lookup, connection, TLS and reply."""
REFUSED = (401, 403)


class ConnectivityResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result of one connectivity check."""

    host: str
    """With the proxy, if there is one."""
    seconds: float = 0.0
    status: int = 0
    """HTTP status; 0 without an answer."""
    date: str = ""
    """Provider's Date header."""
    problem: str = ""
    hint: str = ""


async def ask_for_models(provider: ProviderPlan, *, environ: Mapping[str, str], seconds: float = SECONDS) -> ConnectivityResult:
    """Request the list of models; the key is sent only where a run would send it."""
    problems = endpoint_problems(provider, environ)
    if problems:
        return ConnectivityResult(host=provider.base_url, problem=problems[0], hint="set it, or correct the run file")
    endpoint = resolve_endpoint(provider, environ)
    start = time.perf_counter()
    if not endpoint.models_path:
        # Without a list of models only a call that costs something would show more.
        problem = await open_socket(endpoint)
        hint = "check the network, the address and the proxy settings" if problem else ""
        return ConnectivityResult(host=_host(endpoint), seconds=time.perf_counter() - start, problem=problem, hint=hint)
    try:
        reply = await _request_models(endpoint, seconds)
    except (ExchangeFailed, OSError) as problem:
        return _failure_result(endpoint, problem, seconds)
    return _reply_result(endpoint, reply, time.perf_counter() - start)


async def _request_models(endpoint: Endpoint, seconds: float) -> HttpReply:
    pool = HttpPool(endpoint.url, seconds=seconds, proxy=endpoint.proxy)
    try:
        headers = {"Accept": "application/json", "User-Agent": f"assay/{__version__}", **endpoint.headers}
        async with asyncio.timeout(seconds):
            return await pool.send(pool.head("GET", endpoint.at(endpoint.models_path), headers) + b"\r\n")
    finally:
        await pool.close()


def _failure_result(endpoint: Endpoint, problem: ExchangeFailed | OSError, seconds: float) -> ConnectivityResult:
    hint = "check the network, the address and the proxy settings"
    if isinstance(problem, ssl.SSLCertVerificationError):
        message = f"its certificate is not trusted: {problem.verify_message or problem.reason}"
        hint = "name the CA that signed it, such as that of your proxy, with SSL_CERT_FILE or REQUESTS_CA_BUNDLE"
    elif isinstance(problem, ssl.SSLError):
        message = f"TLS failed: {problem.reason or problem}"
    elif isinstance(problem, TimeoutError) and problem.errno is None:
        message = f"no answer within {seconds:g} s"
    else:
        message = f"no connection: {_reason(problem)}"
    return ConnectivityResult(host=_host(endpoint), problem=KeyScrubber(endpoint.secrets()).text(message), hint=hint)


def _reason(problem: ExchangeFailed | OSError) -> str:
    # asyncio replaces the system's texts by its own; errors of name lookup have negative numbers.
    number = getattr(problem, "errno", None) or 0
    return (os.strerror(number) if number > 0 else getattr(problem, "strerror", None) or str(problem)).lower()


def _reply_result(endpoint: Endpoint, reply: HttpReply, seconds: float) -> ConnectivityResult:
    found = ConnectivityResult(host=_host(endpoint), seconds=seconds, status=reply.status, date=reply.headers.get("date", "")[:40])
    if reply.status in REFUSED:
        hint = "make a new key, or set the variable to the right one"
        return msgspec.structs.replace(found, problem=f"the key is refused (HTTP {reply.status})", hint=hint)
    if reply.status >= 500:
        return msgspec.structs.replace(found, problem=f"it answers with HTTP {reply.status}", hint="try again later")
    return found


def _host(endpoint: Endpoint) -> str:
    """Name the hosts only: neither a path nor a proxy's password."""
    host = urlsplit(endpoint.url).netloc.rpartition("@")[2]
    return f"{host} through the proxy {urlsplit(endpoint.proxy).netloc.rpartition('@')[2]}" if endpoint.proxy else host
