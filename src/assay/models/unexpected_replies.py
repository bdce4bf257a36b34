"""Explanation of replies that no provider's protocol has: web pages, redirects, streams, another vendor's format, a wrong path.

An explanation says what was received and what to set; it holds titles and names, never contents or the query of an address.
"""

import json
import re
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

import msgspec

from assay.core.provider import PROVIDERS, ProviderKind
from assay.models.endpoint import Endpoint
from assay.models.failures import shorten
from assay.models.http_client import HttpReply

_SEARCHED = 20_000
"""Maximum characters of a page that are searched."""
_MAX_TITLE, _MAX_ADDRESS = 80, 200
_TITLE = re.compile(r"<title[^>]{0,200}>([^<]{1,500})", re.IGNORECASE)
_LOGIN = re.compile(
    r"type\s*=\s*[\"']?password|\bsign[ -]?in\b|\blog[ -]?in\b|single sign-on|\b(?:sso|saml|oauth2?)\b", re.IGNORECASE
)
_PROXY = re.compile(
    r"\bproxy\b|squid|zscaler|forcepoint|blue ?coat|netskope|web (?:filter|gateway)|the requested url could not be retrieved",
    re.IGNORECASE,
)
_PROXY_HEADERS = ("x-squid-error", "proxy-authenticate")
_PATHS = re.compile(r"/(?:chat/completions|responses|messages|models/[^/]+:generateContent|model/[^/]+/converse)/?$")
"""Paths that are added to a base_url."""
_VERSION = re.compile(r"/v\d[^/]*(?:/|$)")
PROXY_LOGIN = 407


class UnexpectedReply(msgspec.Struct, frozen=True):
    """What was received, and what to do about it."""

    says: str
    hint: str = ""

    def __str__(self) -> str:
        return f"{self.says}; {self.hint}" if self.hint else self.says


def is_page(body: bytes) -> bool:
    """Return whether a body is a page of HTML."""
    start = body[:2000].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    return start[:1] == b"<" and (b"<html" in start or start.startswith(b"<!doctype html"))


def page_title(body: bytes) -> str:
    """Quote the title of a page, which names a login or a proxy: ` ('Sign in')`; empty without one."""
    match = _TITLE.search(body[:_SEARCHED].decode("utf-8", "replace"))
    return f" ('{shorten(match[1])[:_MAX_TITLE]}')" if match and match[1].strip() else ""


def unexpected_status(reply: HttpReply, body: bytes, endpoint: Endpoint) -> UnexpectedReply | None:
    """Explain a reply with another status than success; None where the provider's own words say enough."""
    if 300 <= reply.status < 400:
        return _redirect(reply, endpoint)
    if reply.status == PROXY_LOGIN:
        return UnexpectedReply("the proxy wants a login", "put it into the proxy's address: http://USER:PASSWORD@HOST:PORT")
    if is_page(body):
        return _page(reply, body, endpoint)
    if reply.status in (401, 403) and not endpoint.key and not endpoint.header_secrets:
        return UnexpectedReply("", f"no key was sent to {_host(endpoint)}: name its environment variable in key_variable")
    if reply.status in (404, 405) and not _names_model(body):
        return UnexpectedReply("", path_hint(endpoint))
    return None


def unreadable(reply: HttpReply, body: bytes, endpoint: Endpoint) -> UnexpectedReply | None:
    """Explain a successful reply that is not JSON; None for JSON that is only broken."""
    media_type = reply.headers.get("content-type", "").partition(";")[0].strip().lower()
    if not body.strip():
        return UnexpectedReply("it is empty", path_hint(endpoint))
    if is_page(body):
        return _page(reply, body, endpoint)
    if media_type == "text/event-stream" or re.match(rb"\s*(?:data|event|id): ?", body):
        where = "body" if PROVIDERS[endpoint.kind].is_described else "extra_body"
        return UnexpectedReply("it is a stream of events", f"set stream: false in {where}")
    if body.lstrip()[:1] not in b'{["' and not media_type.endswith("json"):
        said = f" of the type {media_type[:40]}" if media_type else ""
        return UnexpectedReply(f"it is a text{said}, not JSON", path_hint(endpoint))
    return None


