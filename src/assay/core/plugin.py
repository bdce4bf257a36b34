"""Plugins: third-party code that a run uses, identified by name, distribution and hash of its source."""

import difflib
import functools
import hashlib
import inspect
import sys
from contextlib import ExitStack
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path, PurePath
from types import ModuleType
from typing import Any

import msgspec

from assay.core.errors import UsageProblem
from assay.core.plan import PluginKind, PluginPlan
from assay.core.plugin_source import PluginSource, source_of_files, source_of_object
from assay.core.third_party import ThirdPartyCode, ThirdPartyError


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
    return Plugin(_with_grading(_with_source_hash(plan, target), target), target)


def given_name(target: object) -> str:
    """Name a function: by its `name` attribute, or by its module and qualified name."""
    code = _code_of(target)
    return _word(target, "name") or f"{code.__module__ or '__main__'}:{code.__qualname__}"


def is_reference(name: str) -> bool:
    """Tell whether a name is `module:function` or `file.py:function`, outside the entry points."""
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
    return Plugin(_with_grading(_with_source_hash(plan, target), target), target)


def _with_source_hash(plan: PluginPlan, target: object) -> PluginPlan:
    """Add the hashes of the code, and what cannot be compared; an explicit version of an object replaces the latter."""
    found = _source_of_reference(plan, target) if plan.reference else source_of_object(target)
    has_version = bool(plan.version)
    return msgspec.structs.replace(
        plan,
        source_sha256=found.sha256,
        imports=found.imports,
        unknown=() if has_version else found.unknown,
        token="" if has_version else found.token,
    )


def _source_of_reference(plan: PluginPlan, target: object) -> PluginSource:
    """Hash the file of the reference, and that of the code itself if it is another: each may determine the behaviour."""
    location = plan.reference.rpartition(":")[0]
    named = location if location.endswith(".py") else getattr(sys.modules.get(location), "__file__", None)
    return source_of_files((named, _file_of(target)), target)


def _instance(kind: PluginKind, given: Any) -> Any:
    """Return a plugin, or an instance of a plugin class; raises UsageProblem for an object that is not a plugin of this kind."""
    try:
        with ThirdPartyCode():
            target = given() if inspect.isclass(given) else given
    except ThirdPartyError as failure:
        raise UsageProblem(f"no {kind} can be made of '{given.__qualname__}': {failure}") from failure
    if not callable(target) and not callable(getattr(target, _METHODS.get(kind, ""), None)):
        expected = f"a function, or an object with a method '{_METHODS[kind]}'" if kind in _METHODS else "a function"
        raise UsageProblem(f"a {kind} is {expected}, and this is {type(target).__name__}")
    return target


def load(reference: str, *, folder: str = "") -> Any:
    """Load `module:name` or `file.py:name`; a folder is searched after installed modules. Raises UsageProblem."""
    location, _, name = reference.rpartition(":")
    try:
        with ThirdPartyCode(UsageProblem):
            target: Any = _file_module(Path(location)) if location.endswith(".py") else _module(location, folder)
            for step in name.split("."):
                target = _member(target, step, of=location)
            return target
    except ThirdPartyError as failure:
        problem = failure.problem
        why = f"there is no module '{location}'" if _is_missing(problem, location) else str(failure)
        raise UsageProblem(f"'{reference}' cannot be loaded: {why}", hint="write module:function or file.py:function") from failure


def _member(target: object, name: str, *, of: str) -> Any:
    """Get a member of a module or class; raises UsageProblem with the nearest name."""
    if name and hasattr(target, name):
        return getattr(target, name)
    known = [known for known in vars(target) if not known.startswith("_") and callable(getattr(target, known))]
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
    return f"whether the {plan.kind} '{plan.name}' is the one that the run was begun with cannot be told ({what})"


def _reference_of(target: object) -> tuple[str, str]:
    """Find the reference to a function, and its folder; empty for one that only this process has."""
    module = sys.modules.get(getattr(target, "__module__", None) or "")
    qualname = getattr(target, "__qualname__", "")
    file = getattr(module, "__file__", None)
    if module is None or module.__name__ == "__main__" or not file or not qualname:
        return "", ""
    found: Any = module
    for step in qualname.split("."):
        found = getattr(found, step, None)
    if found is not target:
        return "", ""
    depth = module.__name__.count(".") + Path(file).name.startswith("__init__.")
    return f"{module.__name__}:{qualname}", str(Path(file).absolute().parents[depth])


def _with_grading(plan: PluginPlan, target: object) -> PluginPlan:
    """Add whether the code grades, and whether it asks judges, so that the plan tells this without loading it."""
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
    """The version that the author of an object gives it."""
    return _word(target, "version") or _word(target, "VERSION")


def _word(target: object, name: str) -> str:
    """Return a text attribute of an object; empty without one."""
    text = getattr(target, name, "")
    return text if isinstance(text, str) else ""
