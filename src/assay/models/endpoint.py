"""Endpoint of a provider: address, headers, key and proxy, from the plan and the environment."""

import asyncio
import re
from collections.abc import Mapping
from urllib.parse import SplitResult, quote, urlsplit

import msgspec

from assay.core.errors import UsageProblem
from assay.core.http_template import variables_in
from assay.core.plan import ProviderPlan
from assay.core.provider import ENDPOINT, KEY_MARK, MODEL_MARK, PROVIDERS, ProviderKind, Vendor, is_bare
from assay.core.secrets import header_secrets, login_secrets
from assay.core.tls import bundle_problem, client_context
from assay.models.failures import reason_of
from assay.models.proxies import proxy_of, proxy_secrets

CONNECT_SECONDS = 10.0
"""Seconds for a connection test of a provider."""

_SECRET_HEADER = r"(?i)auth|key|token|secret|cookie"
_FRAMING_HEADERS = frozenset({"content-length", "transfer-encoding"})
"""They delimit the request, so a plan must not set them."""
_HEADER_NAME = r"[A-Za-z0-9!#$%&'*+.^_`|~-]+"
_HEADER_VALUE = r"[\t\x20-\x7e\xa0-\xff]*"


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """HTTP settings of one provider. Never stored: it holds the key."""

    provider: str
    kind: ProviderKind
    url: str
    """Base URL, to which paths are added."""
    key: str = ""
    headers: dict[str, str] = {}
    """Headers of the protocol, with the key, and of the plan."""
    models_path: str = ""
    """Path of the list of models."""
    timeout: float = 120.0
    proxy: str = ""
    is_vendor: bool = False
    """True for the vendor's own host, whose features are known."""
    header_secrets: tuple[str, ...] = ()
    """Values of headers that must not appear in any message."""

    def __repr__(self) -> str:
        """Leave out every member that may hold a key."""
        return f"Endpoint(provider={self.provider!r}, kind={self.kind!r}, url={self.url!r})"

    def secrets(self) -> tuple[str, ...]:
        """List what must not appear in any message: the key, secret headers, and the proxy's user name and password."""
        return tuple(filter(None, (self.key, *self.header_secrets, *login_secrets(urlsplit(self.proxy)))))

    def at(self, path: str, *, model: str = "") -> str:
        """Build the URL of one of the provider's paths, with the model where the address or the path contains it."""
        parts = urlsplit(self.url)
        return parts._replace(path=(parts.path.rstrip("/") + path).replace(MODEL_MARK, quote(model, safe=""))).geturl()


def resolve_endpoint(provider: ProviderPlan, environ: Mapping[str, str]) -> Endpoint:
    """Resolve the endpoint of an HTTP provider; raises UsageProblem for the first of its `endpoint_problems`."""
    problems = endpoint_problems(provider, environ)
    if problems:
        raise UsageProblem(problems[0])
    url = _url(provider)
    variable = _key_variable(provider)
    key = environ.get(variable, "").strip() if variable else ""
    return Endpoint(
        provider=provider.name,
        kind=provider.kind,
        url=url,
        key=key,
        headers={
            **_protocol_headers(_vendor(provider), key),
            **{name: header_value(value, environ) for name, value in provider.headers.items()},
        },
        models_path=_vendor(provider).models_path,
        timeout=provider.timeout,
        proxy=proxy_of(urlsplit(url), environ),
        is_vendor=_is_vendor(provider, url),
        header_secrets=_header_secrets(provider, environ),
    )


def provider_secrets(provider: ProviderPlan, environ: Mapping[str, str]) -> tuple[str, ...]:
    """List every secret that a provider may be called with, so that none is stored."""
    vendor = PROVIDERS[provider.kind].vendor
    variable = provider.key_variable or (vendor.key_variable if vendor else "")
    found = (environ.get(variable, "").strip(), *_header_secrets(provider, environ), *proxy_secrets(environ))
    return tuple(filter(None, found))


def unencrypted_proxy(provider: ProviderPlan, environ: Mapping[str, str]) -> str:
    """Return the host of the proxy that reads requests to a provider, whose address has no TLS; empty if there is none."""
    target = urlsplit(_url(provider))
    return urlsplit(proxy_of(target, environ)).hostname or "" if target.scheme == "http" else ""


