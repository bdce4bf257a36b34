"""Responses of a candidate in a file of lines: found by record, with neither ids nor texts in memory."""

from array import array
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from assay.core.canonical import JsonObject
from assay.core.errors import UsageProblem
from assay.core.model_call import Reply
from assay.core.plan import Plan
from assay.core.strict_json import MAX_LOCAL_BYTES, ParsedDocument, parse_json
from assay.core.tools import ToolCall, read_chat_tool_call
from assay.datasets.parsing.checks import short, type_name
from assay.datasets.parsing.formats import sniff_format
from assay.datasets.parsing.hashing import KeyIndex
from assay.datasets.parsing.source import BOM, Source, open_source
from assay.engine.planning.dataset_inputs import reread, shown_path
from assay.engine.planning.trajectories import recorded_answers


class ResponseLines:
    """Responses of one candidate: some fifty bytes for each, and its line is read from the file when it is asked for."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._ids = KeyIndex()
        self._starts = array("Q")
        self._sizes = array("I")
        self._numbers = array("I")

    def __len__(self) -> int:
        return len(self._ids)

    def __contains__(self, case_id: str) -> bool:
        return self._ids.find(case_id) is not None

    def add(self, case_id: str, *, start: int, size: int, number: int) -> int:
        """Note a response and its line; returns 0, or the number of the earlier line that has a response to the same record."""
        if not self._ids.add(case_id):
            return self._numbers[self._ids.find(case_id) or 0]
        self._starts.append(start)
        self._sizes.append(size)
        self._numbers.append(number)
        return 0

    def line(self, case_id: str) -> bytes | None:
        """Return the line of a response; None when there is none."""
        found = self._ids.find(case_id)
        return None if found is None else self._source.part(self._starts[found], self._starts[found] + self._sizes[found])


EXPORT = "responses.jsonl"
"""File of a finished run that holds its answers."""
_MEMBERS = ("example_id", "candidate_name", "response_text")
_CALLS = "tool_calls"
_EXAMPLE, _CANDIDATE, _TEXT = (f'"{name}"'.encode() for name in _MEMBERS)
_SAMPLE = b'"sample"'
_REPLACED = dict.fromkeys((0, *range(0xD800, 0xE000)), "\ufffd")
"""NUL and unpaired surrogates, which stores cannot represent."""


class _ResponseRow(msgspec.Struct):
    """One line of a response file; other members are ignored."""

    example_id: str
    candidate_name: str
    response_text: str
    sample: int = 0
    """Number of the answer among several to the record."""
    tool_calls: tuple[Any, ...] | None = None
    """Calls in the format of chat completions."""

    def answer(self) -> "GivenAnswer":
        """Return the answer of the row, whose calls have been checked."""
        calls = (read_chat_tool_call(call) for call in self.tool_calls or ())
        return GivenAnswer(self.response_text, tuple(call for call in calls if call is not None))


class GivenAnswer(msgspec.Struct, frozen=True):
    """A given answer: a text, tool calls, or both."""

    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    steps: tuple[JsonObject, ...] = ()
    """The calls with their outputs, as messages of chat completions."""


_decode_row = msgspec.json.Decoder(_ResponseRow).decode


class Responses:
    """Answers of one candidate by record id and sample; texts are read from the file on demand, to save memory."""

    def __init__(self, *, lines: ResponseLines | None = None) -> None:
        self._answers: dict[str, GivenAnswer] = {}
        self._lines = lines

    def has(self, case_id: str, sample: int = 0) -> bool:
        """Return True when there is an answer to the record."""
        key = _key(case_id, sample)
        return key in self._answers or (self._lines is not None and key in self._lines)

    def __len__(self) -> int:
        return len(self._answers) + (0 if self._lines is None else len(self._lines))

    def text_for(self, case_id: str, sample: int = 0) -> str:
        """Return the answer as it can be stored; raises KeyError."""
        return self.reply_for(case_id, sample).text

    def reply_for(self, case_id: str, sample: int = 0) -> Reply:
        """Return the answer as a reply flagged `prefilled`; replaced NUL and unpaired surrogates are flagged too."""
        given = self._given(_key(case_id, sample))
        text = storable(given.text)
        flags = ("prefilled", "replaced_characters") if text != given.text else ("prefilled",)
        return Reply(text=text, flags=flags, tool_calls=given.tool_calls, steps=given.steps)

    def _given(self, key: str) -> GivenAnswer:
        line = None if self._lines is None else self._lines.line(key)
        if line is None:
            return self._answers[key]
        return (_quick(line) or _row_of(parse_json(line, is_whole=False).value)).answer()

    def add(self, case_id: str, answer: GivenAnswer, *, sample: int = 0) -> None:
        """Add a response."""
        self._answers[_key(case_id, sample)] = answer


def storable(given: str) -> str:
    """Replace NUL and unpaired surrogates in an answer."""
    return given if given.isascii() and "\x00" not in given else given.translate(_REPLACED)


class ResponseFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of responses: the answers by candidate, and the problems of other lines."""

    path: str
    sha256: str
    by_candidate: Mapping[str, Responses]
    """Answers by candidate; those of a JSON object, which names no candidate, are under the empty name."""
    problems: tuple[str, ...]

    def of(self, candidate: str) -> Responses:
        """Return the answers of a candidate, none if it is not in the file."""
        return self.by_candidate.get(candidate) or self.by_candidate.get("") or Responses()


