"""Identity of a plugin's code: hashes of its source files and of the local modules they import, and the plain data it holds."""

import ast
import hashlib
import importlib.util
import inspect
import re
import site
import sys
import sysconfig
import threading
import types
import uuid
import weakref
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache, partial
from pathlib import Path, PurePath
from typing import Any

import msgspec

MAX_MODULES = 1000
"""Local modules that one plugin may import; their files are read whenever a run is planned or resumed."""
# Plain data of a closure may be a whole dataset. Hashing it would hold up every start, and a `version` settles the matter.
MAX_VALUES = 10_000
MAX_LEVELS = 60
MAX_NAMED = 5
MAX_PATH = 100
_PLAIN = (type(None), type(...), bool, int, float, complex, str, bytes)
_CONTAINERS = (list, tuple, dict, set, frozenset)
# assay itself is left out: a new version of it must not make every plugin look changed. The manifest names the version.
_OWN_PACKAGE = __name__.partition(".")[0]
_SHARED_FILE_NAMES = frozenset({"<string>", "<stdin>", "<unknown>"})
"""File names that all code from `exec` shares. From Python 3.13 on, `inspect` finds the text of `python -c` for any of it."""
# The parser of Python 3.11 counts its depth for all threads together, and fails where two parse at once.
_PARSING = threading.Lock()
_NO_SOURCE = "its source"


class PluginSource(msgspec.Struct, frozen=True):
    """Identity of a plugin's code."""

    sha256: str
    """Of its own source files, and of the values that it holds where it was given in Python; empty where no source can be read."""
    imports: dict[str, str]
    """The SHA-256 of the file of each local module that it imports, by the module's name."""
    unknown: tuple[str, ...] = ()
    """Parts that cannot be compared, such as `client: a Client`; a declared version stands for them."""
    token: str = ""
    """The same for the same unknown objects in this process, and never found in another one; empty where all is known."""


def source_of_files(files: Iterable[str | None], target: object) -> PluginSource:
    """Identify code that any process finds by a reference: by its files, and by the local modules that these import."""
    local = _LocalModules()
    hashes = list(dict.fromkeys(sha256 for file in dict.fromkeys(files) if file and (sha256 := local.add_file(file))))
    if not hashes:
        return _identity("", local, [(_NO_SOURCE, target)])
    return _identity(hashes[0] if len(hashes) == 1 else hashlib.sha256("\n".join(hashes).encode()).hexdigest(), local, [])


def source_of_object(target: object) -> PluginSource:
    """Identify code that was given in Python: by its files or its own text, and by the plain data that it holds."""
    held = _HeldValues()
    held.add(target, "")
    # Without a source there is no identity to compare: an empty hash never equals that of the same code with a source.
    is_unreadable = any(what == _NO_SOURCE for what, _ in held.unknown)
    return _identity("" if is_unreadable else held.digest.hexdigest(), held.local, held.unknown)


def _identity(sha256: str, local: "_LocalModules", unknown: list[tuple[str, object]]) -> PluginSource:
    if local.is_full:
        unknown = [*unknown, (f"its local modules: more than {MAX_MODULES:,}", local)]
    named = [what for what, _ in unknown]
    rest = [f"and {len(named) - MAX_NAMED:,} more"] if len(named) > MAX_NAMED else []
    token = hashlib.sha256("\n".join(_token_of(value) for _, value in unknown).encode()).hexdigest() if unknown else ""
    return PluginSource(sha256, dict(sorted(local.hashes.items())), (*named[:MAX_NAMED], *rest), token)


_tokens: dict[int, tuple[Any, str]] = {}
"""A reference to each object that cannot be compared, and its token, by the object's id."""


def _token_of(value: object) -> str:
    """Return this process's token for an object; no other process has it."""
    known = _tokens.get(id(value))
    if known is None or known[0]() is not value:
        try:
            reference: Any = weakref.ref(value)
        except TypeError:
            # Without weak references the object is kept alive: another one with its id must not get its token.
            reference = partial(lambda kept: kept, value)
        known = _tokens[id(value)] = (reference, uuid.uuid4().hex)
    return known[1]