def endpoint_problems(provider: ProviderPlan, environ: Mapping[str, str]) -> list[str]:
    """List why a provider cannot be called as planned, one sentence each; no sentence holds a key."""
    broken = _url_problems(provider, _url(provider))
    return broken or [
        *_proxy_problems(provider, environ),
        *_tls_problems(_url(provider)),
        *key_problems(provider, environ),
        *_header_problems(provider, environ),
        *_stray_key_problems(provider),
    ]


def key_problems(provider: ProviderPlan, environ: Mapping[str, str]) -> list[str]:
    """List why there is no key, if the plan names one or the vendor requires one."""
    variable = _key_variable(provider)
    key = environ.get(variable, "").strip() if variable else ""
    if key and not (key.isascii() and key.isprintable()):
        return [f"the environment variable {variable} holds characters that no key has"]
    if variable and not key:
        return [f"the environment variable {variable} with the key of provider '{provider.name}' is not set"]
    return []


def _stray_key_problems(provider: ProviderPlan) -> list[str]:
    """List the keys of one vendor that would be sent to another one's host."""
    host = urlsplit(_url(provider)).hostname or ""
    hosts = {kind: row.vendor for kind, row in PROVIDERS.items() if row.vendor and row.vendor.is_own_host(host)}
    # OpenAI's two kinds share a key: the first one names it.
    owners = {name: kind for kind, row in reversed(PROVIDERS.items()) if row.vendor for name in row.vendor.key_variables()}
    if not hosts:
        return []
    right = {name for vendor in hosts.values() for name in vendor.key_variables()}
    return [
        f"{name} is the key of {owners[name]}, and {host} is the host of {next(iter(hosts))}; name another variable"
        for name in key_variables(provider)
        if name in owners and name not in right
    ]


def _tls_problems(url: str) -> list[str]:
    problem = bundle_problem() if urlsplit(url).scheme == "https" else None
    return [] if problem is None else [problem.message]


async def open_socket(endpoint: Endpoint) -> str:
    """Open and close a connection; returns a sentence on the failure, or an empty text. Sends no request."""
    target = urlsplit(endpoint.proxy or endpoint.url)
    port = target.port or (443 if target.scheme == "https" else 80)
    context = client_context() if target.scheme == "https" else None
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            _, writer = await asyncio.open_connection(target.hostname, port, ssl=context)
    except TimeoutError:
        return (
            f"the provider '{endpoint.provider}' did not accept a connection to {target.hostname}:{port} in {CONNECT_SECONDS:g} s"
        )
    except OSError as problem:
        return f"the provider '{endpoint.provider}' cannot be reached at {target.hostname}:{port}: {reason_of(problem)}"
    writer.transport.abort()
    return ""


def _vendor(provider: ProviderPlan) -> Vendor:
    row = PROVIDERS[provider.kind]
    vendor = ENDPOINT if row.is_described else row.vendor
    assert vendor is not None, f"{provider.kind} is not spoken to over HTTP"
    return vendor


def _url(provider: ProviderPlan) -> str:
    """Return the URL by the plan alone, never the environment: cached replies are found by the plan, and must be from its host."""
    vendor = _vendor(provider)
    url = provider.base_url or vendor.url
    return url.rstrip("/") + vendor.version_path if is_bare(url) and vendor.version_path else url


def _protocol_headers(vendor: Vendor, key: str) -> dict[str, str]:
    return {name: value.replace(KEY_MARK, key) for name, value in vendor.headers.items() if key or KEY_MARK not in value}


def _is_vendor(provider: ProviderPlan, url: str) -> bool:
    """Return whether the URL is the vendor's host over TLS at its standard port: the vendor's key is sent only there."""
    parts = urlsplit(url)
    is_secure = parts.scheme == "https" and parts.port in (None, 443)
    return is_secure and _vendor(provider).is_own_host(parts.hostname or "")


def _key_variable(provider: ProviderPlan) -> str:
    """Return the variable of the key; the vendor's is not used for a host that the plan names, so no key goes to another host."""
    if provider.key_variable:
        return provider.key_variable
    vendor = PROVIDERS[provider.kind].vendor
    return vendor.key_variable if vendor and _is_vendor(provider, _url(provider)) else ""


