"""Plugins: third-party code that a run uses, identified by name, distribution and hash of its source."""

import difflib
import functools
import hashlib
import inspect
import sys
from collections.abc import Collection, Iterator
from contextlib import ExitStack
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path, PurePath
from types import ModuleType
from typing import TYPE_CHECKING, Any, get_args

import msgspec

from assay.core.errors import ThirdPartyCode, ThirdPartyError, UsageProblem
from assay.core.plan import PluginKind, PluginPlan, as_known_to
from assay.core.plugin_source import MAX_NAMED, source_of_files, source_of_object

if TYPE_CHECKING:
    from importlib.metadata import Distribution


class Plugin(msgspec.Struct, frozen=True):
    """Loaded code with its description in a plan."""

    plan: PluginPlan
    target: Any


_METHODS: dict[PluginKind, str] = {"policy": "ask", "contract": "case"}
"""Method of an object that replaces the function; a grader, a model and a converter can only be called."""


def given_plugin(kind: PluginKind, given: object, *, name: str = "") -> Plugin:
    """Describe a function, or an object, given in Python; raises UsageProblem for other values."""
    reference, folder = _reference_of(given)
    target = _instance(kind, given)
    plan = PluginPlan(
        kind=kind,
        name=name or given_name(target),
        reference=reference,
        folder=folder,
        version=_declared_version(target),
    )
    return Plugin(_add_grading(_add_source_hash(plan, target), target), target)


def given_name(target: object) -> str:
    """Name a function: by its `name` attribute, or by its module and qualified name."""
    code = _code_of(target)
    return _word(target, "name") or f"{code.__module__ or '__main__'}:{code.__qualname__}"


def is_reference(name: str) -> bool:
    """Return whether a name is `module:function` or `file.py:function`, outside the entry points."""
    return ":" in name


def referred_plugin(kind: PluginKind, reference: str, *, folder: Path) -> Plugin:
    """Load the code at `module:function` or `file.py:function`, relative to a folder; raises UsageProblem."""
    location, colon, name = reference.rpartition(":")
    found = f"{(folder / location).absolute()}{colon}{name}" if location.endswith(".py") else reference
    return loaded_plugin(PluginPlan(kind=kind, name=reference, reference=found, folder=str(folder.absolute())))


def loaded_plugin(plan: PluginPlan) -> Plugin:
    """Load the code that a plan refers to, and describe its current state; raises UsageProblem."""
    target = _instance(plan.kind, load(plan.reference, folder=plan.folder))
    if not plan.distribution:
        plan = msgspec.structs.replace(plan, version=_declared_version(target))
    return Plugin(_add_grading(_add_source_hash(plan, target), target), target)


def _add_source_hash(plan: PluginPlan, target: object) -> PluginPlan:
    """Add the hashes of the code, and what cannot be compared; a declared version stands for the latter."""
    if plan.reference:
        # The file that the reference names, and that of the code itself if it is another: each may determine the behaviour.
        location = plan.reference.rpartition(":")[0]
        named = location if location.endswith(".py") else getattr(sys.modules.get(location), "__file__", None)
        found = source_of_files((named, _file_of(target)), target)
    else:
        found = source_of_object(target)
    unknown, token = ("", "") if plan.version else (found.unknown, found.token)
    return msgspec.structs.replace(plan, source_sha256=found.sha256, imports=found.imports, unknown=tuple(unknown), token=token)


def _instance(kind: PluginKind, given: object) -> object:
    """Return a plugin, or an instance of a plugin class; raises UsageProblem for an object that is not a plugin of this kind."""
    try:
        with ThirdPartyCode():
            # A class would be called with a case and an answer as the arguments of its constructor.
            target = given() if inspect.isclass(given) else given
    except ThirdPartyError as failure:
        raise UsageProblem(f"no {kind} can be made of '{getattr(given, '__qualname__', given)}': {failure}") from failure
    if not callable(target) and not callable(getattr(target, _METHODS.get(kind, ""), None)):
        expected = f"a function, or an object with a method '{_METHODS[kind]}'" if kind in _METHODS else "a function"
        named = "its name as provider/model" if kind == "model" else "its name"
        raise UsageProblem(f"a {kind} is {expected}, and this is {type(target).__name__}", hint=f"give {named}, or {expected}")
    return target


def load(reference: str, *, folder: str = "") -> object:
    """Load `module:name` or `file.py:name`; a folder is searched after installed modules. Raises UsageProblem."""
    location, _, name = reference.rpartition(":")
    try:
        with ThirdPartyCode(UsageProblem):
            target: object = _file_module(Path(location)) if location.endswith(".py") else _module(location, folder)
            for step in name.split("."):
                target = _member(target, step, of=location)
            return target
    except ThirdPartyError as failure:
        problem = failure.problem
        why = f"there is no module '{location}'" if _is_missing(problem, location) else str(failure)
        raise UsageProblem(f"'{reference}' cannot be loaded: {why}", hint="write module:function or file.py:function") from failure


def _member(target: object, name: str, *, of: str) -> object:
    """Get a member of a module or class; raises UsageProblem with the nearest name."""
    if name and hasattr(target, name):
        return getattr(target, name)
    known = [known for known in vars(target) if not known.startswith("_") and callable(getattr(target, known))]
    # At this cutoff a swapped or missing letter is found, and an unrelated name is not suggested.
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    hint = f"did you mean '{close[0]}'?" if close else f"it has {', '.join(known) or 'no functions'}"
    raise UsageProblem(f"there is no '{name}' in '{PurePath(of).name}'", hint=hint)


