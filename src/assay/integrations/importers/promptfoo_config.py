"""Assertions of promptfoo into references and criteria, and their verdicts; those that run code or came to none are counted."""

import re
from collections.abc import Iterator, Mapping
from itertools import islice, product
from pathlib import Path
from typing import TypeGuard

import msgspec

from assay.core.errors import SourceUnreadable
from assay.core.strict_json import parse_json
from assay.datasets.converters.report import UnreadableLine
from assay.datasets.converters.rows import Row, RowRefused, digest, kind
from assay.datasets.converters.sources import read_source
from assay.datasets.imports.items import ImportedItem, ImportedQuestion, ImportSource, ImportState
from assay.datasets.parsing.strict_yaml import parse_yaml
from assay.integrations.importers.json_values import mapping, mappings
from assay.integrations.importers.messages import ImportedPrompt, asked

_REFERENCES = frozenset(
    {"equals", "similar", "factuality", "model-graded-factuality", "rouge-n", "bleu", "gleu", "meteor", "levenshtein"}
)
"""Assertions whose value is an answer that the model's answer is held against."""
_RUBRICS = frozenset({"llm-rubric", "model-graded-closedqa", "g-eval", "search-rubric", "agent-rubric"})
"""Assertions whose value is a demand in words, which a judge decides."""
_TITLES = {
    "contains": ("Contains {}", "Does not contain {}"),
    "icontains": ("Contains {} (case-insensitive)", "Does not contain {} (case-insensitive)"),
    "contains-all": ("Contains all of {}", "Does not contain all of {}"),
    "icontains-all": ("Contains all of {} (case-insensitive)", "Does not contain all of {} (case-insensitive)"),
    "contains-any": ("Contains any of {}", "Does not contain any of {}"),
    "icontains-any": ("Contains any of {} (case-insensitive)", "Does not contain any of {} (case-insensitive)"),
    "starts-with": ("Starts with {}", "Does not start with {}"),
    "equals": ("Is exactly {}", "Is not exactly {}"),
    "similar": ("Means the same as {}", "Does not mean the same as {}"),
    "is-refusal": ("Refuses to answer", "Does not refuse to answer"),
}
"""Titles of the checks that a judge can decide, and of their negations."""
_SET = "assert-set"
_NOT = "not-"
_VARIABLE = re.compile(r"(?<!\$)\{\{\s*(?P<name>[A-Za-z_][A-Za-z0-9_.-]*)\s*\}\}")
_TEMPLATE = re.compile(r"\{\{|\{%|\{#")
FILE = "file://"


class AnswerRequirements(msgspec.Struct, frozen=True):
    """Requirements of a test in the terms of a dataset."""

    references: list[str]
    rubric: list[Row]


def filled_in(text: str, variables: Mapping[str, object], reading: ImportState) -> str:
    """Return the text with the values of plain variables, in one pass: no value is expanded again, and no logic is executed."""

    def value_of(match: re.Match[str]) -> str:
        if match["name"] not in variables:
            reading.leave_out("variable without a value, kept as it stands")
            return match[0]
        value = variables[match["name"]]
        return value if isinstance(value, str) else msgspec.json.encode(value).decode()

    # Logic of templates (Nunjucks) would have to be executed, which may run code.
    if _TEMPLATE.search(_VARIABLE.sub("", text)):
        reading.leave_out("template with logic, kept as it stands")
    return _VARIABLE.sub(value_of, text)


def variables_in(text: str) -> Iterator[str]:
    """Return the names of the plain variables in a text."""
    return (match["name"] for match in _VARIABLE.finditer(text))


