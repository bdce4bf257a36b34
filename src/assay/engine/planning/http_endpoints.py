"""Checks of the entries that describe HTTP endpoints in a run file."""

import re
from collections.abc import Iterator, Mapping
from urllib.parse import parse_qsl, urlsplit

import msgspec

from assay.core.http_template import slot_problem, slots_in, variables_in, without_tokens
from assay.core.json_path import path_problem
from assay.core.provider import PROVIDERS, ProviderKind
from assay.core.settings import DESCRIPTION, ProviderEntry, UsagePaths

Problem = tuple[tuple[str, ...], str]
"""Path of the member within its entry, and what is wrong with it."""


def entry_problems(entry: ProviderEntry, kind: ProviderKind) -> Iterator[Problem]:
    """List what is wrong with a provider's entry, besides the types of its members."""
    given = [name for name in DESCRIPTION if getattr(entry, name) is not msgspec.UNSET]
    if not PROVIDERS[kind].is_described:
        yield from (((name,), f"'{name}' describes an HTTP endpoint; set kind: http, or leave it out") for name in given)
        return
    if entry.base_url:
        yield ("base_url",), "an entry of kind http has its whole address in url; leave base_url out"
    is_get = entry.method == "GET"
    needed = ("url", "answer") if is_get else ("url", "body", "answer")
    for name in needed:
        if name not in given:
            yield (), f"the HTTP endpoint '{entry.name}' needs '{name}'{_EXAMPLES[name]}"
    if is_get and entry.body:
        yield ("body",), "a GET request has no body; put the values into url"
    yield from _template_problems(entry)
    yield from _path_problems(entry)


_EXAMPLES = {
    "url": ", the address that is called",
    "body": ", such as {question: '{{prompt}}'}",
    "answer": ", the path of the answer in the reply, such as $.output.text",
}


def _template_problems(entry: ProviderEntry) -> Iterator[Problem]:
    url = entry.url or ""
    host = urlsplit(url).netloc
    if slots_in(host) or variables_in(host):
        yield ("url",), "the host of url must be fixed: a key may go to no other host"
    used: set[str] = set()
    for member, template in {"url": url, "headers": list(entry.headers.values()), "body": entry.body or {}}.items():
        slots = slots_in(template)
        used |= {slot.partition(".")[0] for slot in slots}
        yield from (((member,), problem) for problem in map(slot_problem, slots) if problem)
    if (entry.body or url) and not used & {"prompt", "messages"}:
        yield (
            ("body",),
            f"the requests of '{entry.name}' hold neither {{{{prompt}}}} nor {{{{messages}}}}, so that every record is the same",
        )
    if entry.session and "session" not in used:
        yield ("session",), "the id of a session is read but not sent; add {{session}} to body, url or headers"


def _path_problems(entry: ProviderEntry) -> Iterator[Problem]:
    paths: dict[tuple[str, ...], str] = {(name,): getattr(entry, name) or "" for name in ("answer", "error", "steps", "session")}
    usage = entry.usage or UsagePaths()
    if isinstance(usage, str):
        paths["usage",] = usage
    else:
        paths |= {("usage", name): path or "" for name, path in msgspec.structs.asdict(usage).items()}
    for member, path in paths.items():
        problem = path_problem(path) if path else ""
        if problem:
            yield member, problem


def literal_secrets(provider: Mapping[str, object], *, key_names: str, key_values: str) -> Iterator[tuple[str, ...]]:
    """Find keys that are written into the address or the body of an endpoint, by the paths of their members."""
    url = provider.get("url")
    if isinstance(url, str):
        for name, value in parse_qsl(urlsplit(url).query):
            if is_secret(name, value, key_names=key_names, key_values=key_values):
                yield ("url",)
    body = provider.get("body")
    yield from (("body", *path) for path in _secrets_in(body, key_names, key_values)) if isinstance(body, dict) else ()


def _secrets_in(value: Mapping[str, object], key_names: str, key_values: str) -> Iterator[tuple[str, ...]]:
    for name, member in value.items():
        if isinstance(member, dict):
            yield from ((name, *path) for path in _secrets_in(member, key_names, key_values))
        elif isinstance(member, str) and is_secret(name, member, key_names=key_names, key_values=key_values):
            yield (name,)


def is_secret(name: str, value: str, *, key_names: str, key_values: str) -> bool:
    """Return whether a value seems to be a key: by its form, or by its name where it is not taken from elsewhere."""
    if re.search(key_values, without_tokens(value)):
        return True
    is_taken = slots_in(value) or variables_in(value)
    return bool(re.search(key_names, name)) and not is_taken and not name.endswith("tokens")