_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def header_value(value: str, environ: Mapping[str, str]) -> str:
    """Resolve `$TEAM_KEY`, or `${TEAM_KEY}` within a text, from the environment, so that no secret is in a plan."""
    if _VARIABLE.search(value):
        return _VARIABLE.sub(lambda match: environ.get(match[1], "").strip(), value)
    return environ.get(value[1:], "").strip() if value.startswith("$") else value


def _header_variables(value: str) -> list[str]:
    found: list[str] = _VARIABLE.findall(value)
    return found or ([value[1:]] if value.startswith("$") else [])


def _header_secrets(provider: ProviderPlan, environ: Mapping[str, str]) -> tuple[str, ...]:
    """List the secrets in header values that come from the environment or whose names mark them as secret, and in templates."""
    named = [value for name, value in provider.headers.items() if _header_variables(value) or re.search(_SECRET_HEADER, name)]
    found = [secret for value in named for secret in header_secrets(header_value(value, environ))]
    variables = [variable for value in named for variable in _VARIABLE.findall(value)]
    values = (environ.get(name, "").strip() for name in (*variables, *template_variables(provider)))
    return (*found, *filter(None, values))


def template_variables(provider: ProviderPlan) -> tuple[str, ...]:
    """List the environment variables in the address and the body of an HTTP endpoint."""
    return variables_in([provider.base_url, provider.body]) if PROVIDERS[provider.kind].is_described else ()


def key_variables(provider: ProviderPlan) -> tuple[str, ...]:
    """List the environment variables that may hold keys in a provider's requests."""
    in_headers = (name for value in provider.headers.values() for name in _header_variables(value))
    return tuple(dict.fromkeys(filter(None, (_key_variable(provider), *in_headers, *template_variables(provider)))))


def _url_problems(provider: ProviderPlan, url: str) -> list[str]:
    vendor = _vendor(provider)
    if not provider.base_url and PROVIDERS[provider.kind].is_described:
        return [f"the HTTP endpoint '{provider.name}' has no url"]
    if not provider.base_url and vendor.has_no_address:
        missing = vendor.missing_address()
        return [f"the provider '{provider.name}' has no address: set the environment variable {missing}, or its base_url"]
    try:
        parts = urlsplit(url)
        is_usable = parts.scheme in ("http", "https") and bool(_name(parts)) and parts.port != 0
    except ValueError:
        return [f"the base_url of provider '{provider.name}' is not a URL"]
    if parts.username or parts.password or (not is_usable and "@" in url):
        return [f"the base_url of provider '{provider.name}' holds a user name or password; name a key variable instead"]
    return [] if is_usable else [f"the base_url '{url}' of provider '{provider.name}' is not an http or https address"]


def _name(parts: SplitResult) -> bytes:
    """Encode the host name for a lookup; raises ValueError for an invalid one."""
    return (parts.hostname or "").encode("idna")


def _proxy_problems(provider: ProviderPlan, environ: Mapping[str, str]) -> list[str]:
    """Check the proxy's address without quoting it, since it may hold a password."""
    proxy = proxy_of(urlsplit(_url(provider)), environ)
    try:
        parts = urlsplit(proxy)
        is_usable = parts.scheme in ("http", "https") and bool(_name(parts)) and parts.port != 0
    except ValueError:
        is_usable = False
    if is_usable or not proxy:
        return []
    return [f"the proxy of the environment for provider '{provider.name}' is not an http or https address; others are not spoken"]


def _header_problems(provider: ProviderPlan, environ: Mapping[str, str]) -> list[str]:
    problems = [
        f"the environment variable {variable} for the requests of provider '{provider.name}' is not set"
        for variable in template_variables(provider)
        if not environ.get(variable, "").strip()
    ]
    for name, value in provider.headers.items():
        unset = [variable for variable in _header_variables(value) if not environ.get(variable)]
        if unset:
            problems.append(f"the environment variable {unset[0]} for the header {name!r} of provider '{provider.name}' is not set")
        elif name.lower() in _FRAMING_HEADERS or not (
            re.fullmatch(_HEADER_NAME, name) and re.fullmatch(_HEADER_VALUE, header_value(value, environ))
        ):
            problems.append(f"the header {name!r} of provider '{provider.name}' cannot be sent")
    return problems