def demands(asserted: object, variables: Mapping[str, object], reading: ImportState) -> AnswerRequirements:
    """Return the references and criteria of a test's assertions."""
    references: list[str] = []
    rubric: list[Row] = []
    for assertion in _flat(asserted, reading):
        form = str(assertion.get("type"))
        # Filled before the check for files, since a value may be one.
        values = [filled_in(value, variables, reading) for value in _values(assertion.get("value"))]
        is_file = any(value.startswith(FILE) for value in values)
        if form in _REFERENCES and values and not is_file:
            references += values
        elif (title := _title(form, values)) and not is_file:
            rubric.append({"id": f"assert-{len(rubric) + 1}", "title": title, **_weight(assertion)})
        else:
            reading.leave_out(f"assert {form}" + (" from a file" if is_file else ""))
        for name in ("threshold", "provider", "transform"):
            reading.leave_out(f"assert.{name}", int(assertion.get(name) is not None))
    # Repeated references would be judged twice.
    return AnswerRequirements(list(dict.fromkeys(value for value in references if value.strip())), rubric)


def _flat(asserted: object, reading: ImportState) -> Iterator[Row]:
    for assertion in asserted if isinstance(asserted, list) else []:
        if not isinstance(assertion, dict):
            reading.leave_out("assert that is not an object")
        elif assertion.get("type") == _SET:
            reading.leave_out("assert-set as a group")
            yield from _flat(assertion.get("assert"), reading)
        else:
            yield assertion


def _values(value: object) -> list[str]:
    listed = value if isinstance(value, list) else [] if value is None else [value]
    return [one if isinstance(one, str) else msgspec.json.encode(one).decode() for one in listed if one not in ("", None)]


def _title(form: str, values: list[str]) -> str:
    """Return the title of a check for a judge; empty for a check that has none."""
    if form in _RUBRICS:
        # A rubric is a demand in words already.
        return "; ".join(values)
    plain = form.removeprefix(_NOT)
    if plain not in _TITLES or (not values and plain != "is-refusal"):
        return ""
    positive, negative = _TITLES[plain]
    return (positive if plain == form else negative).format(", ".join(f'"{value}"' for value in values))


def _weight(assertion: Row) -> Row:
    weight = assertion.get("weight")
    return {"weight": weight} if isinstance(weight, int | float) and not isinstance(weight, bool) else {}


_THROWN = re.compile(
    r"Custom function threw error|(?:Python|Ruby) code execution failed|Assertion malformed|Webhook error|Some grading calls failed"
)
"""Beginning of reasons where a check of any kind broke."""
_JUDGED = frozenset(
    {"llm-rubric", "model-graded-closedqa", "model-graded-factuality", "factuality", "g-eval", "select-best", "similar",
     "search-rubric", "agent-rubric", "video-rubric", "answer-relevance", "context-faithfulness", "context-recall",
     "context-relevance", "conversation-relevance", "classifier", "moderation", "pi", "trajectory:goal-success"}
)  # fmt: skip
"""Checks that ask a model, whose reason is the model's own where it gave one."""
_NO_ANSWER = re.compile(
    r"""(?!(?:The|An?|This|It)\s)(?:[\w.-]+\s)?API\b[^.:\n]{0,40}?\berror:|HTTP\s(?:error:|call\sfailed|[45]\d\d\b)
    |(?:Request|Provider|Network|Connection|Fetch)\s(?:failed|error|timed\sout)\b|fetch\sfailed
    |Rate\slimit(?:ed|\sexceeded|\sreached|\serror|:)|Time(?:d\s)?out(?:\sof|\safter|:|$)
    |(?:[A-Z]\w*)?Error:
    |No\s(?:output|embedding)$|Embedding\snot\sfound|Unknown\serror\sfetching|No\sclassification\sscores\sreturned
    |Could\snot\s(?:extract\sJSON|perform\sremote)|Error\sparsing\soutput|Moderation\sAPI\serror
    |[\w:-]+\sproduced\smalformed\sresponse|Model\sgrader\sproduced\sa\smalformed\sresponse
    |Invalid\s(?:select-best\sverdict|similarity\sscore|category\svalue)|Factuality\schecker\soutput\sdid\snot\smatch
    |LLM-proposed\sevaluation|LLM\sdoes\snot\spropose|G-Eval\s(?:result|steps|step-generation|evaluation|criterion)
    |Search\srubric\sevaluation\sfailed|(?:Remote\s)?[Gg]rading\sfailed""",
    re.VERBOSE,
)
"""Beginning of reasons where no judge answered, or none readably."""


