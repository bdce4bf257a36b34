"""Tests of a config of promptfoo: written out, in tables and other files, in scenarios, and one for each combination of values."""

import re
from collections.abc import Iterator, Mapping
from itertools import islice, product
from pathlib import Path
from typing import Any

import msgspec

from assay.datasets.converters.rows import Row, kind
from assay.datasets.imports.items import ImportState
from assay.integrations.importers.json_values import mapping, sequence
from assay.integrations.importers.messages import media_name
from assay.integrations.importers.promptfoo_files import FILE, ConfigFiles, FileUnread, is_code, is_file
from assay.integrations.importers.promptfoo_prompts import UnreadValue

MAX_COMBINATIONS = 10_000
"""Maximum combinations of the values of one test's variables."""
_TABLES = frozenset({".csv", ".tsv"})
_DATA = frozenset({".json", ".jsonl", ".yaml", ".yml"})
_EXPECTED = "__expected"
_METADATA = "__metadata:"
_CONFIG_COLUMN = re.compile(r"__config:__expected(?P<place>[1-9]\d*)?:threshold")
_OF_TEST = frozenset({"vars", "assert", "description", "metadata", "options", "threshold", "provider", "providers", "prompts"})
_ELSEWHERE = re.compile(r"(?:huggingface|https?|az|s3|gs)://", re.IGNORECASE)
_THRESHOLDS = frozenset(
    {
        "answer-relevance",
        "classifier",
        "context-faithfulness",
        "context-recall",
        "context-relevance",
        "cost",
        "latency",
        "levenshtein",
        "perplexity",
        "perplexity-score",
        "rouge-n",
        "similar",
        "starts-with",
    }
)


class ConfigTest(msgspec.Struct, frozen=True):
    """One test with what all tests share, before its values are combined."""

    test: Row
    shared: Row

    def option(self, name: str) -> Any:
        """Return an option of the test, or else of all tests."""
        return mapping(self.test.get("options")).get(name, mapping(self.shared.get("options")).get(name))

    @property
    def asserted(self) -> list[object]:
        """Assertions of the test, after those of all tests."""
        shared = (
            [] if mapping(self.test.get("options")).get("disableDefaultAsserts") is True else sequence(self.shared.get("assert"))
        )
        return [*shared, *sequence(self.test.get("assert"))]

    @property
    def threshold(self) -> object:
        """Score from which the test passes; None where all its assertions have to."""
        return self.test.get("threshold", self.shared.get("threshold"))

    def metadata(self, variables: Mapping[str, object]) -> Row:
        """Return the metadata of the test with one value for each variable."""
        shared, own = mapping(self.shared.get("metadata")), self.test
        return test_metadata({**own, "metadata": {**shared, **mapping(own.get("metadata"))}}, variables)


def test_metadata(test: Row, variables: Mapping[str, object]) -> Row:
    """Return the metadata of a test, its description and its variables."""
    description = test.get("description")
    named = {"description": description} if isinstance(description, str) else {}
    known = {name: value for name, value in variables.items() if not isinstance(value, UnreadValue)}
    return {**mapping(test.get("metadata")), **named, **({"vars": known} if known else {})}


