"""Plugins of installed packages, by their entry points; searched only when a name is needed."""

import difflib
from collections.abc import Collection, Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import msgspec

from assay.core.errors import UsageProblem
from assay.core.plan import PluginKind, PluginPlan, as_known_to
from assay.core.plugin import Plugin, is_reference, loaded_plugin, referred_plugin, uncomparable
from assay.core.third_party import ThirdPartyCode, ThirdPartyError

_MAX_NAMED = 5

if TYPE_CHECKING:
    from importlib.metadata import Distribution

GROUPS: dict[PluginKind, str] = {
    "grader": "assay.graders",
    "model": "assay.models",
    "policy": "assay.policies",
    "converter": "assay.converters",
    "contract": "assay.contracts",
}
"""The group of entry points for each kind of plugin."""
PLUGIN_KINDS: tuple[PluginKind, ...] = get_args(PluginKind)


class DeclaredPlugin(msgspec.Struct, frozen=True):
    """An entry point of an installed distribution, not loaded."""

    kind: PluginKind
    name: str
    reference: str
    """`module:name`."""
    distribution: str
    version: str
    problem: str = ""
    """Why the distribution's entry points cannot be read."""

    def is_called(self, name: str) -> bool:
        """Tell whether a name is this plugin's, alone or after its distribution's."""
        return name in (self.name, f"{self.distribution}/{self.name}")

    def load(self, name: str = "") -> Plugin:
        """Load the code; raises UsageProblem."""
        plan = PluginPlan(
            kind=self.kind,
            name=name or self.name,
            reference=self.reference,
            distribution=self.distribution,
            version=self.version,
        )
        return loaded_plugin(plan)


def declared_plugins() -> Iterator[DeclaredPlugin]:
    """List all plugins that installed distributions declare, ordered by kind and name."""
    seen: set[str] = set()
    found: list[DeclaredPlugin] = []
    for distribution in _metadata().distributions():
        try:
            with ThirdPartyCode():
                text = distribution.read_text("entry_points.txt") or ""
                name = (distribution.metadata["Name"] or "").strip() if "[assay." in text else ""
        except ThirdPartyError:
            # A folder that only looks like a distribution declares nothing.
            continue
        # Import uses the first distribution of a name on the path.
        if name and name.lower() not in seen:
            seen.add(name.lower())
            found += _declared_by(distribution, name)
    return iter(sorted(found, key=lambda plugin: (PLUGIN_KINDS.index(plugin.kind), plugin.name, plugin.distribution)))


def _declared_by(distribution: "Distribution", name: str) -> list[DeclaredPlugin]:
    """List the plugins of one distribution; unreadable entry points give one entry with the problem for each kind."""
    kinds = {group: kind for kind, group in GROUPS.items()}
    version = distribution.metadata["Version"] or ""
    try:
        with ThirdPartyCode():
            points = [point for point in distribution.entry_points if point.group in kinds]
            return [
                DeclaredPlugin(kinds[point.group], point.name, point.value.partition("[")[0].strip(), name, version)
                for point in points
            ]
    except ThirdPartyError as failure:
        text = distribution.read_text("entry_points.txt") or ""
        broken = [kind for group, kind in kinds.items() if f"[{group}]" in text]
        return [DeclaredPlugin(kind, "?", "", name, version, f"entry_points.txt cannot be read: {failure}") for kind in broken]


def find_plugin(kind: PluginKind, name: str, *, folder: Path, built_in: Collection[str] = ()) -> Plugin:
    """Load a plugin: of an installed package, or at `module:function` or `file.py:function`. Raises UsageProblem."""
    if is_reference(name):
        return referred_plugin(kind, name, folder=folder)
    if name in built_in:
        raise UsageProblem(
            f"'{name}' is built in, and is no {kind} of your own", hint="`assay plugins` lists those that are installed"
        )
    found = installed_plugin(kind, name)
    if found is None:
        raise UsageProblem(f"unknown {kind} '{name}'", hint=_nearest(kind, name, built_in))
    return found


def installed_plugin(kind: PluginKind, name: str) -> Plugin | None:
    """Load the plugin of an installed package, by its name or by `package/name`; raises UsageProblem when it fails to load."""
    found = [plugin for plugin in declared_plugins() if plugin.kind == kind and plugin.is_called(name)]
    if len(found) > 1:
        names = " or ".join(f"{plugin.distribution}/{plugin.name}" for plugin in found)
        raise UsageProblem(f"{len(found)} packages have a {kind} '{name}'", hint=f"write {names}")
    return found[0].load(name) if found else None


def _nearest(kind: PluginKind, name: str, built_in: Collection[str]) -> str:
    known = sorted({*built_in, *(plugin.name for plugin in declared_plugins() if plugin.kind == kind and not plugin.problem)})
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    if close:
        return f"did you mean '{close[0]}'?"
    listed = f"known are {', '.join(known)}; or " if known else ""
    return f"{listed}write module:function or file.py:function; `assay plugins` lists what is installed"


def reopened(plan: PluginPlan) -> Plugin:
    """Load the code of an earlier plan; raises UsageProblem when it is gone or has changed."""
    if not plan.reference:
        raise UsageProblem(
            f"the {plan.kind} '{plan.name}' was given in Python, and only there it can be given again",
            hint=f"call assay.run with the same arguments and the run's id, or put the {plan.kind} into a module and name it",
        )
    if plan.token:
        raise UsageProblem(uncomparable(plan), hint="start a new run; code whose source can be read is found again")
    now = loaded_plugin(msgspec.structs.replace(plan, version=_version_of(plan.distribution) or plan.version))
    if as_known_to(plan, now.plan) != plan:
        what = _changed_parts(plan, now.plan)
        raise UsageProblem(
            f"the {plan.kind} '{plan.name}' has changed since the run was planned{what}",
            hint="bring its source back, or start a new run",
        )
    return now


def _changed_parts(before: PluginPlan, now: PluginPlan) -> str:
    """Name what differs where that is not the plugin's own file: its version, or modules that it imports."""
    if now.version != before.version:
        return f" (version {before.version or 'none'}, now {now.version or 'none'})"
    if now.source_sha256 != before.source_sha256:
        return ""
    imports, found = before.imports or {}, now.imports or {}
    names = sorted(name for name in {*imports, *found} if imports.get(name) != found.get(name))
    shown = ", ".join(f"'{name}'" for name in names[:_MAX_NAMED])
    more = f" and {len(names) - _MAX_NAMED:,} more" if len(names) > _MAX_NAMED else ""
    return f" (it imports {shown}{more})" if names else ""


def _version_of(distribution: str) -> str:
    metadata = _metadata()
    try:
        return metadata.version(distribution) if distribution else ""
    except metadata.PackageNotFoundError:
        return "none"


def _metadata() -> Any:
    """Import importlib.metadata lazily: it loads parsers of e-mail and zip files, which few runs need."""
    return import_module("importlib.metadata")
