"""What a function is, beyond its name: its source and everything that it holds, as one hash that any process finds again."""

import dis
import hashlib
import inspect
import re
import sys
import types
import uuid
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import partial
from pathlib import Path, PurePath
from typing import Any, Generic

import msgspec

_PLAIN = (type(None), bool, int, float, complex, str, bytes, Decimal, date, time, timedelta, uuid.UUID, PurePath, range)
"""Values that are what they are written as, and the modules in which they are so: a class of somebody's own may hold more."""
_CONTAINERS = (list, tuple, dict, set, frozenset, types.MappingProxyType)
_PLAIN_MODULES = frozenset({"builtins", "datetime", "decimal", "pathlib", "uuid"})
MOST_PARTS = 10_000
"""Values that are looked at in one function; what holds more is no setting but a world of its own."""
MOST_LEVELS = 60
MOST_NAMED = 5
LONGEST_NAME = 100
_MADE, _FIXED = 1 << 9, 1 << 8
"""Flags of classes: made while the process runs, as by a class statement; one of the interpreter, which nobody can change."""
_IGNORED = frozenset({"__weakref__", "__dict__"})
_SHARED_FILE_NAMES = frozenset({"<string>", "<stdin>", "<unknown>"})
"""File names that all code from `exec` shares. From Python 3.13 on, `inspect` finds the text of `python -c` for any of it."""
_met: dict[int, tuple[Callable[[], Any], str]] = {}
"""Objects that cannot be compared, by their place in memory, and what this process calls them."""


class Fingerprint(msgspec.Struct, frozen=True):
    """What is known of a function."""

    sha256: str
    """Of its source, defaults, partial arguments, closure and state; empty where not even its source can be read."""
    unknown: tuple[str, ...] = ()
    """What of it cannot be compared, such as `self._client: a Client`."""
    token: str = ""
    """The same for the same unknown objects in this process, and never found in another one; empty where all is known."""


def fingerprint(target: Any) -> Fingerprint:
    """The fingerprint of a function or an object."""
    reading = _Reading()
    reading.add(target, "")
    if not reading.has_source:
        return Fingerprint("", ("its source",), token_of(target))
    sha256 = reading.digest.hexdigest()
    if not reading.unknown:
        return Fingerprint(sha256)
    token = hashlib.sha256("\n".join(token_of(value) for _, value in reading.unknown).encode()).hexdigest()
    named = [what for what, _ in reading.unknown]
    rest = [f"and {len(named) - MOST_NAMED:,} more"] if len(named) > MOST_NAMED else []
    return Fingerprint(sha256, (*named[:MOST_NAMED], *rest), token)


def token_of(value: Any) -> str:
    """What this process calls an object, and no other process calls anything."""
    known = _met.get(id(value))
    if known is not None and known[0]() is value:
        return known[1]
    try:
        found: Callable[[], Any] = weakref.ref(value)
    except TypeError:
        # It is kept: another object in its place in memory must not be taken for it.
        found = partial(_itself, value)
    _met[id(value)] = found, uuid.uuid4().hex
    return _met[id(value)][1]


def _itself(value: Any) -> Any:
    return value