class ConfigTestReader:
    """Reads the tests of a config."""

    def __init__(self, files: ConfigFiles, reading: ImportState) -> None:
        self._files = files
        self._reading = reading
        self.problems: list[str] = []
        """Reasons why tests were not read."""

    def read(self, given: object, *, folder: Path | None = None) -> Iterator[Row]:
        """Yield all tests; others are counted, and their reasons kept."""
        for test in given if isinstance(given, list) else [] if given is None else [given]:
            if isinstance(test, str):
                yield from self._read_files(test, folder)
            elif isinstance(test, dict) and isinstance(test.get("path"), str) and not _OF_TEST & set(test):
                yield from self._read_files(test["path"], folder)
            elif isinstance(test, dict):
                yield self._with_variables(test, folder)
            else:
                self._leave_out(f"test that is {kind(test)}", f"a test is {kind(test)}, not an object")

    def scenarios(self, given: object) -> Iterator[Row]:
        """Yield the tests of all scenarios: each of its tests with each set of its data."""
        listed = self._loaded(given)
        for scenario in listed if isinstance(listed, list) else [listed]:
            found = self._loaded(scenario)
            for one in found if isinstance(found, list) else [found]:
                if isinstance(one, dict):
                    yield from self._scenario(one)
                elif one is not None:
                    self._leave_out(f"scenario that is {kind(one)}", f"a scenario is {kind(one)}, not an object")

    def _scenario(self, scenario: Row) -> Iterator[Row]:
        tests = list(self.read(scenario.get("tests"))) if scenario.get("tests") is not None else [{}]
        data = self._loaded(scenario.get("config"))
        for one in data if isinstance(data, list) else [data]:
            given = self._with_variables(mapping(one), None)
            for test in tests:
                yield {
                    **given,
                    **test,
                    **{name: {**mapping(given.get(name)), **mapping(test.get(name))} for name in ("vars", "options", "metadata")},
                    "assert": [*sequence(given.get("assert")), *sequence(test.get("assert"))],
                }

    def _loaded(self, value: object) -> object:
        if not is_file(value):
            return value
        try:
            return self._files.value(value)
        except FileUnread as problem:
            self._unread(problem)
            return None

    def shared(self, given: object) -> Row:
        """Return what all tests share; it may be in a file."""
        value = self._loaded(given)
        return self._with_variables(value, None) if isinstance(value, dict) else {}

    def _with_variables(self, test: Row, folder: Path | None) -> Row:
        """Return a test whose variables and assertions are in it, and not in other files."""
        found = dict(test)
        given = test.get("vars")
        if isinstance(given, str) or (isinstance(given, list) and all(isinstance(one, str) for one in given)):
            found["vars"] = {}
            for address in given if isinstance(given, list) else [given]:
                try:
                    for path in self._files.found(address, folder=folder):
                        found["vars"] |= mapping(self._files.data(path))
                except FileUnread as problem:
                    self._unread(problem)
        if is_file(test.get("assert")):
            found["assert"] = sequence(self._loaded(test["assert"]))
        return found

    def _read_files(self, address: str, folder: Path | None) -> Iterator[Row]:
        if _ELSEWHERE.match(address):
            self._leave_out("tests from elsewhere", f"its tests are at {address}, which an import does not fetch")
            return
        if is_code(address):
            name = address.removeprefix(FILE)
            self._leave_out("tests that are code", f"its tests are made by the program '{name}', which is not run")
            return
        try:
            for path in self._files.found(address, folder=folder):
                yield from self._rows(path)
        except FileUnread as problem:
            self._unread(problem)

    def _rows(self, path: Path) -> Iterator[Row]:
        if is_code(path.name):
            self._leave_out("tests that are code", f"its tests are made by the program '{path.name}', which is not run")
            return
        if path.suffix.lower() in _TABLES:
            for row in self._files.rows(path):
                yield self._with_variables(self.test_of_row(row), path.parent)
        elif path.suffix.lower() in _DATA:
            value = self._files.data(path)
            for test in value if isinstance(value, list) else [value]:
                if not isinstance(test, dict):
                    self._reading.leave_out("test in a file that is no object")
                elif _OF_TEST & set(test):
                    yield self._with_variables(test, path.parent)
                else:
                    # A row of a table that is written as JSON.
                    yield self.test_of_row(test)
        else:
            self._unread(FileUnread(f"tests of type {path.suffix or 'none'}", f"tests in '{path.name}' cannot be read"))

    def test_of_row(self, row: Row) -> Row:
        """Return a row of a table: its columns are variables, apart from those that begin with two underscores."""
        test: Row = {"vars": {name: value for name, value in row.items() if not name.startswith("__") and value is not None}}
        expected = [(name, str(value).strip()) for name, value in row.items() if name.startswith(_EXPECTED) and value is not None]
        assertions = [parse_expected(value) for _, value in expected if value]
        options: Row = {}
        metadata: Row = {}
        for name, value in row.items():
            if not name.startswith("__") or name.startswith(_EXPECTED) or value is None:
                continue
            text = str(value)
            configured = _CONFIG_COLUMN.fullmatch(name)
            if name in ("__prefix", "__suffix"):
                options[name.removeprefix("__")] = text
            elif name == "__description":
                test["description"] = text
            elif name == "__metric":
                assertions = [{**one, "metric": text} for one in assertions]
            elif name == "__threshold" and (threshold := _number(text)) is not None:
                test["threshold"] = threshold
            elif name.startswith(_METADATA) and text.strip():
                metadata |= _metadata_cell(name.removeprefix(_METADATA), text)
            elif configured and (threshold := _number(text)) is not None and int(configured["place"] or 1) <= len(assertions):
                assertions[int(configured["place"] or 1) - 1]["threshold"] = threshold
            else:
                self._reading.leave_out(f"column {name}")
        test["assert"] = assertions
        return {**test, **({"options": options} if options else {}), **({"metadata": metadata} if metadata else {})}

    def _unread(self, problem: FileUnread) -> None:
        self._files.leave_out(problem)
        self.problems.append(str(problem))

    def _leave_out(self, loss: str, reason: str) -> None:
        self._reading.leave_out(loss)
        self.problems.append(reason)


