"""Proxies of the environment, and the hosts that bypass them, as curl and requests understand them."""

import re
from collections.abc import Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import SplitResult, urlsplit

from assay.core.secrets import login_secrets

_VARIABLES = ("http_proxy", "https_proxy", "all_proxy")
_ENTRY = re.compile(r"(?:\[(?P<address>[^\]]*)\]|(?P<name>[^:]*))(?::(?P<port>[0-9]+))?")
"""Entry of a list of hosts: `host`, `host:port`, `[::1]` or `[::1]:port`; a bare `::1` has no port."""


def proxy_of(target: SplitResult, environ: Mapping[str, str]) -> str:
    """Return the address of the proxy for a host; empty when it is reached directly."""
    excluded = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
    port = target.port or (443 if target.scheme == "https" else 80)
    # Exceptions come first, as everywhere: the proxy must not learn the name of an internal host.
    if any(_covers(entry, target.hostname or "", port) for entry in re.split(r"[,\s]+", excluded)):
        return ""
    return _proxy(f"{target.scheme}_proxy", environ) or _proxy("all_proxy", environ)


def proxy_secrets(environ: Mapping[str, str]) -> tuple[str, ...]:
    """List the passwords of all proxies in the environment; user names are left out, since one may be a word of any answer."""
    found: list[str] = []
    for variable in _VARIABLES:
        try:
            address = urlsplit(_proxy(variable, environ))
            found += login_secrets(address)[1:] if address.password else ()
        except ValueError:
            # An invalid address is reported before anything is sent.
            continue
    return tuple(found)


def _proxy(variable: str, environ: Mapping[str, str]) -> str:
    # Under CGI a request header can set the upper-case HTTP_PROXY (httpoxy), so it is ignored there, as curl does.
    upper = "" if variable == "http_proxy" and "REQUEST_METHOD" in environ else environ.get(variable.upper(), "")
    proxy = (environ.get(variable) or upper).strip()
    return proxy if "://" in proxy or not proxy else f"http://{proxy}"


def _covers(entry: str, host: str, port: int) -> bool:
    """Return whether an entry covers a host: the same name or a parent domain, its network, or every host."""
    parts = _ENTRY.fullmatch(entry)
    name = (parts["address"] or parts["name"] or "") if parts else entry
    if parts and parts["port"] and int(parts["port"]) != port:
        return False
    if name == "*":
        return True
    address = _address(host)
    # Never by its end, as names are: 10.0.0.1 is not below 0.0.1.
    if address is not None:
        return _holds(name, address)
    # A leading dot or star and a trailing dot make no difference.
    domain = _ascii(name.removeprefix("*").strip("."))
    return bool(domain) and f".{_ascii(host.rstrip('.'))}".endswith(f".{domain}")


def _address(host: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None


def _holds(name: str, address: IPv4Address | IPv6Address) -> bool:
    try:
        return address in ip_network(name, strict=False)
    except ValueError:
        return False


def _ascii(name: str) -> str:
    """Encode the name as for a lookup."""
    try:
        return name.lower().encode("idna").decode()
    except UnicodeError:
        return name.lower()
