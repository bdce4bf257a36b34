"""Configs of promptfoo into questions: every prompt with the variables of every test; nothing in a config is evaluated."""

import re
from collections.abc import Iterator
from itertools import islice, product
from typing import Any

import msgspec

from assay.core.errors import SourceUnreadable
from assay.core.json_door import parse_json
from assay.datasets.converters.canonical import digest
from assay.datasets.converters.columns import RowRefused, kind
from assay.datasets.importers.chat import Asked, asked
from assay.datasets.importers.inputs import ImportSource
from assay.datasets.importers.items import Item, Question, Row
from assay.datasets.importers.promptfoo_asserts import FILE, Demands, demands, filled_in, variables_in
from assay.datasets.importers.promptfoo_files import ConfigFiles, is_file
from assay.datasets.importers.report import Reading

MAX_COMBINATIONS = 10_000
"""Of the values of one test's variables."""
_READ = frozenset({"prompts", "tests", "defaultTest", "description"})
_TEST = frozenset({"vars", "assert", "description", "metadata"})
_CODE = re.compile(r"exec:|(?:file://)?[^\s{}]+\.(?:py|rb|go|sh|[cm]?[jt]s)(?::\w+)?$")
"""Prompts that are made by a program, which nobody runs here."""
_ELSEWHERE = re.compile(r"(?:portkey|langfuse|helicone)://")
_FILE_NAME = re.compile(r"[^\s{}]+\.(?:txt|md|j2|json|jsonl|ya?ml|csv)")
"""Promptfoo takes a prompt that is called like a file for that file."""


def read_config(source: ImportSource, config: Row, reading: Reading) -> Iterator[tuple[Item, ImportSource, int]]:
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
    source: ImportSource, reading: Reading, *, prompts: list[str], test: _Test, place: tuple[str, int]
) -> Iterator[tuple[Item, ImportSource, int]]:
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
        yield Item(question=question_of(given, demanded, dataset=dataset, metadata=test.metadata)), source, line


def _filled(prompt: str, variables: Row, reading: Reading) -> str:
    """The prompt with its variables; raises RowRefused where the value of one is in a file that was not read."""
    unread = next((name for name in variables_in(prompt) if is_file(variables.get(name))), None)
    if unread is not None:
        raise RowRefused(f"the value of {unread!r} is in a file that was not read")
    return filled_in(prompt, variables, reading)


def question_of(given: Asked, demanded: Demands, *, dataset: str, metadata: Row) -> Question:
    """The question of one prompt and one test; its id depends on both alone, so that configs and results agree on it."""
    return Question(
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


def _prompts(given: Any, files: ConfigFiles, reading: Reading) -> Iterator[str]:
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


def _tests(given: Any, files: ConfigFiles, reading: Reading) -> Iterator[Row]:
    for test in given if isinstance(given, list) else [] if given is None else [given]:
        if isinstance(test, dict):
            yield test
        elif isinstance(test, str) and test.startswith(FILE):
            yield from files.tests(test)
        else:
            reading.leave_out(f"test that is {kind(test)}" if not isinstance(test, str) else "tests from elsewhere")


def _combinations(test: Row, shared: Row, reading: Reading) -> Iterator[Row]:
    """The variables of a test; a list of values stands for one test with each of them."""
    merged = {**_mapping(shared.get("vars"), reading), **_mapping(test.get("vars"), reading)}
    choices = [value if isinstance(value, list) and value else [value] for value in merged.values()]
    combined = product(*choices)
    for values in islice(combined, MAX_COMBINATIONS):
        yield dict(zip(merged, values, strict=True))
    if next(combined, None) is not None:
        reading.leave_out(f"combinations of variables beyond {MAX_COMBINATIONS:,}")


def _mapping(value: Any, reading: Reading) -> Row:
    if isinstance(value, dict):
        return value
    reading.leave_out("vars from a file", int(value is not None))
    return {}
