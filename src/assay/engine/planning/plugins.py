"""Plugins of a run: found by name and listed in its plan, and found again, unchanged, when the run is resumed."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, get_args

import msgspec

from assay.core.contract import BUILT_IN, CONTRACTS
from assay.core.errors import UsageProblem
from assay.core.issue import Path as Steps
from assay.core.plan import ModelPlan, Plan, PluginKind, PluginPlan
from assay.core.plugin import DeclaredPlugin, Plugin, declared_plugins, find_plugin, installed_plugin, reopened, uncomparable
from assay.core.provider import FUNCTIONS, ProviderKind
from assay.core.settings import DatasetEntry, ModelEntry
from assay.datasets import resolve_contract
from assay.datasets.parsing.source import Source
from assay.datasets.plugin_contract import given_contract, named_contract
from assay.engine.planning.request import MergedSettings
from assay.grading import POLICIES, GradingSettings, MethodKind, is_judged

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
    """Reason why it cannot be used; empty if it can."""
    note: str = ""
    """Meaning of the name without its package, when it refers to something else."""


class OpenPlugins:
    """Loaded plugins of a plan; raises UsageProblem when one is missing or has changed."""

    def __init__(self, plan: Plan, known: Sequence[Plugin] = ()) -> None:
        self._plan = plan
        at_hand = {_key(plugin.plan): plugin for plugin in known}
        self._targets: dict[Key, Any] = {
            _key(wanted): (at_hand.get(_key(wanted)) or reopened(wanted)).target for wanted in plan.plugins
        }

    def functions(self) -> Mapping[str, Callable[..., object]]:
        """Return the functions that are called as models, by the plan's model name."""
        kinds = {provider.name: provider.kind for provider in self._plan.providers}
        models = [model for model in self._plan.models() if kinds.get(model.provider) == FUNCTIONS]
        named = {model.name: self._targets["model", model.model] for model in models}
        graders = (*filter(None, (self._plan.grader(),)), *self._plan.grader_plugins().values())
        called = {model.model: model.name for model in self._plan.called_graders()}
        return {**named, **{called[plugin.name]: self._grader(plugin) for plugin in graders if plugin.name in called}}

    def _grader(self, grader: PluginPlan | None) -> Any:
        if grader is None:
            return None
        target = self._targets[_key(grader)]
        # A policy that grades is an object with two methods; a grader is the function itself.
        return target.grade if grader.kind == "policy" else target

    def into(self, settings: GradingSettings) -> GradingSettings:
        """Return grading settings extended by the run's plugins."""
        policy = self._plan.policy()
        code = None if policy is None else self._targets[_key(policy)]
        chosen = {name: self._targets[_key(plugin)] for name, plugin in self._plan.record_policies().items()}
        return msgspec.structs.replace(
            settings,
            grader_code=self._grader(self._plan.grader()),
            graders_code={name: self._grader(plugin) for name, plugin in self._plan.grader_plugins().items()},
            # A policy may be a plain function, or an object whose `ask` makes the messages.
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
            # Loaded only on request: it is the larger part of the datasets.
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


class RequestPlugins:
    """Plugins of a request while its plans are built; problems are collected with those of the settings."""

    def __init__(self, settings: MergedSettings) -> None:
        self._settings = settings
        self.plugins: dict[tuple[PluginKind, str], Plugin] = {}
        value = settings.value
        self.policy = self.find("policy", value.policy, ("policy",)) if value.policy else None
        self.record_policies = set[str]()
        """Names of custom policies that records may choose, as far as they were looked up."""
        # A policy for the whole run overrides those that records name, so these need not be loaded.
        if self.policy is None and not value.policy:
            for name in value.policies:
                self._register(name)
        self._declared: frozenset[str] | None = None
        self.grader = self.find("grader", value.grader, ("grader",)) if value.grader else None
        if self.policy is not None and self.policy.plan.grades:
            if value.grader:
                settings.add(("grader",), f"the policy '{value.policy}' grades by itself; leave one of them out")
            self.grader = self.policy
        if self.grader is not None and value.profile is not None:
            settings.add(("grader",), f"the profile '{value.profile}' scores by its own rules, which a grader is not part of")

    def find(self, kind: PluginKind, name: str, path: Steps) -> Plugin | None:
        """Return the plugin of a name; None when there is none, which is noted as a problem."""
        settings = self._settings
        try:
            if not settings.may_name(path, name):
                raise UsageProblem(f"code cannot be named here: '{name}'")
            folder = settings.folder(path)
            found = settings.given.get((kind, name)) or self._found(kind, name, folder=folder)
        except UsageProblem as problem:
            settings.add(path, f"{problem.message}{f' ({problem.hint})' if problem.hint else ''}")
            return None
        self.plugins[kind, name] = found
        return found

    def _found(self, kind: PluginKind, name: str, *, folder: Path) -> Plugin:
        """Return the plugin of a name; a policy may be registered by the run file. Raises UsageProblem."""
        registered = self._settings.value.policies.get(name, "") if kind == "policy" else ""
        if not registered:
            return find_plugin(kind, name, folder=folder, built_in=built_in(kind))
        found = find_plugin(kind, registered, folder=self._settings.folder(("policies",)), built_in=built_in(kind))
        return Plugin(msgspec.structs.replace(found.plan, name=name), found.target)

    def _register(self, name: str) -> None:
        """Register a policy of the run file, so that records may choose it; problems are noted."""
        path: Steps = ("policies", name)
        if name in built_in("policy"):
            self._settings.add(path, f"'{name}' is a built-in policy; give yours another name")
            return
        found = self.find("policy", name, path)
        if found is not None:
            self._choose(name, found, path)

    def _choose(self, name: str, found: Plugin, path: Steps) -> None:
        if found.plan.grades:
            hint = f"leave out its method 'grade', or set it for the whole run: policy: {name}"
            self._settings.add(path, f"the policy '{name}' grades by itself, which a policy of single records cannot ({hint})")
        # The grading half of such a policy never runs, so the plan must not claim it.
        chosen = msgspec.structs.replace(found.plan, name=name, by_record=True, grades=False, asks_judges=False)
        self.plugins["policy", name] = Plugin(chosen, found.target)
        self.record_policies.add(name)

    def is_chosen(self, policy_id: str) -> bool:
        """Return True when a record's policy id names a custom policy, of the run file or of an installed package."""
        if policy_id in self.record_policies:
            return True
        path: Steps = ("datasets",)
        if policy_id in built_in("policy") or not self._settings.may_name(path, policy_id):
            return False
        if self._declared is None:
            # Asked once: the ids come from the file, and may be many.
            declared = [plugin for plugin in declared_plugins() if plugin.kind == "policy"]
            self._declared = frozenset(name for one in declared for name in (one.name, f"{one.distribution}/{one.name}"))
        if policy_id not in self._declared:
            return False
        # Looked up once: a second record with the same id is answered by `record_policies`, or is known to be broken.
        self._declared -= {policy_id}
        found = self.find("policy", policy_id, path)
        if found is not None:
            self._choose(policy_id, found, path)
        return found is not None

    def is_model(self, entry: ModelEntry) -> bool:
        """Return True for the name of an installed model plugin, which needs no provider prefix."""
        if entry.provider or entry.model in built_in("model"):
            return False
        try:
            return installed_plugin("model", entry.model) is not None
        except UsageProblem:
            # It is declared but cannot be loaded: the error is reported where it is loaded.
            return True

    def contract(self, path: Steps, entry: DatasetEntry, source: Source) -> str | Plugin:
        """Return a dataset's contract, which may be a plugin; uploaded data may choose none. Raises UsageProblem."""
        settings = self._settings
        # Recognising a contract by its content may choose an installed plugin, which uploaded data must not do.
        named = entry.contract or settings.contract or ("auto" if settings.may_name(path, "") else BUILT_IN)
        if not isinstance(named, str):
            found: str | Plugin | None = given_contract(named)
        elif named in (*CONTRACTS, BUILT_IN):
            found = named
        elif named == "auto":
            found = resolve_contract(source, named)
        else:
            found = named_contract(named, folder=settings.folder(path))
        if isinstance(found, Plugin):
            self.plugins["contract", found.plan.name] = found
        return found or named

    def used_by(self, models: Sequence[ModelPlan]) -> tuple[PluginPlan, ...]:
        """Return the plugins that a run with these models uses."""
        named = {("model", model.model) for model in models}
        return tuple(plugin.plan for key, plugin in self.plugins.items() if key[0] != "model" or key in named)

    def needs_judge(self, kinds: Iterable[MethodKind | None]) -> bool:
        """Return True when records of these kinds need a judge; a missing grader is already a problem."""
        if self.grader is None and self._settings.value.grader:
            return False
        grader = None if self.grader is None else self.grader.plan
        return any(is_judged(kind, grader=grader) for kind in kinds)

    def judged(self, kinds: Mapping[MethodKind | None, int]) -> int:
        """Count the records that built-in methods send to judges; the calls of a custom grader are not known in advance."""
        return 0 if self.grader else sum(count for kind, count in kinds.items() if is_judged(kind, grader=None))

    def notes(self) -> list[str]:
        """Return notes for the user that do not prevent the run."""
        has_prompt = self.policy is not None and self._settings.value.run.system_prompt
        asks = self.grader is not None and self.grader.plan.asks_judges
        name = self._settings.value.policy
        plans = [plugin.plan for plugin in self.plugins.values() if plugin.plan.token]
        return [
            *(f"only this process can resume the run: {uncomparable(plan)}" for plan in plans),
            *([f"the policy '{name}' says all that candidates get, so that the system prompt is not sent"] if has_prompt else []),
            *(["the grader asks judges as often as it likes; an estimate counts its first questions only"] if asks else []),
        ]