def without_verdict(components: list[Row]) -> Iterator[tuple[str, str]]:
    """List metric and reason of each check without a verdict, those inside of groups included."""
    for component in components:
        assertion = mapping(component.get("assertion"))
        reason = first_line(component.get("reason"))
        # Whether a check came to a verdict is only in the words of its reason: promptfoo writes 0 for one that
        # broke, and versions before `graderError` note nothing else.
        if _is_broken(component, str(assertion.get("type") or ""), reason):
            yield str(assertion.get("metric") or ""), reason or "the grader failed"
        yield from without_verdict(mappings(component.get("componentResults")))


def _is_broken(component: Row, form: str, reason: str) -> bool:
    # Newer versions say it themselves, at least of some of their graders.
    if mapping(component.get("metadata")).get("graderError") is True or _THROWN.match(reason):
        return True
    # Other checks are computed by promptfoo itself, so a reason that looks like an error of an API is a text of
    # the model.
    return form.removeprefix(_NOT) in _JUDGED and _NO_ANSWER.match(reason) is not None


def first_line(text: object) -> str:
    """Return the first line of a reason: what follows are traces and bodies of responses."""
    return str(text or "").partition("\n")[0]


MAX_FILE_BYTES = 64 << 20
MAX_VALUE_BYTES = 1 << 20
"""Maximum bytes of a file that is the value of one variable: every test may name one."""
_PROMPTS = frozenset({".txt", ".md", ".j2", ".json"})
_YAML = frozenset({".yaml", ".yml"})
_TESTS = frozenset({".csv", ".tsv", ".json", ".jsonl"}) | _YAML
_EXPECTED = "__expected"


def is_file(value: object) -> TypeGuard[str]:
    """Return whether a value is the address of a file."""
    return isinstance(value, str) and value.startswith(FILE)


class ConfigFiles:
    """Files that a config names: read when they were asked for, and only below the config's own folder."""

    def __init__(self, source: ImportSource, reading: ImportState) -> None:
        self._source = source
        # Resolved, so that a symlink out of the folder is found below.
        self._root = source.path.absolute().parent.resolve()
        self._reading = reading

    def prompts(self, address: str) -> Iterator[str]:
        """Return the prompts in a file of text; several in one `.txt` are parted by a line of three dashes."""
        path = self._path(address, _PROMPTS)
        if path is None:
            return
        text = self._bytes(path).decode("utf-8", "replace")
        # Three dashes on a line separate prompts in a text file, as promptfoo reads them.
        yield from [text] if path.suffix != ".txt" else (part.strip() for part in text.split("\n---\n") if part.strip())

    def filled(self, variables: Row) -> Row:
        """Replace addresses of files by their texts; the address stays where its file was not read."""
        return {name: self._value(value) if is_file(value) else value for name, value in variables.items()}

    def _value(self, address: str) -> str:
        path = self._path(address, _PROMPTS, limit=MAX_VALUE_BYTES)
        return address if path is None else self._bytes(path).decode("utf-8", "replace").strip()

    def tests(self, address: str) -> Iterator[Row]:
        """Return the tests in a file: a table of variables, or tests as a config writes them."""
        path = self._path(address, _TESTS)
        if path is None:
            return
        if path.suffix.lower() in _YAML:
            document = parse_yaml(self._bytes(path))
            # A list with None stands for a file that is not a list: one test is then reported as left out.
            found = document.value if not document.flaws and isinstance(document.value, list) else [None]
            self._reading.leave_out("test in a file that is not an object", sum(not isinstance(test, dict) for test in found))
            yield from (test for test in found if isinstance(test, dict))
            return
        for line, row in read_source(path).lines:
            if isinstance(row, UnreadableLine):
                self._source.tally.refuse(f"{path.name}: {row.reason}", line=line)
            else:
                yield dict(row) if "vars" in row else self._of_table(dict(row))

    def _of_table(self, row: Row) -> Row:
        """Return a row of a table: its columns are variables, apart from those that begin with two underscores."""
        variables = {name: value for name, value in row.items() if not name.startswith("__") and value is not None}
        test: Row = {"vars": variables}
        expected = [str(value) for name, value in row.items() if name.startswith(_EXPECTED) and value]
        test["assert"] = [_parse_expected(value) for value in expected]
        if row.get("__description"):
            test["description"] = row["__description"]
        for name in row:
            known = not name.startswith("__") or name.startswith(_EXPECTED) or name == "__description"
            self._reading.leave_out(f"column {name}", int(not known))
        return test

    def _path(self, address: str, endings: frozenset[str], *, limit: int = MAX_FILE_BYTES) -> Path | None:
        """Return the file behind an address; None where it was not asked for, is not there, or is somewhere else."""
        # `..` and symlinks are resolved before the check: a config from outside must not read other files of this
        # machine.
        path = (self._root / address.removeprefix(FILE)).resolve()
        if not self._reading.follows_files:
            self._reading.leave_out("file:// (add --with-files)")
        elif not path.is_relative_to(self._root):
            self._reading.leave_out("file:// outside of the config's folder")
        elif path.suffix.lower() not in endings:
            self._reading.leave_out(f"file:// of type {path.suffix or 'none'}")
        # The size is checked before reading, and devices are not files.
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