class _Reading:
    """A walk through everything that a function holds, in an order that is the same in every process."""

    def __init__(self) -> None:
        self.digest = hashlib.sha256()
        self.unknown: list[tuple[str, Any]] = []
        self.has_source = False
        self._seen: dict[int, int] = {}
        # An id is only good for as long as its object lives.
        self._alive: list[Any] = []

    def add(self, value: Any, path: str) -> None:
        """Count a value in; `path` is how a reader finds it."""
        if _is_plain(value):
            self._note(type(value).__qualname__, repr(value))
        elif id(value) in self._seen:
            self._note("again", str(self._seen[id(value)]))
        elif len(self._seen) >= MOST_PARTS or path.count(".") + path.count("[") > MOST_LEVELS:
            self._give_up(value, path)
        else:
            self._seen[id(value)] = len(self._seen)
            self._alive.append(value)
            self._add_parts(value, path)

    def _note(self, *words: str) -> None:
        for word in words:
            encoded = word.encode("utf-8", "surrogatepass")
            self.digest.update(f"{len(encoded)}:".encode() + encoded)

    def _give_up(self, value: Any, path: str) -> None:
        self._note("unknown", type(value).__qualname__)
        self.unknown.append((f"{path.lstrip('.')[:LONGEST_NAME] or 'it'}: a {type(value).__qualname__}", value))

    def _add_parts(self, value: Any, path: str) -> None:
        match value:
            case types.FunctionType():
                self._add_function(value, path)
            case types.MethodType():
                self._add_members({"function": value.__func__, "self": value.__self__}, path)
            case partial():
                arguments = {"function": value.func, "args": value.args, **(value.keywords or {})}
                self._add_members({**arguments, **vars(value)}, path)
            case type() | types.ModuleType() | types.BuiltinFunctionType():
                self._add_named(value, path)
            case Enum():
                self._add_members({"class": type(value), "value": value.value}, path)
            case re.Pattern():
                self._add_members({"pattern": value.pattern, "flags": value.flags}, path)
            case _ if type(value) in _CONTAINERS or (isinstance(value, tuple) and hasattr(type(value), "_fields")):
                self._add_container(value, path)
            case _:
                self._add_object(value, path)

    def _add_function(self, function: types.FunctionType, path: str) -> None:
        code = function.__code__
        if not self._add_source(code):
            self._give_up(function, path)
            return
        if code.co_name == "<lambda>":
            # Several may stand on one line.
            self._note(code.co_code.hex(), *(repr(constant) for constant in code.co_consts if _is_plain(constant)))
        self._add_members({"(defaults)": function.__defaults__, "(keywords)": function.__kwdefaults__}, path)
        for held in (_closure(function), _surroundings(function), vars(function)):
            self._add_members(held, path)

    def _add_source(self, code: Any) -> bool:
        if getattr(code, "co_filename", "") in _SHARED_FILE_NAMES:
            return False
        try:
            self._note("source", inspect.getsource(code))
        except (OSError, TypeError):
            return False
        self.has_source = True
        return True

    def _add_named(self, value: Any, path: str) -> None:
        """Something that has a name of its own: a class, a module, a function of the interpreter."""
        module = value.__name__ if isinstance(value, types.ModuleType) else value.__module__ or ""
        self._note("named", module, getattr(value, "__qualname__", ""))
        owner = getattr(value, "__self__", None)
        if isinstance(value, types.BuiltinFunctionType) and not isinstance(owner, types.ModuleType | type(None)):
            self.add(owner, f"{path}.self")
        elif isinstance(value, type) and _is_open(value):
            if not self._add_file(module) and not self._add_source(value):
                self._give_up(value, path)
            for base in value.__bases__:
                self.add(base, path)

    def _add_file(self, module: str) -> bool:
        """Count in the file of a module that every process finds, with all that stands beside a class in it."""
        found = file_sha256(getattr(sys.modules.get(module), "__file__", None)) if module != "__main__" else ""
        self._note("file", found)
        self.has_source |= bool(found)
        return bool(found)

    def _add_container(self, value: Any, path: str) -> None:
        is_set = isinstance(value, set | frozenset)
        if is_set and not all(map(_is_plain, value)):
            # Their order is another one in every process.
            self._give_up(value, path)
            return
        self._note(type(value).__qualname__, str(len(value)))
        pairs = (
            value.items()
            if isinstance(value, dict | types.MappingProxyType)
            else enumerate(sorted(value, key=repr) if is_set else value)
        )
        for key, one in pairs:
            shown = f"{path}[{key!r}]" if _is_plain(key) else f"{path}[...]"
            self.add(key, shown)
            self.add(one, shown)

    def _add_object(self, value: Any, path: str) -> None:
        kinds = type(value).__mro__[:-1]
        fields = getattr(type(value), "__struct_fields__", None)
        if fields is None and not all(map(_is_open, kinds)):
            wrapped = getattr(value, "__wrapped__", None)
            self._give_up(value, path) if wrapped is None else self.add(wrapped, f"{path}.__wrapped__")
            return
        self.add(type(value), f"{path}.class")
        slots = [name for kind in kinds for name in _names(vars(kind).get("__slots__", ())) if name not in _IGNORED]
        held = {name: getattr(value, name) for name in (*slots, *(fields or ())) if hasattr(value, name)}
        self._add_members({**held, **getattr(value, "__dict__", {})}, path or ".self")

    def _add_members(self, members: dict[str, Any], path: str) -> None:
        self._note("members", str(len(members)))
        for name, value in members.items():
            self._note(name)
            self.add(value, f"{path}.{name}")


def _is_plain(value: Any) -> bool:
    return isinstance(value, _PLAIN) and type(value).__module__.partition(".")[0] in _PLAIN_MODULES


def _is_open(kind: type) -> bool:
    """True for a class in Python: what its objects hold can be seen; what is written in another language hides it."""
    if not kind.__flags__ & _MADE or kind.__flags__ & _FIXED:
        return kind is Generic
    has_members = not {"__slots__", "__dict__"}.isdisjoint(vars(kind))
    return has_members or any(_is_open(base) for base in kind.__bases__)


def _names(slots: Any) -> Iterable[str]:
    return (slots,) if isinstance(slots, str) else slots


def _closure(function: types.FunctionType) -> dict[str, Any]:
    """What a function has from the one that it was made in."""
    held: dict[str, Any] = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        # One that nothing was put into is empty for whoever calls the function too.
        with suppress(ValueError):
            held[name] = cell.cell_contents
    return held


def _surroundings(function: types.FunctionType) -> dict[str, Any]:
    """What a function uses of its own module: constants and other functions, but nothing that it sets itself."""
    used, own = function.__globals__, function.__module__
    steps = [step for code in _codes(function.__code__) for step in dis.get_instructions(code)]
    set_here = {step.argval for step in steps if step.opname == "STORE_GLOBAL"}
    names = sorted({step.argval for step in steps if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")} - set_here)
    found = {name: used[name] for name in names if name in used}
    return {
        name: value
        for name, value in found.items()
        if _is_plain(value) or (isinstance(value, types.FunctionType | type) and value.__module__ == own)
    }


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """The code of a function and of all that are made in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def file_sha256(file: str | None) -> str:
    """The hash of a file; empty where there is none to read."""
    try:
        return hashlib.sha256(Path(file).read_bytes()).hexdigest() if file else ""
    except OSError:
        return ""