class _LocalModules:
    """The modules that source files import, as far as they belong to the author: not installed, not built in, not ours."""

    def __init__(self) -> None:
        self.hashes: dict[str, str] = {}
        self.is_full = False
        self._own: dict[Path, str] = {}

    def add_file(self, file: str) -> str:
        """Read a file of the plugin itself and return its hash; empty where it cannot be read."""
        # Resolved, so that a symbolic link and its target are one file, which is read and followed once.
        path = Path(file).resolve()
        if path not in self._own:
            content = _content(path)
            self._own[path] = "" if content is None else hashlib.sha256(content).hexdigest()
            if content is not None and not is_installed(path):
                self._follow(content, _package_of(path))
        return self._own[path]

    def _follow(self, content: bytes, package: str) -> None:
        # A list of open files instead of recursion, since chains of imports may be long.
        waiting = [(content, package)]
        while waiting:
            # Imports inside functions count too: a plugin may import its rules when it is first called.
            for name, path in _local_imports(*waiting.pop()):
                if name in self.hashes or path.resolve() in self._own:
                    continue
                if len(self.hashes) >= MAX_MODULES:
                    self.is_full = True
                    return
                found = _content(path)
                if found is not None:
                    self.hashes[name] = hashlib.sha256(found).hexdigest()
                    waiting.append((found, name if path.stem == "__init__" else name.rpartition(".")[0]))


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


def _package_of(path: Path) -> str:
    """Return the package of a loaded module by its file, which relative imports start from."""
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and Path(file).name == path.name and Path(file).resolve() == path:
            return getattr(module, "__package__", "") or ""
    return ""


def _local_imports(content: bytes, package: str) -> Iterator[tuple[str, Path]]:
    """Yield the local modules that a source imports, wherever in it; packages come before their modules."""
    try:
        with _PARSING:
            tree = ast.parse(content)
    except (SyntaxError, ValueError):
        # Compiled code, such as an extension module: its own hash is all that can be known.
        return
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            # A relative import may lead above the package, which fails when it is executed.
            with suppress(ImportError):
                base = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
                # A name that is imported from a package may be one of its modules.
                names = [f"{base}.{alias.name}" for alias in node.names]
        for name in names:
            yield from _local_files(name)


def _local_files(name: str) -> Iterator[tuple[str, Path]]:
    """Yield the local files that importing a dotted name reads: those of its packages and of the module itself."""
    parts = name.split(".")
    if parts[0] in sys.stdlib_module_names or parts[0] == _OWN_PACKAGE:
        return
    for length in range(1, len(parts) + 1):
        path = _module_file(parts[:length])
        if path is not None and is_installed(path):
            return
        if path is not None:
            yield ".".join(parts[:length]), path


def _module_file(parts: list[str]) -> Path | None:
    """Find the file of a module without importing it, since an import would run code that the plugin may never run."""
    loaded = getattr(sys.modules.get(".".join(parts)), "__file__", None)
    if isinstance(loaded, str):
        return Path(loaded)
    bases = (Path(folder, *parts) for folder in sys.path)
    candidates = (file for base in bases for file in (base / "__init__.py", base.with_name(f"{base.name}.py")))
    return next(filter(Path.is_file, candidates), None)


def is_installed(path: Path) -> bool:
    """Return whether a file belongs to an installed package or to Python; its package's version stands for it."""
    # Packages are known by their version; reading all their files at every start would be slow, and say no more.
    return any(path.resolve().is_relative_to(folder) for folder in _installed_folders())


@cache
def _installed_folders() -> tuple[Path, ...]:
    paths = sysconfig.get_paths()
    named = (paths[name] for name in ("purelib", "platlib", "stdlib", "platstdlib"))
    return tuple({Path(folder).resolve() for folder in (*named, *site.getsitepackages(), site.getusersitepackages())})