def _is_missing(problem: BaseException, module: str) -> bool:
    return isinstance(problem, ModuleNotFoundError) and bool(problem.name) and f"{module}.".startswith(f"{problem.name}.")


def _module(name: str, folder: str) -> ModuleType:
    # Appended, so that a file here never shadows an installed module.
    if folder and folder not in sys.path:
        sys.path.append(folder)
    return import_module(name)


def _file_module(path: Path) -> ModuleType:
    """Load the module in a file; a changed text makes another module."""
    if not path.is_file():
        raise FileNotFoundError(f"there is no file '{path.name}'")
    # Path and text in the name: two files called grader.py are two modules, and an edited one is not taken from sys.modules.
    name = f"{path.stem}_{hashlib.sha256(str(path).encode() + path.read_bytes()).hexdigest()[:16]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = spec_from_file_location(name, path)
    assert spec is not None, "a file that ends in .py has a loader"
    assert spec.loader is not None, "and it is there"
    module = module_from_spec(spec)
    with ExitStack() as undo:
        # Registered during loading, because dataclasses and the like look their module up.
        sys.modules[name] = module
        undo.callback(sys.modules.pop, name)
        spec.loader.exec_module(module)
        undo.pop_all()
    return module


def uncomparable(plan: PluginPlan) -> str:
    """Explain why code cannot be compared with that of a run's start, in a sentence."""
    what = ", ".join(plan.unknown)
    return f"the {plan.kind} '{plan.name}' cannot be compared with the code that the run started with ({what})"


def _reference_of(target: object) -> tuple[str, str]:
    """Return the reference to a function, and the folder that it is imported from; empty for one that only this process has."""
    module = sys.modules.get(getattr(target, "__module__", None) or "")
    qualname = getattr(target, "__qualname__", "")
    file = getattr(module, "__file__", None)
    if module is None or module.__name__ == "__main__" or not file or not qualname:
        return "", ""
    found: Any = module
    for step in qualname.split("."):
        found = getattr(found, step, None)
    # A decorated or reassigned function: importing the name elsewhere would load other code.
    if found is not target:
        return "", ""
    depth = module.__name__.count(".") + Path(file).name.startswith("__init__.")
    return f"{module.__name__}:{qualname}", str(Path(file).absolute().parents[depth])


def _add_grading(plan: PluginPlan, target: object) -> PluginPlan:
    """Add whether the code grades, and whether it asks judges, so that readers of the plan need not load it."""
    grade = target if plan.kind == "grader" else getattr(target, "grade", None) if plan.kind == "policy" else None
    asks = any(map(inspect.isgeneratorfunction, (grade, vars(type(grade)).get("__call__"))))
    return msgspec.structs.replace(plan, grades=callable(grade), asks_judges=asks)


def _code_of(target: Any) -> Any:
    """Return the function or class whose source an object has."""
    inner = target.func if isinstance(target, functools.partial) else target
    return inspect.unwrap(inner) if hasattr(inner, "__qualname__") else type(inner)


def _file_of(target: object) -> str | None:
    code = _code_of(target)
    try:
        return inspect.getsourcefile(code) or inspect.getfile(code)
    except TypeError:
        return None


def _declared_version(target: object) -> str:
    """Return the version that the author of an object gives it."""
    return _word(target, "version") or _word(target, "VERSION")


def _word(target: object, name: str) -> str:
    """Return a text attribute of an object; empty without one."""
    text = getattr(target, name, "")
    return text if isinstance(text, str) else ""


GROUPS: dict[PluginKind, str] = {
    "grader": "assay.graders",
    "model": "assay.models",
    "policy": "assay.policies",
    "converter": "assay.converters",
    "contract": "assay.contracts",
}
"""Group of entry points for each kind of plugin."""
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
        """Return whether a name is this plugin's, alone or after its distribution's."""
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
            found += _plugins_of_distribution(distribution, name)
    return iter(sorted(found, key=lambda plugin: (PLUGIN_KINDS.index(plugin.kind), plugin.name, plugin.distribution)))


def _plugins_of_distribution(distribution: "Distribution", name: str) -> list[DeclaredPlugin]:
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
        raise UsageProblem(f"'{name}' is built in, and not a custom {kind}", hint="`assay plugins` lists those that are installed")
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
            f"the {plan.kind} '{plan.name}' was given in Python, and cannot be loaded from there",
            hint=f"call assay.run with the same arguments and the run's id, or put the {plan.kind} into a module and name it",
        )
    if plan.token:
        raise UsageProblem(
            uncomparable(plan), hint="start a new run; code that holds plain data only, or has a `version`, is recognized"
        )
    # Loaded before it is compared, since only loaded code tells its version; what it does at import happens either way.
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
    shown = ", ".join(f"'{name}'" for name in names[:MAX_NAMED])
    more = f" and {len(names) - MAX_NAMED:,} more" if len(names) > MAX_NAMED else ""
    return f" (it imports {shown}{more})" if names else ""


def _version_of(distribution: str) -> str:
    metadata = _metadata()
    try:
        return metadata.version(distribution) if distribution else ""
    except metadata.PackageNotFoundError:
        return "none"


def _metadata() -> ModuleType:
    """Import importlib.metadata lazily: it loads parsers of e-mail and zip files, which few runs need."""
    return import_module("importlib.metadata")