def _parse_expected(text: str) -> Row:
    """Parse `contains: Danish` as an assertion; without a type the whole cell is the expected answer."""
    form, colon, value = text.partition(":")
    # `type: value` with a type in lower case; other colons belong to the answer.
    is_typed = bool(colon) and form.replace("-", "").isalnum() and form == form.lower() and " " not in form
    return {"type": form, "value": value.strip()} if is_typed else {"type": "equals", "value": text}


MAX_COMBINATIONS = 10_000
"""Maximum combinations of the values of one test's variables."""
_READ = frozenset({"prompts", "tests", "defaultTest", "description"})
_TEST = frozenset({"vars", "assert", "description", "metadata"})
_CODE = re.compile(r"exec:|(?:file://)?[^\s{}]+\.(?:py|rb|go|sh|[cm]?[jt]s)(?::\w+)?$")
"""Prompts generated by a program, which the importer does not run."""
_ELSEWHERE = re.compile(r"(?:portkey|langfuse|helicone)://")
_FILE_NAME = re.compile(r"[^\s{}]+\.(?:txt|md|j2|json|jsonl|ya?ml|csv)")
"""Promptfoo takes a prompt that is called like a file for that file."""


def read_config(source: ImportSource, config: Row, reading: ImportState) -> Iterator[tuple[ImportedItem, ImportSource, int]]:
    """Return the questions of a config, test by test."""
    files = ConfigFiles(source, reading)
    for name in config:
        reading.leave_out(f"config {name}", int(name not in _READ))
    shared = config.get("defaultTest")
    given = shared if isinstance(shared, dict) else {}
    for name in given:
        reading.leave_out(f"defaultTest.{name}", int(name not in _TEST))
    prompts = list(_prompts(config.get("prompts"), files, reading))
    if not prompts:
        reading.note_absence(source, "has no prompt that can be read", hint="name its files too: --with-files")
        return
    dataset = str(config.get("description") or source.path.name.partition(".")[0])
    for number, test in enumerate(_tests(config.get("tests"), files, reading), 1):
        for values in _combinations(test, given, reading):
            # Each prompt makes a question of each test.
            source.tally.read += len(prompts)
            variables = files.filled(values)
            yield from _questions(source, reading, prompts=prompts, test=_Test(test, given, variables), place=(dataset, number))