def other_format(body: bytes, endpoint: Endpoint) -> UnexpectedReply | None:
    """Name the protocol of a reply that has another one's format; None for a format that is not known."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    found = next(((name, kind) for name, kind, is_of in _FORMATS if is_of(value)), None)
    if found is None:
        return None
    name, kind = found
    if kind is not None and PROVIDERS[kind].home == PROVIDERS[endpoint.kind].home:
        return None
    if kind is None:
        return UnexpectedReply(f"it is {name}", path_hint(endpoint))
    return UnexpectedReply(f"it is a reply of {name}", f"set kind: {kind} for provider '{endpoint.provider}', or another base_url")


def path_hint(endpoint: Endpoint) -> str:
    """Describe what may be wrong with the address."""
    path = urlsplit(endpoint.url).path
    row = PROVIDERS[endpoint.kind]
    if row.is_described:
        return "is url the address of the API?"
    ending = _PATHS.search(path)
    if ending:
        return f"base_url ends in {ending[0]}, which is added to it: leave that out"
    usual = _VERSION.search(urlsplit(row.vendor.url).path) if row.vendor else None
    if usual and not _VERSION.search(path):
        return f"is the base_url missing {usual[0].rstrip('/')}?"
    return "is base_url the address of the API?"


def _redirect(reply: HttpReply, endpoint: Endpoint) -> UnexpectedReply:
    """Explain a redirect, which no key follows: its target is shown without the query, which may hold a token."""
    location = reply.headers.get("location", "")
    try:
        target = urlsplit(location)
        is_whole = target.scheme in ("http", "https") and bool(target.hostname)
    except ValueError:
        is_whole = False
    if not is_whole:
        return UnexpectedReply("it redirects", "set base_url to the address of the API: no key follows a redirect")
    authority = target.netloc.rpartition("@")[2]
    shown = shorten(f"{target.scheme}://{authority}{target.path}")[:_MAX_ADDRESS]
    if _LOGIN.search(f"{target.path.replace('/', ' ').replace('_', ' ')} {target.hostname}"):
        return UnexpectedReply(f"it redirects to a login ({shown})", _login_hint(endpoint))
    setting = "url" if PROVIDERS[endpoint.kind].is_described else "base_url"
    address = shown if setting == "url" else _PATHS.sub("", shown)
    return UnexpectedReply(f"it redirects to {shown}", f"if that is the API, set {setting}: {address} (no key follows a redirect)")


def _page(reply: HttpReply, body: bytes, endpoint: Endpoint) -> UnexpectedReply:
    text = body[:_SEARCHED].decode("utf-8", "replace")
    title = page_title(body)
    if any(name in reply.headers for name in _PROXY_HEADERS) or _PROXY.search(text) or (endpoint.proxy and reply.status >= 400):
        host = _host(endpoint)
        hint = f"add {host} to NO_PROXY, or correct HTTP_PROXY and HTTPS_PROXY" if endpoint.proxy else f"it answers for {host}"
        return UnexpectedReply(f"it is the page of a proxy{title}", hint)
    if _LOGIN.search(text):
        return UnexpectedReply(f"it is a login page{title}", _login_hint(endpoint))
    hint = "" if reply.status >= 500 else path_hint(endpoint)
    return UnexpectedReply(f"it is a web page{title}", hint)


def _login_hint(endpoint: Endpoint) -> str:
    setting = "url" if PROVIDERS[endpoint.kind].is_described else "base_url"
    return f"set {setting} to the address of the API, and send what it wants of a login in headers"


def _names_model(body: bytes) -> bool:
    return re.search(rb"\b(?:model|deployment|engine)s?\b", body[:_SEARCHED], re.IGNORECASE) is not None


def _host(endpoint: Endpoint) -> str:
    return urlsplit(endpoint.url).hostname or "the host"


def _first(value: Mapping[str, object], name: str) -> Mapping[str, object]:
    items = value.get(name)
    return items[0] if isinstance(items, list) and items and isinstance(items[0], dict) else {}


def _inner(value: Mapping[str, object], name: str) -> Mapping[str, object]:
    member = value.get(name)
    return member if isinstance(member, dict) else {}


def _is_message(value: Mapping[str, object]) -> bool:
    return value.get("type") == "message" and isinstance(value.get("content"), list)


def _is_completion(value: Mapping[str, object]) -> bool:
    return "message" in _first(value, "choices")


def _is_text_completion(value: Mapping[str, object]) -> bool:
    return "text" in _first(value, "choices")


def _is_response(value: Mapping[str, object]) -> bool:
    return value.get("object") == "response" or (isinstance(value.get("output"), list) and "type" in _first(value, "output"))


def _is_generated(value: Mapping[str, object]) -> bool:
    return "content" in _first(value, "candidates") or "promptFeedback" in value


def _is_conversed(value: Mapping[str, object]) -> bool:
    return "message" in _inner(value, "output")


def _is_ollama(value: Mapping[str, object]) -> bool:
    return "done" in value and ("message" in value or "response" in value)


def _is_list(value: Mapping[str, object]) -> bool:
    return value.get("object") == "list" and isinstance(value.get("data"), list)


_FORMATS: tuple[tuple[str, ProviderKind | None, Callable[[Mapping[str, object]], bool]], ...] = (
    ("Anthropic's messages", "anthropic", _is_message),
    ("chat completions", "openai", _is_completion),
    ("a reply of the older completions, which take no messages", None, _is_text_completion),
    ("OpenAI's responses", "openai_responses", _is_response),
    ("Google's generateContent", "google", _is_generated),
    ("Bedrock's Converse", "bedrock", _is_conversed),
    ("a reply of Ollama's own API", None, _is_ollama),
    ("a list, such as that of models", None, _is_list),
)
"""Formats by their protocol's name and kind, and how each is recognized."""