def _number(text: str) -> float | None:
    return float(text) if re.fullmatch(r"\s*[+-]?(?:\d+(?:\.\d*)?|\.\d+)\s*", text, re.ASCII) else None


def _metadata_cell(name: str, text: str) -> Row:
    """Return a column of metadata; a list where its name ends with two brackets, cut at commas without a backslash."""
    if not name.endswith("[]"):
        return {name: text}
    return {name.removesuffix("[]"): [part.strip().replace("\\,", ",") for part in re.split(r"(?<!\\),", text)]}


def parse_expected(text: str) -> Row:
    """Parse `contains: Danish` as an assertion; without a type the whole cell is the expected answer."""
    for prefix, form in (
        ("javascript:", "javascript"),
        ("fn:", "javascript"),
        ("eval:", "javascript"),
        ("python:", "python"),
        ("grade:", "llm-rubric"),
    ):
        if text.startswith(prefix):
            return {"type": form, "value": text.removeprefix(prefix).strip()}
    if is_file(text) and is_code(text):
        return {"type": "python" if ".py" in text else "javascript", "value": text}
    match = _TYPED.fullmatch(text)
    # A lower-case word without a value is an answer, unless it is a type that needs none.
    if match is None or (match["value"] is None and match["type"] not in _VALUELESS):
        return {"type": "equals", "value": text}
    threshold = float(match["threshold"]) if match["threshold"] else _default_threshold(match["type"].removeprefix("not-"))
    value = (match["value"] or "").strip()
    return {"type": match["type"], **({"value": value} if value else {}), **({} if threshold is None else {"threshold": threshold})}


def _default_threshold(form: str) -> float | None:
    return None if form not in _THRESHOLDS else 0.8 if form == "similar" else 0.75


_TYPES = frozenset(
    [
        "agent-rubric",
        "answer-relevance",
        "bleu",
        "classifier",
        "contains",
        "contains-all",
        "contains-any",
        "contains-html",
        "contains-json",
        "contains-sql",
        "contains-xml",
        "context-faithfulness",
        "context-recall",
        "context-relevance",
        "conversation-relevance",
        "cost",
        "equals",
        "factuality",
        "finish-reason",
        "g-eval",
        "gleu",
        "guardrails",
        "human",
        "icontains",
        "icontains-all",
        "icontains-any",
        "is-html",
        "is-json",
        "is-refusal",
        "is-sql",
        "is-valid-function-call",
        "is-valid-openai-function-call",
        "is-valid-openai-tools-call",
        "is-xml",
        "javascript",
        "latency",
        "levenshtein",
        "llm-rubric",
        "max-score",
        "meteor",
        "model-graded-closedqa",
        "model-graded-factuality",
        "moderation",
        "perplexity",
        "perplexity-score",
        "pi",
        "python",
        "regex",
        "rouge-n",
        "ruby",
        "search-rubric",
        "select-best",
        "similar",
        "similar:cosine",
        "similar:dot",
        "similar:euclidean",
        "skill-used",
        "starts-with",
        "tool-call-f1",
        "trace-error-spans",
        "trace-span-count",
        "trace-span-duration",
        "trajectory:goal-success",
        "trajectory:step-count",
        "trajectory:tool-args-match",
        "trajectory:tool-sequence",
        "trajectory:tool-used",
        "webhook",
        "word-count",
    ]
)
"""Types of assertions that promptfoo knows: any other word before a colon belongs to an answer."""
_VALUELESS = frozenset(
    {
        "is-json",
        "contains-json",
        "is-html",
        "contains-html",
        "is-sql",
        "contains-sql",
        "is-xml",
        "contains-xml",
        "is-refusal",
        "not-is-refusal",
        "is-valid-function-call",
        "is-valid-openai-function-call",
        "is-valid-openai-tools-call",
        "guardrails",
        "moderation",
        "answer-relevance",
        "latency",
        "cost",
    }
)


