"""Plugins: code of others that a run uses, known by its name, its distribution and the hash of its source."""

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
from assay.core.fingerprint import Fingerprint, file_sha256, fingerprint, token_of
from assay.core.foreign import ForeignCode, ForeignFailure
from assay.core.plan import PluginKind, PluginPlan


class Plugin(msgspec.Struct, frozen=True):
    """A piece of code beside what is known of it."""

    plan: PluginPlan
    target: Any


_METHODS: dict[PluginKind, str] = {"policy": "ask", "contract": "case"}
"""What an object has instead of being a function; a grader, a model and a converter can only be called."""


def given_plugin(kind: PluginKind, given: Any, *, name: str = "") -> Plugin:
    """A function, or an object, as somebody gives it in Python; raises UsageProblem for what is neither."""
    reference, folder = _reference_of(given)
    target = _instance(kind, given)
    plan = PluginPlan(
        kind=kind,
        name=name or given_name(target),
        reference=reference,
        folder=folder,
        version=_word(target, "version"),
    )
    return Plugin(_with_nature(_known(plan, target), target), target)


def given_name(target: Any) -> str:
    """What a function is called: by its own `name`, where it has one, else by its module and its place in it."""
    code = _code_of(target)
    return _word(target, "name") or f"{code.__module__ or '__main__'}:{code.__qualname__}"


def is_reference(name: str) -> bool:
    """True for `module:function` and `file.py:function`, which name code outside the entry points."""
    return ":" in name


def referred_plugin(kind: PluginKind, reference: str, *, folder: Path) -> Plugin:
    """The code at `module:function` or `file.py:function`, relative to a folder; raises UsageProblem."""
    place, mark, name = reference.rpartition(":")
    found = f"{(folder / place).absolute()}{mark}{name}" if place.endswith(".py") else reference
    return loaded_plugin(PluginPlan(kind=kind, name=reference, reference=found, folder=str(folder.absolute())))


def loaded_plugin(plan: PluginPlan) -> Plugin:
    """The code that a plan refers to, beside what is known of it now; raises UsageProblem."""
    target = _instance(plan.kind, load(plan.reference, folder=plan.folder))
    return Plugin(_with_nature(_known(plan, target), target), target)


def _known(plan: PluginPlan, target: Any) -> PluginPlan:
    """With the hash of the code, and with what cannot be told of it; a version that an object says of itself stands for that."""
    found = _of_files(plan, target) if plan.reference else fingerprint(target)
    is_told = bool(plan.version)
    return msgspec.structs.replace(
        plan, source_sha256=found.sha256, unknown=() if is_told else found.unknown, token="" if is_told else found.token
    )


def _of_files(plan: PluginPlan, target: Any) -> Fingerprint:
    """By the file that a reference names, and the one in which the code stands where that is another: each may say what it does."""
    place = plan.reference.rpartition(":")[0]
    named = place if place.endswith(".py") else getattr(sys.modules.get(place), "__file__", None)
    files = [file for file in dict.fromkeys((named, _file_of(target))) if file]
    hashes = list(dict.fromkeys(filter(None, map(file_sha256, files))))
    if not hashes:
        return Fingerprint("", ("its source",), token_of(target))
    return Fingerprint(hashes[0] if len(hashes) == 1 else hashlib.sha256("\n".join(hashes).encode()).hexdigest())


def _instance(kind: PluginKind, given: Any) -> Any:
    """What is used of a thing: itself, or an instance of a class; raises UsageProblem for what no plugin of this kind can be."""
    try:
        with ForeignCode():
            target = given() if inspect.isclass(given) else given
    except ForeignFailure as failure:
        raise UsageProblem(f"no {kind} can be made of '{given.__qualname__}': {failure}") from failure
    if not callable(target) and not callable(getattr(target, _METHODS.get(kind, ""), None)):
        wanted = f"a function, or an object with a method '{_METHODS[kind]}'" if kind in _METHODS else "a function"
        raise UsageProblem(f"a {kind} is {wanted}, and this is {type(target).__name__}")
    return target


def load(reference: str, *, folder: str = "") -> Any:
    """What stands at `module:name` or `file.py:name`; a folder is searched after what is installed. Raises UsageProblem."""
    place, _, name = reference.rpartition(":")
    try:
        with ForeignCode(UsageProblem):
            target: Any = _file_module(Path(place)) if place.endswith(".py") else _module(place, folder)
            for step in name.split("."):
                target = _member(target, step, of=place)
            return target
    except ForeignFailure as failure:
        problem = failure.problem
        why = f"there is no module '{place}'" if _is_missing(problem, place) else str(failure)
        raise UsageProblem(f"'{reference}' cannot be loaded: {why}", hint="write module:function or file.py:function") from failure


def _member(target: Any, name: str, *, of: str) -> Any:
    """What is called so in a module or class; raises UsageProblem with the nearest name."""
    if name and hasattr(target, name):
        return getattr(target, name)
    known = [known for known in vars(target) if not known.startswith("_") and callable(getattr(target, known))]
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    hint = f"did you mean '{close[0]}'?" if close else f"it has {', '.join(known) or 'no functions'}"
    raise UsageProblem(f"there is no '{name}' in '{PurePath(of).name}'", hint=hint)


def _is_missing(problem: BaseException, module: str) -> bool:
    return isinstance(problem, ModuleNotFoundError) and bool(problem.name) and f"{module}.".startswith(f"{problem.name}.")


def _module(name: str, folder: str) -> ModuleType:
    # Last, so that a file here never takes the place of a module that is installed.
    if folder and folder not in sys.path:
        sys.path.append(folder)
    return import_module(name)


def _file_module(path: Path) -> ModuleType:
    """The module in a file; one whose text has changed is another module."""
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
        # While it is being loaded it must be known already, for dataclasses and the like.
        sys.modules[name] = module
        undo.callback(sys.modules.pop, name)
        spec.loader.exec_module(module)
        undo.pop_all()
    return module


def uncomparable(plan: PluginPlan) -> str:
    """Why nobody can say that code is what a run was begun with, in a sentence."""
    what = ", ".join(plan.unknown)
    return f"whether the {plan.kind} '{plan.name}' is the one that the run was begun with cannot be told ({what})"


def _reference_of(target: Any) -> tuple[str, str]:
    """Where any process finds a function, and in which folder; empty for one that only this process has."""
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


def _with_nature(plan: PluginPlan, target: Any) -> PluginPlan:
    """With what a plan must know of code without having it: whether it grades, and whether it asks judges for that."""
    grade = target if plan.kind == "grader" else getattr(target, "grade", None) if plan.kind == "policy" else None
    asks = any(map(inspect.isgeneratorfunction, (grade, vars(type(grade)).get("__call__"))))
    return msgspec.structs.replace(plan, grades=callable(grade), asks_judges=asks)


def _code_of(target: Any) -> Any:
    """The function or class whose source a thing has."""
    inner = target.func if isinstance(target, functools.partial) else target
    return inspect.unwrap(inner) if hasattr(inner, "__qualname__") else type(inner)


def _file_of(target: Any) -> str | None:
    code = _code_of(target)
    try:
        return inspect.getsourcefile(code) or inspect.getfile(code)
    except TypeError:
        return None


def _word(target: Any, name: str) -> str:
    """A text that an object says of itself."""
    said = getattr(target, name, "")
    return said if isinstance(said, str) else ""
