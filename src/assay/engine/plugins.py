"""The code of others that a run uses: found when it is planned, and found again, unchanged, when it goes on."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from assay.core.errors import UsageProblem
from assay.core.plan import FUNCTIONS, Plan, PluginKind, PluginPlan
from assay.core.plugin import Plugin, is_reference, referred_plugin, reopened

Key = tuple[PluginKind, str]


def find_plugin(kind: PluginKind, name: str, *, folder: Path) -> Plugin:
    """The code of that name; `module:function` and `file.py:function` are looked for in a folder. Raises UsageProblem."""
    if not is_reference(name):
        raise UsageProblem(f"there is no {kind} '{name}'", hint="write module:function or file.py:function")
    return referred_plugin(kind, name, folder=folder)


class OpenPlugins:
    """A plan's plugins, loaded; raises UsageProblem where one is gone or has changed."""

    def __init__(self, plan: Plan, known: Sequence[Plugin] = ()) -> None:
        self._plan = plan
        at_hand = {_key(plugin.plan): plugin for plugin in known}
        self._targets: dict[Key, Any] = {
            _key(wanted): (at_hand.get(_key(wanted)) or reopened(wanted)).target for wanted in plan.plugins
        }

    def functions(self) -> Mapping[str, Callable[..., Any]]:
        """What is called like a model, by the name that the plan's model has."""
        kinds = {provider.name: provider.kind for provider in self._plan.providers}
        models = [model for model in self._plan.models() if kinds.get(model.provider) == FUNCTIONS]
        named = {model.name: self._targets["model", model.model] for model in models}
        grader = self._plan.called_grader()
        return named if grader is None else {**named, grader.name: self._targets["grader", grader.model]}

    def of(self, kind: PluginKind) -> Any:
        """The run's own grader or policy; None where it has none."""
        plugin = self._plan.plugin(kind)
        return None if plugin is None else self._targets[kind, plugin.name]


def _key(plugin: PluginPlan) -> Key:
    return plugin.kind, plugin.name