_TYPED = re.compile(
    rf"(?P<type>(?:not-)?(?:{'|'.join(sorted(_TYPES, key=len, reverse=True))}))"
    r"(?:\((?P<threshold>\d+(?:\.\d+)?)\))?(?::(?P<value>.*))?",
    re.DOTALL,
)


def is_known_type(form: str) -> bool:
    """Return whether promptfoo has assertions of a type."""
    return form.removeprefix("not-") in _TYPES


def combinations(test: ConfigTest, files: ConfigFiles, reading: ImportState) -> Iterator[dict[str, object]]:
    """Yield the variables of a test; a list of texts, or a pattern of files, means one test with each of them."""
    merged = {**_variables(test.shared, reading), **_variables(test.test, reading)}
    is_expanded = test.option("disableVarExpansion") is not True
    choices = [_values(value, files, is_expanded=is_expanded) for value in merged.values()]
    combined = product(*choices)
    for values in islice(combined, MAX_COMBINATIONS):
        yield dict(zip(merged, values, strict=True))
    # One more than the limit is looked at, to say that something was left out.
    if next(combined, None) is not None:
        reading.leave_out(f"combinations of variables beyond {MAX_COMBINATIONS:,}")


def _variables(test: Row, reading: ImportState) -> Row:
    given = test.get("vars")
    reading.leave_out("vars that are no object", int(given is not None and not isinstance(given, dict)))
    return mapping(given)


def _values(value: object, files: ConfigFiles, *, is_expanded: bool) -> list[object]:
    if is_file(value):
        return _file_values(value, files)
    # promptfoo takes a list for alternatives where its first element is a text.
    if isinstance(value, list) and value and isinstance(value[0], str) and is_expanded:
        return [found for one in value for found in (_file_values(one, files) if is_file(one) else [one])]
    return [value]


def _file_values(address: str, files: ConfigFiles) -> list[object]:
    """Return the texts of the files behind an address; one that was not read is a value that says so."""
    name = address.removeprefix(FILE)
    problem: FileUnread | None = None
    if is_code(address):
        problem = FileUnread("value from code", f"'{name}' is a program, which is not run")
    try:
        paths = [] if problem else files.found(address, limit=MAX_VALUE_BYTES)
    except FileUnread as refused:
        problem, paths = refused, []
    if problem:
        files.leave_out(problem)
        return [UnreadValue(str(problem))]
    return [_file_value(path, files) for path in paths]


MAX_VALUE_BYTES = 1 << 20
"""Maximum bytes of a file that is the value of one variable: every test may name one."""


def _file_value(path: Path, files: ConfigFiles) -> object:
    try:
        if path.suffix.lower() in (".yaml", ".yml"):
            return msgspec.json.encode(files.data(path)).decode()
        return files.text(path).strip()
    except FileUnread as problem:
        files.leave_out(problem)
        # A picture is named in the question, so that its reader sees what is missing; other files are not asked about at all.
        return media_name(problem.medium, path.name) if problem.medium else UnreadValue(str(problem))
