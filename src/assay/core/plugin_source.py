"""What identifies the code of a plugin: the hashes of its source files, and the values that it holds."""

import ast
import copyreg
import hashlib
import importlib.util
import inspect
import linecache
import site
import sys
import sysconfig
import types
import uuid
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache, partial
from importlib.machinery import (
    BYTECODE_SUFFIXES,
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    ModuleSpec,
    SourceFileLoader,
    SourcelessFileLoader,
)
from pathlib import Path, PurePath
from textwrap import dedent
from typing import Any

import msgspec

from assay.core.canonical import JsonObject
from assay.core.errors import ThirdPartyCode, ThirdPartyError

MAX_MODULES = 1000
"""Local modules that one plugin may import; their files are read whenever a run is planned or resumed."""
MAX_VALUES = 10_000
MAX_LEVELS = 60
MAX_NAMED = 5
MAX_PATH = 100
_PLAIN = (type(None), type(...), type(NotImplemented), bool, int, float, complex, str, bytes)
_CONTAINERS = (list, tuple, dict, set, frozenset, types.MappingProxyType)
_LOADERS: tuple[tuple[Any, list[str]], ...] = (
    (ExtensionFileLoader, EXTENSION_SUFFIXES),
    (SourceFileLoader, SOURCE_SUFFIXES),
    (SourcelessFileLoader, BYTECODE_SUFFIXES),
)
_OWN_PACKAGE = __name__.partition(".")[0]
_FROZEN = "<frozen "
"""How the file names of modules begin that are part of the interpreter."""
_SHARED_FILE_NAMES = frozenset({"<string>", "<stdin>", "<unknown>"})
"""File names that all code from `exec` shares. From Python 3.13 on, `inspect` finds the text of `python -c` for any of it."""


class PluginSource(msgspec.Struct, frozen=True):
    """What identifies the code of a plugin."""

    sha256: str
    """Of its own source files, and of the values that it holds where it was given in Python; empty where no source can be read."""
    imports: dict[str, str]
    """The SHA-256 of the file of each local module that it imports, by the module's name."""
    unknown: tuple[str, ...] = ()
    """What of it cannot be compared, such as `self._client: a Client`."""
    token: str = ""
    """The same for the same unknown objects in this process, and never found in another one; empty where all is known."""


def source_of_files(files: Iterable[str | None], target: object) -> PluginSource:
    """Identify code that any process finds by a reference: by its files, and by the local modules that these import."""
    local = _LocalModules()
    hashes = [sha256 for file in dict.fromkeys(files) if file and (sha256 := local.add_file(file))]
    hashes = list(dict.fromkeys(hashes))
    if not hashes:
        return _partly_known("", local, [("its source", target)])
    sha256 = hashes[0] if len(hashes) == 1 else hashlib.sha256("\n".join(hashes).encode()).hexdigest()
    return _partly_known(sha256, local, [])


def source_of_object(target: object) -> PluginSource:
    """Identify code that was given in Python: by its files or its own text, and by the values that it holds."""
    walk = _ObjectWalk()
    walk.add(target, "")
    if not walk.has_source:
        return _partly_known("", walk.local, [("its source", target)])
    return _partly_known(walk.digest.hexdigest(), walk.local, walk.unknown)


def _partly_known(sha256: str, local: "_LocalModules", unknown: list[tuple[str, Any]]) -> PluginSource:
    if local.is_full:
        unknown = [*unknown, (f"its local modules: more than {MAX_MODULES:,}", local)]
    named = [what for what, _ in unknown]
    rest = [f"and {len(named) - MAX_NAMED:,} more"] if len(named) > MAX_NAMED else []
    token = hashlib.sha256("\n".join(_token_of(value) for _, value in unknown).encode()).hexdigest() if unknown else ""
    return PluginSource(sha256, dict(sorted(local.hashes.items())), (*named[:MAX_NAMED], *rest), token)


_tokens: dict[int, tuple[Callable[[], Any], str]] = {}
"""Objects that cannot be compared, by their id, and what this process calls them."""


def _token_of(value: object) -> str:
    """Return what this process, and no other one, calls an object."""
    known = _tokens.get(id(value))
    if known is not None and known[0]() is value:
        return known[1]
    try:
        found: Callable[[], Any] = weakref.ref(value)
    except TypeError:
        # It is kept alive: another object with its id must not be taken for it.
        found = partial(_itself, value)
    _tokens[id(value)] = found, uuid.uuid4().hex
    return _tokens[id(value)][1]