def load_responses(path: str | Path) -> ResponseFile:
    """Read responses from JSONL, a JSON list, a JSON object of id and text, or a run's folder; raises SourceUnreadable."""
    place = Path(path)
    source = open_source(place / EXPORT if place.is_dir() else place)
    reading = _ResponseReader(source)
    if sniff_format(source) == "jsonl":
        reading.read_lines()
    else:
        reading.read_document()
    return ResponseFile(
        path=source.name,
        sha256=source.sha256(),
        by_candidate=reading.by_candidate,
        problems=tuple(reading.problems),
    )


def open_responses(plan: Plan) -> Callable[[str, int], Reply] | None:
    """Open the supplied answers of a plan; return None when a candidate is called. Raises UsageProblem for a changed file."""
    if plan.response_source == "sampled" or plan.comparison is not None:
        return None
    if not plan.responses_path:
        return recorded_responses(plan).reply_for
    loaded = load_responses(plan.responses_path)
    # The answers are graded as those of the plan; another file would give a resumed run answers of two origins.
    if loaded.sha256 != plan.responses_sha256:
        raise UsageProblem(
            f"'{plan.responses_path}' has changed since the run was planned", hint="bring the file back, or start a new run"
        )
    return loaded.of(plan.candidate.name).reply_for


def recorded_responses(plan: Plan) -> Responses:
    """Return the recorded replies of the plan's conversations."""
    given = Responses()
    for dataset in plan.datasets:
        if dataset.contract == "conversation_v1":
            for case_id, answer in recorded_answers(reread(dataset).report.records).items():
                given.add(case_id, GivenAnswer(answer.text, answer.tool_calls, answer.steps))
    return given


