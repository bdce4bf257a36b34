"""Configs of promptfoo, with the files that they name, into questions: every prompt with the variables of every test, no code."""

import re
from collections.abc import Iterator
from itertools import islice, product
from pathlib import Path
from typing import Any, TypeGuard

import msgspec

from assay.core.errors import SourceUnreadable
from assay.core.strict_json import parse_json
from assay.datasets.converters.canonical import digest
from assay.datasets.converters.columns import RowRefused, kind
from assay.datasets.converters.report import UnreadableLine
from assay.datasets.converters.sources import read_source
from assay.datasets.imports.items import ImportedItem, ImportedQuestion, ImportSource, ImportState, Row
from assay.datasets.strict_yaml import parse_yaml
from assay.integrations.importers.chat import ImportedPrompt, asked
from assay.integrations.importers.promptfoo_asserts import FILE, AnswerRequirements, demands, filled_in, variables_in

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


MAX_COMBINATIONS = 10_000
"""Of the values of one test's variables."""
_READ = frozenset({"prompts", "tests", "defaultTest", "description"})
_TEST = frozenset({"vars", "assert", "description", "metadata"})
_CODE = re.compile(r"exec:|(?:file://)?[^\s{}]+\.(?:py|rb|go|sh|[cm]?[jt]s)(?::\w+)?$")
"""Prompts generated by a program, which the importer does not run."""
_ELSEWHERE = re.compile(r"(?:portkey|langfuse|helicone)://")
_FILE_NAME = re.compile(r"[^\s{}]+\.(?:txt|md|j2|json|jsonl|ya?ml|csv)")
"""Promptfoo takes a prompt that is called like a file for that file."""


def read_config(source: ImportSource, config: Row, reading: ImportState) -> Iterator[tuple[ImportedItem, ImportSource, int]]:
    """The questions of a config, test by test."""
    files = ConfigFiles(source, reading)
    for name in config:
        reading.leave_out(f"config {name}", int(name not in _READ))
    shared = config.get("defaultTest")
    given = shared if isinstance(shared, dict) else {}
    for name in given:
        reading.leave_out(f"defaultTest.{name}", int(name not in _TEST))
    prompts = list(_prompts(config.get("prompts"), files, reading))
    if not prompts:
        raise SourceUnreadable(f"'{source.name}' has no prompts that can be read", hint="name its files too: --with-files")
    dataset = str(config.get("description") or source.path.name.partition(".")[0])
    for number, test in enumerate(_tests(config.get("tests"), files, reading), 1):
        for values in _combinations(test, given, reading):
            source.tally.read += len(prompts)
            variables = files.filled(values)
            yield from _questions(source, reading, prompts=prompts, test=_Test(test, given, variables), place=(dataset, number))


class _Test(msgspec.Struct, frozen=True):
    """One test with one value for each of its variables."""

    test: Row
    shared: Row
    variables: Row

    @property
    def asserted(self) -> list[Any]:
        """The assertions of the test, after those of all tests."""
        listed = (self.shared.get("assert"), self.test.get("assert"))
        return [one for asserts in listed if isinstance(asserts, list) for one in asserts]

    @property
    def metadata(self) -> Row:
        """What is known of the test beside its question."""
        return test_metadata(self.test, self.variables)


def test_metadata(test: Row, variables: Row) -> Row:
    """The metadata of a test, its description and its variables."""
    own, description = test.get("metadata"), test.get("description")
    named = {"description": description} if isinstance(description, str) else {}
    return {**(own if isinstance(own, dict) else {}), **named, **({"vars": variables} if variables else {})}


def _questions(
    source: ImportSource, reading: ImportState, *, prompts: list[str], test: _Test, place: tuple[str, int]
) -> Iterator[tuple[ImportedItem, ImportSource, int]]:
    dataset, line = place
    demanded = demands(test.asserted, test.variables, reading)
    for name in test.test:
        reading.leave_out(f"test.{name}", int(name not in _TEST))
    for prompt in prompts:
        try:
            given = asked(chat_or_text(_filled(prompt, test.variables, reading)), reading)
        except RowRefused as problem:
            source.tally.refuse(str(problem), line=line)
            continue
        yield ImportedItem(question=question_of(given, demanded, dataset=dataset, metadata=test.metadata)), source, line


def _filled(prompt: str, variables: Row, reading: ImportState) -> str:
    """The prompt with its variables; raises RowRefused where the value of one is in a file that was not read."""
    unread = next((name for name in variables_in(prompt) if is_file(variables.get(name))), None)
    if unread is not None:
        raise RowRefused(f"the value of {unread!r} is in a file that was not read")
    return filled_in(prompt, variables, reading)


def question_of(given: ImportedPrompt, demanded: AnswerRequirements, *, dataset: str, metadata: Row) -> ImportedQuestion:
    """The question of one prompt and one test; its id depends on both alone, so that configs and results agree on it."""
    return ImportedQuestion(
        id=f"promptfoo:{digest(given.prompt, given.messages, demanded.references, demanded.rubric)}",
        dataset=dataset,
        prompt=given.prompt,
        messages=given.messages,
        references=demanded.references,
        rubric=demanded.rubric,
        metadata=metadata,
    )


def chat_or_text(prompt: str) -> Any:
    """The messages of a prompt that is written as JSON; any other prompt as it stands."""
    if not prompt.lstrip().startswith("["):
        return prompt
    document = parse_json(prompt)
    is_chat = not document.flaws and isinstance(document.value, list) and all(isinstance(one, dict) for one in document.value)
    return document.value if is_chat and document.value else prompt


def _prompts(given: Any, files: ConfigFiles, reading: ImportState) -> Iterator[str]:
    for prompt in given if isinstance(given, list) else [given]:
        text = (prompt.get("raw") or prompt.get("id")) if isinstance(prompt, dict) else prompt
        if not isinstance(text, str):
            reading.leave_out(f"prompt that is {kind(prompt)}")
        elif _CODE.match(text):
            reading.leave_out("prompt that is code")
        elif _ELSEWHERE.match(text):
            reading.leave_out("prompt from elsewhere")
        elif text.startswith(FILE) or _FILE_NAME.fullmatch(text):
            yield from files.prompts(text)
        else:
            yield text


def _tests(given: Any, files: ConfigFiles, reading: ImportState) -> Iterator[Row]:
    for test in given if isinstance(given, list) else [] if given is None else [given]:
        if isinstance(test, dict):
            yield test
        elif isinstance(test, str) and test.startswith(FILE):
            yield from files.tests(test)
        else:
            reading.leave_out(f"test that is {kind(test)}" if not isinstance(test, str) else "tests from elsewhere")


def _combinations(test: Row, shared: Row, reading: ImportState) -> Iterator[Row]:
    """The variables of a test; a list of values stands for one test with each of them."""
    merged = {**_mapping(shared.get("vars"), reading), **_mapping(test.get("vars"), reading)}
    choices = [value if isinstance(value, list) and value else [value] for value in merged.values()]
    combined = product(*choices)
    for values in islice(combined, MAX_COMBINATIONS):
        yield dict(zip(merged, values, strict=True))
    if next(combined, None) is not None:
        reading.leave_out(f"combinations of variables beyond {MAX_COMBINATIONS:,}")


def _mapping(value: Any, reading: ImportState) -> Row:
    if isinstance(value, dict):
        return value
    reading.leave_out("vars from a file", int(value is not None))
    return {}