def _itself(value: object) -> Any:
    return value


class _LocalModules:
    """The modules that source files import, as far as they belong to the author: not installed, not built in, not ours."""

    def __init__(self) -> None:
        self.hashes: dict[str, str] = {}
        self.is_full = False
        self._own: dict[Path, str] = {}

    def add_file(self, file: str) -> str:
        """Read a file of the plugin itself and return its hash; empty where it cannot be read."""
        path = Path(file).resolve()
        if path not in self._own:
            content = _content(path)
            self._own[path] = "" if content is None else hashlib.sha256(content).hexdigest()
            if content is not None and not is_installed(path):
                self._follow(content, _package_of(path))
        return self._own[path]

    def _follow(self, content: bytes, package: str) -> None:
        """Add all that a source imports, and what that imports; not by recursion, since chains of imports may be long."""
        waiting = [(content, package)]
        while waiting:
            for name, path in _imports(*waiting.pop()):
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


def _imports(content: bytes, package: str) -> Iterator[tuple[str, Path]]:
    """Yield the local modules that a source imports, wherever in it; packages come before their modules."""
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError):
        # Compiled code, such as an extension module: its own hash is all that can be known.
        return
    for node in ast.walk(tree):
        match node:
            case ast.Import():
                names = [alias.name for alias in node.names]
            case ast.ImportFrom():
                base = _absolute(node.module or "", node.level, package)
                # A name that is imported from a package may be one of its modules.
                names = [f"{base}.{alias.name}" for alias in node.names] if base else []
            case _:
                continue
        for name in names:
            yield from _files(name)


def _absolute(module: str, level: int, package: str) -> str:
    if not level:
        return module
    parts = package.split(".")
    if not package or level > len(parts):
        return ""
    return ".".join((*parts[: len(parts) - level + 1], *([module] if module else [])))


def _files(name: str) -> Iterator[tuple[str, Path]]:
    """Yield the local files that importing a dotted name reads: those of its packages and of the module itself."""
    top, *rest = name.split(".")
    if top in sys.stdlib_module_names or top == _OWN_PACKAGE:
        return
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return
    full = top
    while spec is not None:
        if spec.origin is not None and spec.has_location:
            path = Path(spec.origin)
            if is_installed(path):
                return
            yield full, path
        if not rest:
            return
        full = f"{full}.{rest.pop(0)}"
        spec = _below(full, spec)


def _below(name: str, package: ModuleSpec) -> ModuleSpec | None:
    """Find a module of a package without importing the package, which the path finder needs for folders without an `__init__`."""
    portions: list[str] = []
    for folder in package.submodule_search_locations or ():
        spec = FileFinder(folder, *_LOADERS).find_spec(name)
        if spec is not None and spec.loader is not None:
            return spec
        portions += (spec and spec.submodule_search_locations) or ()
    if not portions:
        return None
    found = ModuleSpec(name, None, is_package=True)
    found.submodule_search_locations = portions
    return found


def is_installed(path: Path) -> bool:
    """Return whether a file belongs to an installed package or to Python; its package's version stands for it."""
    resolved = path.resolve()
    return any(resolved.is_relative_to(folder) for folder in (*_library_folders(), *_standard_folders()))


def _is_standard(path: Path) -> bool:
    resolved = path.resolve()
    in_library = any(resolved.is_relative_to(folder) for folder in _library_folders())
    return not in_library and any(resolved.is_relative_to(folder) for folder in _standard_folders())


@cache
def _library_folders() -> tuple[Path, ...]:
    paths = sysconfig.get_paths()
    folders = (paths["purelib"], paths["platlib"], *site.getsitepackages(), site.getusersitepackages())
    return tuple(dict.fromkeys(Path(folder).resolve() for folder in folders))


@cache
def _standard_folders() -> tuple[Path, ...]:
    paths = sysconfig.get_paths()
    return tuple(dict.fromkeys(Path(paths[name]).resolve() for name in ("stdlib", "platstdlib")))


