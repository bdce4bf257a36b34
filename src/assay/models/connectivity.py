"""Connectivity check of a provider and its key: one request for the list of its models, which costs nothing."""

import asyncio
import os
import re
import ssl
import time
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

import msgspec

from assay.core.plan import ProviderPlan
from assay.core.version import __version__
from assay.models.endpoint import Endpoint, endpoint_problems, open_socket, resolve_endpoint
from assay.models.failures import ErrorResponse, shorten, status_failure
from assay.models.http_client import ExchangeFailed, HttpPool, HttpReply
from assay.models.model_list import MAX_PAGES, ListedModel, read_page
from assay.models.transport import KeyScrubber, decode_error
from assay.models.unexpected_replies import is_page

SECONDS = 5.0
"""Timeout of the whole check: name lookup, connection, TLS and reply."""
OK, PROXY_LOGIN = 200, 407
REFUSED = (401, 403)
_TITLE = re.compile(r"<title[^>]{0,200}>([^<]{1,500})", re.IGNORECASE)


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
    has_key: bool = False
    """A key was sent."""
    models: tuple[ListedModel, ...] = ()
    """Models that the provider lists."""
    note: str = ""
    """Why there is no list, where that is no problem."""


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
        return await _ask_all_pages(endpoint, seconds, start)
    except (ExchangeFailed, OSError) as problem:
        return _failure_result(endpoint, problem, seconds)


async def _ask_all_pages(endpoint: Endpoint, seconds: float, start: float) -> ConnectivityResult:
    """Request page after page; a later page that cannot be read leaves the list as long as it is."""
    pool = HttpPool(endpoint.url, seconds=seconds, proxy=endpoint.proxy)
    headers = {
        "Accept": "application/json",
        "Accept-Encoding": "identity",
        "User-Agent": f"assay/{__version__}",
        **endpoint.headers,
    }
    url = endpoint.at(endpoint.models_path)
    # Azure's addresses have a query of their own.
    separator = "&" if urlsplit(url).query else "?"

    async def request(query: str) -> HttpReply:
        address = f"{url}{separator}{query}" if query else url
        return await pool.send(pool.head("GET", address, headers) + b"\r\n")

    try:
        async with asyncio.timeout(seconds):
            first = await request("")
            found = _reply_result(endpoint, first, time.perf_counter() - start)
            # The first page decides whether the provider is well; the names of later ones are only for hints.
            page = read_page(first.body) if first.status == OK else None
            models = list(page.models) if page else []
            for _ in range(MAX_PAGES - 1):
                if page is None or not page.next_query:
                    break
                page = read_page((await request(page.next_query)).body)
                models += page.models if page else ()
    finally:
        await pool.close()
    return msgspec.structs.replace(found, models=_scrubbed(endpoint, models))


def _scrubbed(endpoint: Endpoint, models: Iterable[ListedModel]) -> tuple[ListedModel, ...]:
    """Return each listed model once, without keys: a server may repeat what it was sent anywhere in its reply."""
    scrubber = KeyScrubber(endpoint.secrets())
    # Pages may overlap when a model is published between two requests.
    by_id = {model.id: model for model in models}
    return tuple(ListedModel(scrubber.text(model.id), model.retires, scrubber.text(model.replacement)) for model in by_id.values())


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
    found = ConnectivityResult(
        host=_host(endpoint),
        seconds=seconds,
        status=reply.status,
        date=reply.headers.get("date", "")[:40],
        has_key=bool(endpoint.key or endpoint.header_secrets),
    )
    problem, hint = _reply_problem(endpoint, reply)
    if not problem and (reply.status != OK or read_page(reply.body) is None):
        # Servers of one's own often have no such list, and answer all the same.
        note = f"it has no list of models at {urlsplit(endpoint.at(endpoint.models_path)).path} (HTTP {reply.status})"
        return msgspec.structs.replace(found, note=note)
    return msgspec.structs.replace(found, problem=KeyScrubber(endpoint.secrets()).text(problem), hint=hint)


def _reply_problem(endpoint: Endpoint, reply: HttpReply) -> tuple[str, str]:
    """Describe a reply that no provider's API gives, and what to do; empty for a usual one."""
    if (reply.status in REFUSED and not is_page(reply.body)) or _refuses_key(endpoint, reply):
        return f"the key is refused (HTTP {reply.status})", "make a new key, or set the variable to the right one"
    if reply.status == PROXY_LOGIN:
        return f"the proxy wants a login (HTTP {reply.status})", "put it into the proxy's address: http://USER:PASSWORD@HOST:PORT"
    if 300 <= reply.status < 400:
        # Only the host: what follows it may hold a token.
        host = urlsplit(reply.headers.get("location", "")).hostname
        where = f" to {host}" if host and host != urlsplit(endpoint.url).hostname else ""
        return (
            f"it redirects{where} (HTTP {reply.status}), and no key follows a redirect",
            "set base_url to the address that it leads to, if that is the provider's",
        )
    if is_page(reply.body):
        hint = "base_url is not the address of an API, or a login or a proxy answers in its place"
        return f"it answers with a page of HTML{_title(reply)} (HTTP {reply.status})", hint
    if reply.status >= 500:
        return f"it answers with HTTP {reply.status}", "try again later"
    if reply.status == OK and not reply.body.lstrip().startswith((b"{", b"[")):
        hint = "base_url is not the address of an API of this kind; most end in /v1"
        return f"it answers with what is not JSON ({_content_type(reply)})", hint
    return "", ""


def _refuses_key(endpoint: Endpoint, reply: HttpReply) -> bool:
    """Return whether the words of a status 400 are about the key, as those of Google and xAI are."""
    if reply.status != 400:
        return False
    body = decode_error(reply.body)
    return status_failure(ErrorResponse(provider=endpoint.provider, status=400, body=body)).code == "unauthorized"


def _content_type(reply: HttpReply) -> str:
    return shorten(reply.headers.get("content-type", "without a content type"))[:80]


def _title(reply: HttpReply) -> str:
    """Quote the title of a page, which names the login or the proxy."""
    match = _TITLE.search(reply.body[:20_000].decode("utf-8", "replace"))
    return f" titled '{shorten(match[1])[:80]}'" if match and match[1].strip() else ""


def _host(endpoint: Endpoint) -> str:
    """Name the hosts only: neither a path nor a proxy's password."""
    host = urlsplit(endpoint.url).netloc.rpartition("@")[2]
    return f"{host} through the proxy {urlsplit(endpoint.proxy).netloc.rpartition('@')[2]}" if endpoint.proxy else host
