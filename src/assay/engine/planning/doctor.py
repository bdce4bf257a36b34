"""Checks of an installation before any paid call: environment, extras, keys, the folder of runs, providers."""

import asyncio
import platform
import re
import resource
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from email.utils import parsedate_to_datetime
from importlib import metadata
from pathlib import Path
from urllib.parse import urlsplit

from assay.core.plan import ProviderPlan
from assay.core.provider import PROVIDERS
from assay.core.settings import ProviderEntry
from assay.core.setup_checks import DoctorCheck
from assay.core.version import __version__
from assay.engine.planning.dataset_inputs import OWN_HANDLES
from assay.engine.planning.providers import provider_plan
from assay.models.connectivity import OK, ConnectivityResult, ask_for_models
from assay.store.folder_check import check_runs_folder

CONCURRENCY = 32
"""Calls in flight of a run by default."""
SQLITE = (3, 35)
RELEASED = 1_760_000_000.0
"""Seconds since 1970 before which no clock can be right: this code did not exist."""
SKEW = 120.0
"""Seconds that a clock may be off."""
_EXTRA = re.compile(r"(?P<name>[A-Za-z0-9._-]+)[^;]*;.*extra == ['\"](?P<extra>[\w-]+)['\"]")
USUAL_VENDORS = 3
"""Rows of the table whose keys have a line even where they are not set."""
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")


def examine(
    runs_dir: Path, *, providers: Sequence[ProviderPlan] = (), environ: Mapping[str, str], is_offline: bool = False
) -> Iterator[DoctorCheck]:
    """Yield every check in the order of a report; `providers` are those of a run file."""
    yield from _environment()
    yield from examine_extras(metadata.requires("assay") or ())
    yield from examine_keys(environ)
    yield from check_runs_folder(runs_dir)
    yield from examine_proxies(environ)
    # Only providers with an address can be asked.
    known = {provider.name: provider for provider in (*keyed_providers(environ), *providers) if PROVIDERS[provider.kind].is_remote}
    if is_offline:
        yield DoctorCheck(area="providers", name="none", standing="note", says="skipped (--offline)")
        yield examine_clock(time.time(), [])
        return
    reached = asyncio.run(_reach_all(list(known.values()), environ))
    yield from (_provider(name, found) for name, found in zip(known, reached, strict=True))
    # Pairs of a dict and a list keep the order of both.
    if not known:
        yield DoctorCheck(area="providers", name="none", standing="note", says="has a key; none was called")
    yield examine_clock(time.time(), [found.date for found in reached if found.date])


def _environment() -> Iterator[DoctorCheck]:
    yield DoctorCheck(area="environment", name="assay", says=__version__)
    yield DoctorCheck(area="environment", name="python", says=f"{platform.python_implementation()} {platform.python_version()}")
    yield DoctorCheck(area="environment", name="platform", says=platform.platform(terse=True))
    is_old = sqlite3.sqlite_version_info < SQLITE
    hint = f"use a Python with SQLite {'.'.join(map(str, SQLITE))} or newer" if is_old else ""
    yield DoctorCheck(
        area="environment", name="sqlite", standing="problem" if is_old else "ok", says=sqlite3.sqlite_version, hint=hint
    )
    yield examine_handles(*resource.getrlimit(resource.RLIMIT_NOFILE))


def examine_handles(soft: int, hard: int) -> DoctorCheck:
    """Check that as many files may be open as a usual run needs."""
    needed, is_unlimited = OWN_HANDLES + CONCURRENCY, resource.RLIM_INFINITY in (soft, hard)
    says = "no limit" if is_unlimited else f"{soft:,}, and up to {hard:,}"
    if is_unlimited or hard >= needed:
        return DoctorCheck(area="environment", name="open files", says=says)
    hint = f"raise the limit (ulimit -n {needed}), or run with --concurrency {max(1, hard - OWN_HANDLES)}"
    return DoctorCheck(area="environment", name="open files", standing="problem", says=says, hint=hint)