class _ObjectWalk:
    """A walk through code and the values that it holds, in an order that is the same in every process."""

    def __init__(self) -> None:
        self.digest = hashlib.sha256()
        self.local = _LocalModules()
        self.unknown: list[tuple[str, Any]] = []
        self.has_source = False
        self._seen: dict[int, int] = {}
        # An id is only good for as long as its object lives.
        self._alive: list[Any] = []

    def add(self, value: object, path: str) -> None:
        """Count a value in; `path` is how a reader finds it."""
        if type(value) in _PLAIN:
            self._note(type(value).__name__, repr(value))
        elif isinstance(value, PurePath):
            self._note("path", str(value))
        elif id(value) in self._seen:
            self._note("again", str(self._seen[id(value)]))
        elif len(self._seen) >= MAX_VALUES or path.count(".") + path.count("[") > MAX_LEVELS:
            self._give_up(value, path)
        else:
            self._seen[id(value)] = len(self._seen)
            self._alive.append(value)
            self._add_parts(value, path)

    def _note(self, *words: str) -> None:
        for word in words:
            encoded = word.encode("utf-8", "surrogatepass")
            self.digest.update(f"{len(encoded)}:".encode() + encoded)

    def _give_up(self, value: object, path: str) -> None:
        self._note("unknown", type(value).__qualname__)
        self.unknown.append((f"{path.lstrip('.')[:MAX_PATH] or 'it'}: a {type(value).__qualname__}", value))

    def _add_parts(self, value: object, path: str) -> None:
        match value:
            case types.FunctionType():
                self._add_function(value, path)
            case types.MethodType():
                self._add_members({"function": value.__func__, "self": value.__self__}, path)
            case partial():
                arguments = {"function": value.func, "args": value.args, **value.keywords}
                self._add_members({**arguments, **vars(value)}, path)
            case type():
                self._add_class(value, path)
            case types.ModuleType():
                self._note("module", value.__name__)
            case _ if type(value) in _CONTAINERS:
                self._add_container(value, path)
            case _:
                self._add_object(value, path)

    def _add_function(self, function: types.FunctionType, path: str) -> None:
        if not self._add_code(function.__code__):
            self._give_up(function, path)
            return
        self._add_members({"(defaults)": function.__defaults__, "(keywords)": function.__kwdefaults__}, path)
        held = [_closure(function), vars(function)]
        if not _has_file(function.__module__):
            held.append(_globals(function))
        for members in held:
            self._add_members(members, path)

    def _add_code(self, code: types.CodeType) -> bool:
        """Count in the file of a function and its position there; of a cell of a notebook, which has no file, its text."""
        file = Path(code.co_filename)
        self._note("function", code.co_qualname)
        if _is_standard(file) or code.co_filename.startswith(_FROZEN):
            return True
        if code.co_filename in _SHARED_FILE_NAMES:
            return False
        sha256 = self.local.add_file(code.co_filename) if file.is_file() else ""
        # A cell of a notebook has no file; the number of its line changes whenever it is edited above.
        text = "" if sha256 else _text_of(code)
        if not sha256 and not text:
            return False
        self._note("file" if sha256 else "text", sha256 or text, str(code.co_firstlineno) if sha256 else "")
        if code.co_name == "<lambda>":
            content = _content(file) if sha256 else "".join(linecache.getlines(code.co_filename))
            column = _lambda_column(code, content or "")
            if column is None:
                return False
            self._note(str(column))
        self.has_source = True
        return True

    def _add_class(self, value: type, path: str) -> None:
        """Count in a class by its name and the file of its module."""
        self._note("class", value.__module__, value.__qualname__)
        top = value.__module__.partition(".")[0]
        if top in sys.stdlib_module_names and top != "__main__":
            return
        if not self._add_module(value.__module__):
            try:
                self._note("text", inspect.getsource(value))
                self.has_source = True
            except (OSError, TypeError):
                self._give_up(value, path)
        for base in value.__bases__:
            self.add(base, path)

    def _add_module(self, name: str) -> bool:
        file = getattr(sys.modules.get(name), "__file__", None)
        sha256 = self.local.add_file(file) if isinstance(file, str) else ""
        self._note("file", sha256)
        self.has_source |= bool(sha256)
        return bool(sha256)

    def _add_container(self, value: Any, path: str) -> None:
        is_set = isinstance(value, set | frozenset)
        if is_set and not all(type(member) in _PLAIN for member in value):
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
            shown = f"{path}[{key!r}]" if type(key) in _PLAIN else f"{path}[...]"
            self.add(key, shown)
            self.add(one, shown)

    def _add_object(self, value: object, path: str) -> None:
        """Count in an object by what it would be pickled from; what cannot be pickled cannot be compared."""
        try:
            with ThirdPartyCode():
                reduce = copyreg.dispatch_table.get(type(value))
                made_from = reduce(value) if reduce else value.__reduce_ex__(2)
        except ThirdPartyError:
            self._give_up(value, path)
            return
        if isinstance(made_from, str):
            self._add_named(value, made_from, path)
            return
        function, arguments, *states = made_from
        self._add_members({"(made by)": function, "(made from)": arguments}, path)
        for state in states:
            # Items of subclasses of list and dict come as iterators.
            plain = list(state) if isinstance(state, Iterator) else state
            members = plain if isinstance(plain, tuple) and len(plain) == 2 else (plain,)
            for part in members:
                if isinstance(part, dict) and all(isinstance(name, str) for name in part):
                    self._add_members(part, path or ".self")
                else:
                    self.add(part, f"{path}.state")

    def _add_named(self, value: object, name: str, path: str) -> None:
        """Count in what is pickled by its name: a function of the interpreter or of an extension, a wrapper, a singleton."""
        module = str(getattr(value, "__module__", None) or "")
        self._note("named", module, name)
        wrapped = getattr(value, "__wrapped__", None)
        if wrapped is not None:
            self.add(wrapped, f"{path}.__wrapped__")
        elif module.partition(".")[0] not in sys.stdlib_module_names and not self._add_module(module):
            self._give_up(value, path)

    def _add_members(self, members: Mapping[str, object], path: str) -> None:
        self._note("members", str(len(members)))
        for name, value in members.items():
            self._note(name)
            self.add(value, path if name.startswith("(") else f"{path}.{name}")


