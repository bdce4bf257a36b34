"""Addresses of MLflow: what can be one, and how it is shown without what must not be repeated."""

import os
import re
import socket
from importlib.metadata import entry_points
from urllib.parse import SplitResult, parse_qsl, urlsplit

from assay.core.errors import ServerProblem, UsageProblem
from assay.core.secrets import forms_of, login_secrets

WEB = ("http", "https")
SCHEMES = (*WEB, "", "file", "databricks", "databricks-uc", "uc", "sqlite", "postgresql", "mysql", "mssql")
"""Beginnings of addresses that MLflow takes; packages that it finds by their entry points take others."""
_PORTS = {"postgresql": 5432, "mysql": 3306}
"""Where databases listen unless their address says otherwise."""
KNOCK_SECONDS = 5
SHORTEST_SECRET = 4
"""Characters of a password from which it is looked for in messages; shorter ones are in every other word."""
LONGEST_REASON = 500
_SECRETS = ("MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN")
_WITH_HOST = re.compile(r"([^:/?#]*://)([^/].*)", re.DOTALL)
_LOGIN = re.compile(r"[^/]*:.*@", re.DOTALL)


def shown_uri(uri: str) -> str:
    """An address as it may be shown, however it is written: without user name, password and query."""
    with_host = _WITH_HOST.fullmatch(uri)
    if with_host is None:
        # A path, or somebody has left out the beginning.
        return (uri if "://" in uri else _LOGIN.sub("", uri, count=1)).partition("?")[0]
    scheme, rest = with_host.groups()
    # Where it is no proper address, the password may hold what ends one: everything up to the last @ goes.
    host = re.split(r"[/?#]", rest, maxsplit=1)[0] if _is_proper(uri) else rest
    return scheme + re.split(r"[?#]", rest[host.rfind("@") + 1 :], maxsplit=1)[0]


def _is_proper(uri: str) -> bool:
    try:
        address = urlsplit(uri)
        # It is read only here.
        return (address.port or 1) > 0 and bool(address.hostname) and "@" not in address.query + address.fragment
    except ValueError:
        return False


def check_uri(uri: str) -> None:
    """Raise UsageProblem for what can be no address of MLflow."""
    address = _split(uri)
    scheme = address.scheme.partition("+")[0]
    # One letter is a drive, and what follows is a path.
    if scheme not in SCHEMES and len(scheme) > 1 and scheme not in entry_points(group="mlflow.tracking_store").names:
        raise UsageProblem(
            f"'{shown_uri(uri)}' is no address that MLflow takes: nothing is known of '{scheme}://'",
            hint="write http://localhost:5000, sqlite:///mlflow.db, or what else `mlflow server` would take",
        )
    if scheme in WEB and not _is_proper(uri):
        raise _malformed(uri)


def _split(uri: str) -> SplitResult:
    try:
        return urlsplit(uri)
    except ValueError:
        raise _malformed(uri) from None


def _malformed(uri: str) -> UsageProblem:
    return UsageProblem(
        f"'{shown_uri(uri)}' is a malformed address of MLflow",
        hint="write http://host:port; in a user name or password /, ?, # and @ are written as %2F, %3F, %23 and %40",
    )


def check_database_reachable(uri: str) -> None:
    """Raise ServerProblem at once where the database of an address does not answer: MLflow would try for minutes."""
    address = urlsplit(uri)
    scheme = address.scheme.partition("+")[0]
    if scheme not in _PORTS or not _is_proper(uri):
        return
    try:
        socket.create_connection((address.hostname or "", address.port or _PORTS[scheme]), timeout=KNOCK_SECONDS).close()
    except OSError as problem:
        raise ServerProblem(f"no database answers at {shown_uri(uri)} ({problem.strerror or problem})") from None


def scrubbed(text: str, uri: str) -> str:
    """What MLflow says, in one line of bounded length, without the secrets of the address and of the environment."""
    address = urlsplit(uri)
    asked = (value for _, value in parse_qsl(address.query))
    secrets = (*login_secrets(address)[1:], *asked, *(os.environ.get(name, "") for name in _SECRETS))
    forms = {form for secret in secrets if len(secret) >= SHORTEST_SECRET for form in forms_of(secret)}
    text = text.replace(uri, shown_uri(uri))
    for form in sorted(forms, key=len, reverse=True):
        text = text.replace(form, "***")
    return " ".join(text.split())[:LONGEST_REASON]