class _Test(msgspec.Struct, frozen=True):
    """One test with one value for each of its variables."""

    test: Row
    shared: Row
    variables: Row

    @property
    def asserted(self) -> list[object]:
        """Assertions of the test, after those of all tests."""
        listed = (self.shared.get("assert"), self.test.get("assert"))
        return [one for asserts in listed if isinstance(asserts, list) for one in asserts]

    @property
    def metadata(self) -> Row:
        """Metadata of the test."""
        return test_metadata(self.test, self.variables)


def test_metadata(test: Row, variables: Row) -> Row:
    """Return the metadata of a test, its description and its variables."""
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
            given = asked(chat_or_text(_fill_prompt(prompt, test.variables, reading)), reading)
        except RowRefused as problem:
            source.tally.refuse(str(problem), line=line)
            continue
        yield ImportedItem(question=question_of(given, demanded, dataset=dataset, metadata=test.metadata)), source, line


def _fill_prompt(prompt: str, variables: Row, reading: ImportState) -> str:
    """Return the prompt with its variables; raises RowRefused where the value of one is in a file that was not read."""
    # A prompt with the address of a file in place of its text would ask another question.
    unread = next((name for name in variables_in(prompt) if is_file(variables.get(name))), None)
    if unread is not None:
        raise RowRefused(f"the value of {unread!r} is in a file that was not read")
    return filled_in(prompt, variables, reading)


def question_of(given: ImportedPrompt, demanded: AnswerRequirements, *, dataset: str, metadata: Row) -> ImportedQuestion:
    """Return the question of one prompt and one test; its id depends on both alone, so that configs and results agree on it."""
    return ImportedQuestion(
        # The id is a digest of what is asked and demanded, so that the same question has the same id in configs
        # and results.
        id=f"promptfoo:{digest(given.prompt, given.messages, demanded.references, demanded.rubric)}",
        dataset=dataset,
        prompt=given.prompt,
        messages=given.messages,
        references=demanded.references,
        rubric=demanded.rubric,
        metadata=metadata,
    )


def chat_or_text(prompt: str) -> object:
    """Return the messages of a prompt that is written as JSON; any other prompt unchanged."""
    # JSON chats begin with a bracket; parsing every prompt as JSON would be slow.
    if not prompt.lstrip().startswith("["):
        return prompt
    document = parse_json(prompt)
    is_chat = not document.flaws and isinstance(document.value, list) and all(isinstance(one, dict) for one in document.value)
    return document.value if is_chat and document.value else prompt


def _prompts(given: object, files: ConfigFiles, reading: ImportState) -> Iterator[str]:
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


def _tests(given: object, files: ConfigFiles, reading: ImportState) -> Iterator[Row]:
    for test in given if isinstance(given, list) else [] if given is None else [given]:
        if isinstance(test, dict):
            yield test
        elif isinstance(test, str) and test.startswith(FILE):
            yield from files.tests(test)
        else:
            reading.leave_out(f"test that is {kind(test)}" if not isinstance(test, str) else "tests from elsewhere")


def _combinations(test: Row, shared: Row, reading: ImportState) -> Iterator[Row]:
    """Return the variables of a test; a list of values means one test with each of them."""
    merged = {**_mapping(shared.get("vars"), reading), **_mapping(test.get("vars"), reading)}
    choices = [value if isinstance(value, list) and value else [value] for value in merged.values()]
    combined = product(*choices)
    for values in islice(combined, MAX_COMBINATIONS):
        yield dict(zip(merged, values, strict=True))
    # One more than the limit is looked at, to say that something was left out.
    if next(combined, None) is not None:
        reading.leave_out(f"combinations of variables beyond {MAX_COMBINATIONS:,}")


def _mapping(value: object, reading: ImportState) -> Row:
    if isinstance(value, dict):
        return value
    reading.leave_out("vars from a file", int(value is not None))
    return {}
