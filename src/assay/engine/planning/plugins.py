"""Plugins of a run: found when it is planned, and found again, unchanged, when it is resumed."""

from collections.abc import Callable, Collection, Mapping, Sequence
from importlib import import_module
from typing import Any, get_args

import msgspec

from assay.core.contract import CONTRACTS
from assay.core.errors import UsageProblem
from assay.core.plan import Plan, PluginKind, PluginPlan
from assay.core.plugin import DeclaredPlugin, Plugin, declared_plugins, reopened
from assay.core.provider import FUNCTIONS, ProviderKind
from assay.grading import POLICIES, GradingSettings

Key = tuple[PluginKind, str]


class PluginListing(msgspec.Struct, frozen=True, kw_only=True):
    """An installed plugin in a list."""

    kind: PluginKind
    name: str
    distribution: str
    version: str
    reference: str
    """`module:function`."""
    source_sha256: str = ""
    problem: str = ""
    """The reason why it cannot be used; empty if it can."""
    note: str = ""
    """What the name without its package refers to, if that is something else."""


class OpenPlugins:
    """The loaded plugins of a plan; raises UsageProblem when one is missing or has changed."""

    def __init__(self, plan: Plan, known: Sequence[Plugin] = ()) -> None:
        self._plan = plan
        at_hand = {_key(plugin.plan): plugin for plugin in known}
        self._targets: dict[Key, Any] = {
            _key(wanted): (at_hand.get(_key(wanted)) or reopened(wanted)).target for wanted in plan.plugins
        }

    def functions(self) -> Mapping[str, Callable[..., Any]]:
        """Return the functions that are called as models, by the plan's model name."""
        kinds = {provider.name: provider.kind for provider in self._plan.providers}
        models = [model for model in self._plan.models() if kinds.get(model.provider) == FUNCTIONS]
        named = {model.name: self._targets["model", model.model] for model in models}
        grader = self._plan.called_grader()
        return named if grader is None else {**named, grader.name: self._grader()}

    def _grader(self) -> Any:
        grader = self._plan.grader()
        if grader is None:
            return None
        target = self._targets[_key(grader)]
        return target.grade if grader.kind == "policy" else target

    def into(self, settings: GradingSettings) -> GradingSettings:
        """Return grading settings extended by the run's plugins."""
        policy = self._plan.policy()
        code = None if policy is None else self._targets[_key(policy)]
        chosen = {name: self._targets[_key(plugin)] for name, plugin in self._plan.record_policies().items()}
        return msgspec.structs.replace(
            settings,
            grader_code=self._grader(),
            policy_code=getattr(code, "ask", code),
            record_policy_code={name: getattr(target, "ask", target) for name, target in chosen.items()},
        )


def _key(plugin: PluginPlan) -> Key:
    return plugin.kind, plugin.name


def built_in(kind: PluginKind) -> Collection[str]:
    """Return the names that are reserved for built-in parts."""
    match kind:
        case "model":
            return get_args(ProviderKind)
        case "policy":
            return POLICIES
        case "contract":
            return CONTRACTS
        case "converter":
            # Loaded only where somebody asks: it is the larger part of the datasets.
            names: Collection[str] = import_module("assay.datasets.converters").CONVERTERS
            return names
        case _:
            return ()


def list_plugins() -> list[PluginListing]:
    """List every installed plugin by loading it; a broken one is listed with its problem."""
    found = list(declared_plugins())
    return [_listed(plugin, found) for plugin in found]


def _listed(plugin: DeclaredPlugin, found: Sequence[DeclaredPlugin]) -> PluginListing:
    known = {name: getattr(plugin, name) for name in ("kind", "name", "distribution", "version", "reference")}
    if plugin.problem:
        return PluginListing(**known, problem=plugin.problem)
    try:
        loaded = plugin.load()
    except UsageProblem as problem:
        return PluginListing(**known, problem=problem.message)
    return PluginListing(**known, source_sha256=loaded.plan.source_sha256, note=_clash(plugin, found))


def _clash(plugin: DeclaredPlugin, found: Sequence[DeclaredPlugin]) -> str:
    """Return why a plugin's name is ambiguous; prefixed by its package it is not."""
    full = f"{plugin.distribution}/{plugin.name}"
    if plugin.name in built_in(plugin.kind):
        return f"'{plugin.name}' is built in, and stays what it is; this one is '{full}'"
    others = [other for other in found if (other.kind, other.name) == (plugin.kind, plugin.name) and other != plugin]
    return f"{others[0].distribution} has a {plugin.kind} of this name too; this one is '{full}'" if others else ""