def examine_extras(requirements: Iterable[str]) -> Iterator[DoctorCheck]:
    """Check which optional parts are installed, by the requirements of a distribution."""
    needed: dict[str, list[str]] = {}
    for requirement in requirements:
        match = _EXTRA.match(requirement)
        if match:
            needed.setdefault(match["extra"], []).append(match["name"])
    for extra, names in sorted(needed.items()):
        versions = {name: _version(name) for name in names}
        missing = [name for name, version in versions.items() if not version]
        if missing:
            hint = f"pip install 'assay[{extra}]'"
            yield DoctorCheck(area="extras", name=extra, standing="note", says=f"without {', '.join(missing)}", hint=hint)
        else:
            yield DoctorCheck(area="extras", name=extra, says=", ".join(f"{name} {version}" for name, version in versions.items()))


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def examine_keys(environ: Mapping[str, str]) -> Iterator[DoctorCheck]:
    """Check which API keys are set: their names, never their values. Keys of vendors that few runs need share a line."""
    vendors = [row.vendor for row in PROVIDERS.values() if row.vendor]
    usual = {vendor.key_variable for vendor in vendors[:USUAL_VENDORS]}
    unset: list[str] = []
    for variable in dict.fromkeys(name for vendor in vendors for name in vendor.key_variables()):
        key = environ.get(variable, "")
        # A key that was pasted with a quote or a line break is refused by every provider, with a message about
        # the key itself.
        if key and not (key.isascii() and key.isprintable() and key.strip() == key):
            hint = f"copy the key again, without quotes, blanks or line breaks: export {variable}=..."
            yield DoctorCheck(area="keys", name=variable, standing="problem", says="set, but not as a key can be", hint=hint)
        elif key:
            yield DoctorCheck(area="keys", name=variable, says="set")
        elif variable in usual:
            yield DoctorCheck(
                area="keys", name=variable, standing="note", says="not set", hint=f"export {variable}=... to use its models"
            )
        else:
            unset.append(variable)
    if unset:
        yield DoctorCheck(area="keys", name="other keys", standing="note", says=f"not set: {', '.join(unset)}")


def keyed_providers(environ: Mapping[str, str]) -> list[ProviderPlan]:
    """Return the well-known providers whose key is set, or the address of a server that needs none, each once."""
    found = [
        provider_plan(ProviderEntry(name=kind), environ)
        for kind, row in PROVIDERS.items()
        if row.vendor and row.vendor.is_configured(environ)
    ]
    # OpenAI's two ways to ask are one host with one key. Reversed twice: of equals the first entry stays, in its place.
    return list({(provider.key_variable, provider.base_url): provider for provider in reversed(found)}.values())[::-1]


def examine_proxies(environ: Mapping[str, str]) -> Iterator[DoctorCheck]:
    """Check the proxies of the environment, without the passwords in their addresses."""
    for variable in _PROXIES:
        value = environ.get(variable, "").strip()
        if not value:
            continue
        try:
            # Proxies are often written without a scheme.
            address = urlsplit(value if "://" in value else f"http://{value}")
            host = address.netloc.rpartition("@")[2]
        except ValueError:
            address, host = None, ""
        if address is None or not address.hostname or address.scheme not in ("http", "https"):
            hint = "write http://HOST:PORT; other proxies are not spoken"
            yield DoctorCheck(area="network", name=variable, standing="problem", says="not an http or https address", hint=hint)
        else:
            login = "***@" if "@" in address.netloc else ""
            yield DoctorCheck(area="network", name=variable, says=f"{address.scheme}://{login}{host}")
    excluded = environ.get("no_proxy") or environ.get("NO_PROXY")
    if excluded:
        yield DoctorCheck(area="network", name="NO_PROXY", says=excluded)


async def _reach_all(providers: Sequence[ProviderPlan], environ: Mapping[str, str]) -> list[ConnectivityResult]:
    return list(await asyncio.gather(*(ask_for_models(provider, environ=environ) for provider in providers)))


def _provider(name: str, found: ConnectivityResult) -> DoctorCheck:
    if found.problem:
        # A provider without an address has no host.
        says = f"{found.host}: {found.problem}" if found.host else found.problem
        return DoctorCheck(area="providers", name=name, standing="problem", says=says, hint=found.hint)
    return DoctorCheck(area="providers", name=name, says=" · ".join(_provider_facts(found)))


def _provider_facts(found: ConnectivityResult) -> Iterator[str]:
    yield f"{found.host} answers in {found.seconds * 1000:,.0f} ms"
    if found.status == OK:
        yield "accepts the key" if found.has_key else "was sent no key"
    if found.models:
        yield f"lists {len(found.models):,} {'model' if len(found.models) == 1 else 'models'}"
    elif found.note:
        yield found.note


def examine_clock(now: float, dates: Sequence[str]) -> DoctorCheck:
    """Check that the clock can be right, by the time of this version and the dates in the replies of providers."""
    hint = "set the clock (on Linux: timedatectl set-ntp true); certificates and times of runs depend on it"
    if now < RELEASED:
        return DoctorCheck(
            area="environment", name="clock", standing="problem", says="it is before this version was made", hint=hint
        )
    # The smallest difference: a slow reply makes its own date look older.
    offsets = [now - _seconds(date) for date in dates if _seconds(date)]
    off = min(offsets, key=abs, default=None)
    if off is None:
        return DoctorCheck(area="environment", name="clock", says="plausible; no provider was asked for the time")
    if abs(off) > SKEW:
        says = f"{abs(off):,.0f} s {'ahead of' if off > 0 else 'behind'} the providers'"
        return DoctorCheck(area="environment", name="clock", standing="problem", says=says, hint=hint)
    return DoctorCheck(area="environment", name="clock", says=f"within {max(1, round(abs(off)))} s of the providers'")


def _seconds(date: str) -> float:
    """Return the timestamp of an HTTP date; 0 for an invalid one."""
    try:
        return parsedate_to_datetime(date).timestamp()
    except ValueError:
        return 0.0
