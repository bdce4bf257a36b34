"""Files that configs of promptfoo name: prompts, values of variables, and tests; those that hold code are left out by name."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeGuard

from assay.core.errors import SourceUnreadable
from assay.datasets.converters.report import UnreadableLine
from assay.datasets.converters.sources import read_source
from assay.datasets.imports.inputs import ImportSource
from assay.datasets.imports.items import Row
from assay.datasets.imports.report import ImportState
from assay.datasets.strict_yaml import parse_yaml
from assay.integrations.importers.promptfoo_asserts import FILE

MAX_FILE_BYTES = 64 << 20
MAX_VALUE_BYTES = 1 << 20
"""Of a file that is the value of one variable: every test may name one."""
_PROMPTS = frozenset({".txt", ".md", ".j2", ".json"})
_YAML = frozenset({".yaml", ".yml"})
_TESTS = frozenset({".csv", ".tsv", ".json", ".jsonl"}) | _YAML
_EXPECTED = "__expected"


def is_file(value: Any) -> TypeGuard[str]:
    """Whether a value is the address of a file."""
    return isinstance(value, str) and value.startswith(FILE)


class ConfigFiles:
    """Files that a config names: read when they were asked for, and only below the config's own folder."""

    def __init__(self, source: ImportSource, reading: ImportState) -> None:
        self._source = source
        self._root = source.path.absolute().parent.resolve()
        self._reading = reading

    def prompts(self, address: str) -> Iterator[str]:
        """The prompts in a file of text; several in one `.txt` are parted by a line of three dashes."""
        path = self._path(address, _PROMPTS)
        if path is None:
            return
        text = self._bytes(path).decode("utf-8", "replace")
        yield from [text] if path.suffix != ".txt" else (part.strip() for part in text.split("\n---\n") if part.strip())

    def filled(self, variables: Row) -> Row:
        """Variables with the texts of the files that they name; the address stays where its file was not read."""
        return {name: self._value(value) if is_file(value) else value for name, value in variables.items()}

    def _value(self, address: str) -> str:
        path = self._path(address, _PROMPTS, limit=MAX_VALUE_BYTES)
        return address if path is None else self._bytes(path).decode("utf-8", "replace").strip()

    def tests(self, address: str) -> Iterator[Row]:
        """The tests in a file: a table of variables, or tests as a config writes them."""
        path = self._path(address, _TESTS)
        if path is None:
            return
        if path.suffix.lower() in _YAML:
            document = parse_yaml(self._bytes(path))
            found = document.value if not document.flaws and isinstance(document.value, list) else [None]
            self._reading.leave_out("test in a file that is no object", sum(not isinstance(test, dict) for test in found))
            yield from (test for test in found if isinstance(test, dict))
            return
        for line, row in read_source(path).lines:
            if isinstance(row, UnreadableLine):
                self._source.tally.refuse(f"{path.name}: {row.reason}", line=line)
            else:
                yield dict(row) if "vars" in row else self._of_table(dict(row))

    def _of_table(self, row: Row) -> Row:
        """A row of a table: its columns are variables, apart from those that begin with two underscores."""
        variables = {name: value for name, value in row.items() if not name.startswith("__") and value is not None}
        test: Row = {"vars": variables}
        expected = [str(value) for name, value in row.items() if name.startswith(_EXPECTED) and value]
        test["assert"] = [_expected(value) for value in expected]
        if row.get("__description"):
            test["description"] = row["__description"]
        for name in row:
            known = not name.startswith("__") or name.startswith(_EXPECTED) or name == "__description"
            self._reading.leave_out(f"column {name}", int(not known))
        return test

    def _path(self, address: str, endings: frozenset[str], *, limit: int = MAX_FILE_BYTES) -> Path | None:
        """The file behind an address; None where it was not asked for, is not there, or is somewhere else."""
        path = (self._root / address.removeprefix(FILE)).resolve()
        if not self._reading.follows_files:
            self._reading.leave_out("file:// (add --with-files)")
        elif not path.is_relative_to(self._root):
            self._reading.leave_out("file:// outside of the config's folder")
        elif path.suffix.lower() not in endings:
            self._reading.leave_out(f"file:// of type {path.suffix or 'none'}")
        elif not path.is_file() or path.stat().st_size > limit:
            self._reading.leave_out("file:// that cannot be read")
        else:
            return path
        return None

    def _bytes(self, path: Path) -> bytes:
        try:
            return path.read_bytes()
        except OSError as problem:
            raise SourceUnreadable(f"cannot read '{path}': {problem.strerror}", hint="check its permissions") from problem


def _expected(text: str) -> Row:
    """`contains: Danish` as an assertion; without a type the whole cell is the expected answer."""
    form, colon, value = text.partition(":")
    is_typed = bool(colon) and form.replace("-", "").isalnum() and form == form.lower() and " " not in form
    return {"type": form, "value": value.strip()} if is_typed else {"type": "equals", "value": text}