class _ResponseReader:
    """Reader of one response file, which assigns its rows to candidates."""

    def __init__(self, source: Source) -> None:
        self._name = shown_path(source.name)
        self._source = source
        self._lines: dict[str, ResponseLines] = {}
        self._first: dict[tuple[str, str], int] = {}
        self.by_candidate: dict[str, Responses] = {}
        self.problems: list[str] = []

    def read_lines(self) -> None:
        """Read a file with a row on each line; texts stay in the file."""
        # Offsets are counted here instead of asked for, so that a text can be read again later without its file in
        # memory.
        after = len(BOM) if self._source.part(0, len(BOM)) == BOM else 0
        for number, content in self._source.lines():
            start, after = after, after + len(content)
            if content.isspace():
                continue
            # The slow path finds duplicate members and gives the place of every problem.
            row = _quick(content) or self._checked(parse_json(content.rstrip(b"\r\n"), is_whole=False), f"{self._name}:{number}")
            if row is not None:
                key = _key(row.example_id, row.sample)
                first = self._lines_of(row.candidate_name).add(key, start=start, size=len(content), number=number)
                if first:
                    self._repeated(row, number, first=first)

    def _lines_of(self, candidate: str) -> ResponseLines:
        lines = self._lines.get(candidate)
        if lines is None:
            lines = self._lines[candidate] = ResponseLines(self._source)
            self.by_candidate[candidate] = Responses(lines=lines)
        return lines

    def read_document(self) -> None:
        """Read one JSON document: a list of rows, or an object of id and text."""
        document = parse_json(self._source.buffer(), max_bytes=MAX_LOCAL_BYTES)
        if document.flaws:
            self.problems += [self._flaw_text(document, flaw.offset, flaw.message) for flaw in document.flaws]
        elif isinstance(document.value, dict) and not {"example_id", "response_text", _CALLS} & set(document.value):
            self._read_object(document)
        elif isinstance(document.value, list):
            self._read_list(document)
        else:
            self.problems.append(f"{self._name}: neither rows of {', '.join(_MEMBERS)} nor an object of record id and text")

    def _read_object(self, document: ParsedDocument) -> None:
        # Places are found in one pass and only for what will be reported.
        document.locate((case_id,) for case_id, text in document.value.items() if not isinstance(text, str))
        for case_id, text in document.value.items():
            if isinstance(text, str):
                self._of("").add(case_id, GivenAnswer(text))
            else:
                message = f"the response of {short(case_id)} must be a string, not {type_name(text)}"
                self.problems.append(self._flaw_text(document, document.offset((case_id,)), message))

    def _read_list(self, document: ParsedDocument) -> None:
        document.locate((index,) for index in range(len(document.value)))
        for index, value in enumerate(document.value):
            line = document.place(document.offset((index,))).line
            row = self._row(value, f"{self._name}:{line}")
            if row is None:
                continue
            pair = (row.candidate_name, _key(row.example_id, row.sample))
            if pair in self._first:
                self._repeated(row, line, first=self._first[pair])
            else:
                self._first[pair] = line
                self._of(row.candidate_name).add(row.example_id, row.answer(), sample=row.sample)

    def _of(self, candidate: str) -> Responses:
        responses = self.by_candidate.get(candidate)
        if responses is None:
            responses = self.by_candidate[candidate] = Responses()
        return responses

    def _repeated(self, row: _ResponseRow, line: int, *, first: int) -> None:
        which = f" (sample {row.sample})" if row.sample else ""
        pair = f"{short(row.candidate_name)} to {short(row.example_id)}{which}"
        self.problems.append(f"{self._name}:{line}: a second response of {pair}; the first is on line {first}")

    def _checked(self, document: ParsedDocument, where: str) -> _ResponseRow | None:
        """Read a row that the fast path declined. An unpaired surrogate is a flaw of the answer, not of the file."""
        fatal = [flaw.message for flaw in document.flaws if flaw.fatal or flaw.kind != "surrogate"]
        self.problems += [f"{where}: {message}" for message in fatal]
        return None if fatal else self._row(document.value, where)

    def _row(self, value: object, where: str) -> _ResponseRow | None:
        if not isinstance(value, dict):
            self.problems.append(f"{where}: a row must be an object, not {type_name(value)}")
            return None
        wrong = list(_wrong_members(value))
        self.problems += [f"{where}: {problem}" for problem in wrong]
        if wrong:
            return None
        return _row_of(value)

    def _flaw_text(self, document: ParsedDocument, offset: int, message: str) -> str:
        place = document.place(offset)
        return f"{self._name}:{place.line}:{place.column}: {message}"


def _row_of(value: Mapping[str, Any]) -> _ResponseRow:
    """Build a checked row."""
    text, calls = value.get("response_text"), value.get(_CALLS)
    return _ResponseRow(
        value["example_id"], value["candidate_name"], text or "", value.get("sample", 0), tuple(calls) if calls else None
    )


def _wrong_members(row: Mapping[str, Any]) -> Iterator[str]:
    calls = row.get(_CALLS)
    if calls is not None and not isinstance(calls, list):
        yield f"{_CALLS} must be a list, not {type_name(calls)}"
        calls = None
    for number, call in enumerate(calls or ()):
        if read_chat_tool_call(call) is None:
            yield f"{_CALLS}[{number}] is not a call such as " + '{"function": {"name": "look", "arguments": "{}"}}'
    for name in _MEMBERS:
        # Calls may stand instead of a text.
        if name == "response_text" and calls and row.get(name) is None:
            continue
        if name not in row:
            yield f"{name} is missing"
        elif not isinstance(row[name], str):
            yield f"{name} must be a string, not {type_name(row[name])}"
        elif name != "response_text" and not row[name].strip():
            yield f"{name} is empty"
    sample = row.get("sample", 0)
    if type(sample) is not int or sample < 0:
        yield "sample must be a whole number from 0 on"


def _key(case_id: str, sample: int) -> str:
    """Return the key of an answer; NUL separates its parts, since no id contains one."""
    return f"{case_id}\0{sample}" if sample else case_id


def _quick(content: bytes | bytearray) -> _ResponseRow | None:
    """Return a line's row if it is valid beyond doubt: right types, and no duplicate member."""
    count = content.count
    if count(_EXAMPLE) != 1 or count(_CANDIDATE) != 1 or count(_TEXT) != 1:
        return None
    try:
        row = _decode_row(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    # Decoders take the last of duplicate members in silence; the counts above rule that out for the required ones.
    is_doubtful = not row.example_id.strip() or not row.candidate_name.strip() or row.sample < 0 or count(_SAMPLE) > 1
    # Calls are checked one by one, with the place of what is wrong.
    is_doubtful = (
        is_doubtful or count(b'"tool_calls"') > 1 or any(read_chat_tool_call(call) is None for call in row.tool_calls or ())
    )
    return None if is_doubtful else row