class _HeldValues:
    """Code and the plain data that it holds, hashed in an order that is the same in every process and release of Python."""

    def __init__(self) -> None:
        self.digest = hashlib.sha256()
        self.local = _LocalModules()
        self.unknown: list[tuple[str, object]] = []
        # The values stay alive with their ids, which Python would give to other objects.
        self._seen: dict[int, tuple[int, object]] = {}

    def add(self, value: object, path: str) -> None:
        """Count a value in; `path` is how a reader finds it."""
        if type(value) in _PLAIN:
            self._note(type(value).__name__, repr(value))
            return
        if id(value) in self._seen:
            # By its number: cycles end, and shared values are distinguished from equal copies without their addresses.
            self._note("again", str(self._seen[id(value)][0]))
            return
        if len(self._seen) >= MAX_VALUES or path.count(".") + path.count("[") > MAX_LEVELS:
            self._give_up(value, path)
            return
        self._seen[id(value)] = (len(self._seen), value)
        match value:
            case PurePath():
                self._note("path", str(value))
            case re.Pattern():
                self._note("pattern", repr(value.pattern), str(value.flags))
            case types.FunctionType():
                self._add_function(value, path)
            case types.MethodType():
                self._add_members({"(function)": value.__func__, "(self)": value.__self__}, path)
            case partial():
                self._add_members({"(function)": value.func, "args": list(value.args), **value.keywords}, path)
            case types.BuiltinFunctionType() if isinstance(value.__self__, types.ModuleType):
                self._note("built in", value.__self__.__name__, value.__qualname__)
            case type():
                self._add_class(value, path)
            case list() | tuple() | dict() | set() | frozenset() if type(value) in _CONTAINERS:
                self._add_container(value, path)
            case _:
                self._add_object(value, path)

    def _note(self, *words: str) -> None:
        for word in words:
            encoded = word.encode("utf-8", "surrogatepass")
            # With its length before each word, no two lists of words give the same bytes.
            self.digest.update(f"{len(encoded)}:".encode() + encoded)

    def _give_up(self, value: object, path: str) -> None:
        kind = type(value).__qualname__
        self._note("unknown", kind)
        shown = f"{path.lstrip('.')[:MAX_PATH]}: a {kind}" if path else _NO_SOURCE
        self.unknown.append((shown, value))

    def _add_function(self, function: types.FunctionType, path: str) -> None:
        code = function.__code__
        text = _text_of(code)
        # Lambdas on one line have the same position, and nothing but compiled code tells them apart.
        if not text or (code.co_name == "<lambda>" and text.count("lambda") > 1):
            self._give_up(function, path)
            return
        self._note("function", code.co_qualname)
        sha256 = self.local.add_file(code.co_filename)
        # The cell of a notebook has no file; a line number would change whenever the cell is edited above.
        self._note(*((sha256, str(code.co_firstlineno)) if sha256 else ("text", text)))
        self._add_members({"(defaults)": function.__defaults__, "(keywords)": function.__kwdefaults__, **vars(function)}, path)
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            # An empty cell is empty for callers of the function too.
            with suppress(ValueError):
                self._add_members({name: cell.cell_contents}, path)
        module = sys.modules.get(function.__module__ or "")
        if function.__module__ == "__main__" or not getattr(module, "__file__", None):
            # Another process may execute a script or a notebook with other values, as a module is not.
            self._add_members(_script_globals(function), path)

    def _add_class(self, value: type, path: str) -> None:
        """Count in a class and its bases by their text and the files of their modules; `object` has neither."""
        for one in value.__mro__[:-1]:
            module = sys.modules.get(one.__module__)
            file = getattr(module, "__file__", None)
            try:
                with _PARSING:
                    text = inspect.getsource(one)
            except (OSError, TypeError):
                self._give_up(one, path)
                return
            # The text of the standard library is another one in every release.
            is_standard = one.__module__.partition(".")[0] in sys.stdlib_module_names and one.__module__ != "__main__"
            sha256 = self.local.add_file(file) if isinstance(file, str) and not is_standard else ""
            self._note("class", one.__module__, one.__qualname__, "" if is_standard else text, sha256)

    def _add_container(self, value: Collection[object], path: str) -> None:
        self._note(type(value).__name__, str(len(value)))
        if isinstance(value, dict):
            for key, one in value.items():
                self.add(key, f"{path}[...]")
                self.add(one, f"{path}[{key!r}]" if type(key) in _PLAIN else f"{path}[...]")
        elif isinstance(value, list | tuple):
            for index, one in enumerate(value):
                self.add(one, f"{path}[{index}]")
        elif all(type(one) in _PLAIN for one in value):
            self._note(*sorted(f"{type(one).__name__} {one!r}" for one in value))
        else:
            # The order of a set is another one in every process.
            self._give_up(value, path)

    def _add_object(self, value: object, path: str) -> None:
        """Count in an object of Python classes by its attributes; slots and types in C hold more than these."""
        if not hasattr(value, "__dict__") or any(vars(one).get("__slots__") for one in type(value).__mro__):
            self._give_up(value, path)
            return
        self._add_class(type(value), path)
        self._add_members(vars(value), path)

    def _add_members(self, members: Mapping[str, object], path: str) -> None:
        self._note("members", str(len(members)))
        for name, value in members.items():
            self._note(name)
            self.add(value, path if name.startswith("(") else f"{path}.{name}")


def _text_of(code: types.CodeType) -> str:
    if code.co_filename in _SHARED_FILE_NAMES:
        return ""
    try:
        return inspect.getsource(code)
    except (OSError, TypeError):
        return ""


def _script_globals(function: types.FunctionType) -> dict[str, object]:
    """Return the constants, functions and classes of its script or notebook that a function names."""
    names = sorted({name for code in _codes(function.__code__) for name in code.co_names})
    found = {name: function.__globals__[name] for name in names if name in function.__globals__}
    return {
        name: value
        for name, value in found.items()
        if type(value) in _PLAIN or (isinstance(value, types.FunctionType | type) and value.__module__ == function.__module__)
    }


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """Yield the code of a function and of all that are made in it, such as comprehensions before Python 3.12."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)