def _text_of(code: types.CodeType) -> str:
    try:
        return inspect.getsource(code)
    except (OSError, TypeError):
        return ""


def _lambda_column(code: types.CodeType, content: bytes | str) -> int | None:
    """Return the column at which a lambda begins, which tells it from others on its line; None where that cannot be found out."""
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError):
        return None
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Lambda) and node.lineno == code.co_firstlineno]
    if len(found) > 1:
        start = _body_start(code)
        found = [node for node in found if (_returns(node, code) if start is None else _holds(node.body, start))]
    # The last one is the innermost.
    return max((node.col_offset for node in found), default=None)


def _body_start(code: types.CodeType) -> tuple[int, int] | None:
    """Return where the body of a function begins; None where Python keeps no columns, as for a constant."""
    positions = ((line, column, last) for line, _, column, last in code.co_positions())
    # The instructions that begin a function have no columns of their own.
    known = ((line, column) for line, column, last in positions if line and column is not None and (column, last) != (0, 0))
    return min(known, default=None)


def _holds(body: ast.expr, start: tuple[int, int]) -> bool:
    end = (body.end_lineno or body.lineno, body.end_col_offset or body.col_offset)
    return (body.lineno, body.col_offset) <= start < end


def _returns(node: ast.Lambda, code: types.CodeType) -> bool:
    """Return whether all that a lambda does is to return a constant that its code has."""
    return isinstance(node.body, ast.Constant) and repr(node.body.value) in map(repr, code.co_consts)


def _has_file(module: str | None) -> bool:
    """Return whether a module is a file that is imported, so that its constants are part of the file."""
    return module not in (None, "__main__") and bool(getattr(sys.modules.get(module or ""), "__file__", None))


def _closure(function: types.FunctionType) -> JsonObject:
    """Return the variables of the function that a function was made in."""
    held: JsonObject = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        # An empty cell is empty for callers of the function too.
        with suppress(ValueError):
            held[name] = cell.cell_contents
    return held


def _globals(function: types.FunctionType) -> JsonObject:
    """Return the constants, functions and classes of its script or notebook that a function names, but nothing that it sets."""
    names = sorted({name for code in _codes(function.__code__) for name in code.co_names} - _set_by(function))
    found = {name: function.__globals__[name] for name in names if name in function.__globals__}
    return {
        name: value
        for name, value in found.items()
        if type(value) in _PLAIN or (isinstance(value, types.FunctionType | type) and value.__module__ == function.__module__)
    }


def _set_by(function: types.FunctionType) -> set[str]:
    """Return the names that a function declares as global, to set them; a lambda cannot."""
    try:
        tree = ast.parse(dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError, ValueError):
        return set()
    return {name for node in ast.walk(tree) if isinstance(node, ast.Global) for name in node.names}


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """Yield the code of a function and of all that are made in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)
