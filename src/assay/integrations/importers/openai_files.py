"""Files of OpenAI: samples of its evals with their registry, and the output of its Batch API with its input."""

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

import msgspec

from assay.core.errors import SourceUnreadable, UsageProblem
from assay.core.model_call import Usage
from assay.datasets.converters.rows import Row, RowRefused, digest, kind
from assay.datasets.imports.items import ImportedAnswer, ImportedItem, ImportedQuestion, ImportSource, ImportState
from assay.datasets.parsing.hashing import KeyIndex
from assay.datasets.parsing.source import Source, filled_lines
from assay.datasets.parsing.strict_yaml import parse_yaml
from assay.integrations.importers.json_values import LazyObject, mapping, mappings, objects, seconds, sequence, tokens
from assay.integrations.importers.messages import ImportedPrompt, asked, content_text

_YAML = frozenset({".yaml", ".yml"})
_MEMBERS = frozenset({"input", "ideal", "metadata"})


def read_openai_evals(sources: list[ImportSource], reading: ImportState) -> Iterator[tuple[ImportedItem, ImportSource, int]]:
    """Yield the samples of all JSONL files; entries of registry files name the eval that they belong to."""
    reading.tool = "openai evals"
    names: dict[str, str] = {}
    # The registry first: samples are named by the eval that lists them, in any order of the files.
    is_alone = all(source.ending in _YAML for source in sources)
    for source in sources:
        if source.ending in _YAML:
            listed = _read_registry(source, reading)
            names |= listed
            if is_alone:
                shown = ", ".join(listed) if listed else "no samples"
                reading.note_absence(source, f"is a registry, which names the samples {shown}", hint="import these files with it")
    for source in sources:
        if source.ending in _YAML:
            continue
        dataset = _dataset(source, names)
        for line, sample in objects(source, "the sample"):
            try:
                question = _question(sample, dataset, reading)
            except RowRefused as problem:
                source.tally.refuse(str(problem), line=line)
                continue
            yield ImportedItem(question=question), source, line


def _read_registry(source: ImportSource, reading: ImportState) -> dict[str, str]:
    """Return the eval of each samples file; how it grades has no place in a dataset."""
    document = parse_yaml(bytes(source.opened.buffer()))
    if document.flaws or not isinstance(document.value, dict):
        reason = document.flaws[0].message if document.flaws else f"it is {kind(document.value)}"
        raise SourceUnreadable(f"'{source.name}' is not a registry of OpenAI evals: {reason}", hint="name samples as JSONL")
    names: dict[str, str] = {}
    for name, entry in document.value.items():
        arguments = entry.get("args") if isinstance(entry, dict) else None
        if not isinstance(arguments, dict) or not isinstance(arguments.get("samples_jsonl"), str):
            continue
        names[arguments["samples_jsonl"]] = str(name)
        reading.leave_out(f"class {str(entry.get('class')).rpartition(':')[2]}")
        for argument in arguments:
            reading.leave_out(f"args.{argument}", int(argument != "samples_jsonl"))
    return names


def _dataset(source: ImportSource, names: dict[str, str]) -> str:
    """Return the eval that the registry files name for a file, by the end of its path; else the file's own name."""
    path = PurePosixPath(source.path.absolute().as_posix())
    for samples, name in names.items():
        # By the last parts of the path, since a registry names its files relative to its own data folder.
        if path.parts[-len(PurePosixPath(samples).parts) :] == PurePosixPath(samples).parts:
            return name
    return source.path.name.partition(".")[0]


def _question(sample: LazyObject, dataset: str, reading: ImportState) -> ImportedQuestion:
    given = asked(sample.get("input"), reading, names_media=True)
    ideal = _ideal(sample.get("ideal"))
    for name in sample.names():
        reading.leave_out(f"sample.{name}", int(name not in _MEMBERS and name in sample))
    return ImportedQuestion(
        # The id is a digest of the question: samples have none, and their line may change.
        id=f"{dataset}:{digest(given.prompt, given.messages, ideal)}",
        dataset=dataset,
        prompt=given.prompt,
        messages=given.messages,
        references=ideal,
        metadata=sample.mapping("metadata"),
    )


def _ideal(value: Any) -> list[str]:
    listed = value if isinstance(value, list) else [] if value is None else [value]
    texts = [str(one) if isinstance(one, int | float) and not isinstance(one, bool) else one for one in listed]
    strange = [one for one in texts if not isinstance(one, str)]
    if strange:
        raise RowRefused(f"an ideal answer is {kind(strange[0])}")
    # Repeated answers would count as several references.
    return list(dict.fromkeys(text for text in texts if text.strip()))


_SETTINGS = ("temperature", "top_p", "max_tokens", "seed", "frequency_penalty", "presence_penalty", "reasoning_effort")
_SENT = frozenset({"model", "messages", "input", "instructions", "metadata", *_SETTINGS})


def read_openai_batch(sources: list[ImportSource], reading: ImportState) -> Iterator[tuple[ImportedItem, ImportSource, int]]:
    """Return an item for each line of output, with the request of the same id; requests without output follow."""
    reading.tool = "openai batch"
    requests = [source for source in sources if _is_input(source)]
    answers = [source for source in sources if source not in requests]
    if not requests:
        raise UsageProblem(
            "the output of a batch does not say what was asked",
            hint="name its input file too: assay import output.jsonl input.jsonl",
        )
    asked_for = _Requests(requests, reading)
    for source in answers:
        for line, row in objects(source, "the line"):
            try:
                item = asked_for.answered(row)
            except RowRefused as problem:
                source.tally.refuse(str(problem), line=line)
                continue
            yield item, source, line
    # After all answers, since only then is it known what was never answered.
    yield from asked_for.unanswered()


def _is_input(source: ImportSource) -> bool:
    line = next(filled_lines(source.opened), None)
    try:
        return line is not None and "body" in LazyObject(line.content) and "response" not in LazyObject(line.content)
    except RowRefused:
        return False


class _Place(msgspec.Struct, frozen=True):
    """Location of a request."""

    source: ImportSource
    start: int
    size: int
    line: int


class _Requests:
    """Requests of a batch by custom_id; their texts are read again when an answer needs them."""

    # A batch may have 50,000 requests: their places are kept in memory, and not their texts.

    def __init__(self, sources: list[ImportSource], reading: ImportState) -> None:
        self._reading = reading
        self._ids = KeyIndex()
        self._places: list[_Place] = []
        self._is_answered = bytearray()
        for source in sources:
            self._read(source)

    def _read(self, source: ImportSource) -> None:
        start = 0
        opened: Source = source.opened
        for number, content in opened.lines():
            size = len(content)
            if content.strip():
                source.tally.read += 1
                self._note(source, content, _Place(source, start, size, number))
            start += size

    def _note(self, source: ImportSource, content: bytes, place: _Place) -> None:
        try:
            custom_id = _custom_id(LazyObject(content, "the request"))
        except RowRefused as problem:
            source.tally.refuse(str(problem), line=place.line)
            return
        if not self._ids.add(custom_id):
            # The API refuses repeated ids; a file with one was not sent as it is.
            source.tally.skip("there is an earlier request of that id", line=place.line, record_id=custom_id)
            return
        self._places.append(place)
        self._is_answered.append(0)
        source.tally.emitted += 1

    def answered(self, row: LazyObject) -> ImportedItem:
        """Return the item of one line of output; raises RowRefused where its request is not there."""
        custom_id = _custom_id(row)
        number = self._ids.find(custom_id)
        if number is None:
            raise RowRefused(f"there is no request with the id {custom_id!r}")
        self._is_answered[number] = 1
        item = self._request(number)
        response, error = row.mapping("response"), row.get("error")
        status, body = response.get("status_code"), response.get("body")
        if error or status != 200 or not isinstance(body, dict):
            code, message = _problem(error, body, status)
            return msgspec.structs.replace(item, error_code=code, error=message)
        answer = self._answer(body, str(response.get("request_id") or ""))
        # Tool calls without text are an answer of their own kind, which no grader here can read.
        if _calls_tools(body) and (answer is None or not answer.text.strip()):
            said = "the reply holds tool calls and no text; tool calls are not graded"
            return msgspec.structs.replace(item, error_code="tool_call_only", error=said)
        if answer is None:
            return msgspec.structs.replace(item, error_code="empty_answer", error="the reply holds no answer that can be read")
        if answer.finish_reason == "content_filter":
            withheld = "the provider's filter withheld the answer"
            return msgspec.structs.replace(item, error_code="content_filtered", error=withheld)
        return msgspec.structs.replace(item, answer=answer, started_at=seconds(body.get("created", body.get("created_at"))))

    def unanswered(self) -> Iterator[tuple[ImportedItem, ImportSource, int]]:
        """Return an item without an answer for each request that has no output."""
        for number, is_answered in enumerate(self._is_answered):
            if not is_answered:
                place = self._places[number]
                item = msgspec.structs.replace(
                    self._request(number), error_code="no_output", error="the batch has no output for it"
                )
                # The caller counts the item that is yielded.
                place.source.tally.emitted -= 1
                yield item, place.source, place.line

    def _request(self, number: int) -> ImportedItem:
        place = self._places[number]
        request = LazyObject(
            # A byte order mark is only at the beginning of the file, and belongs to its first request.
            place.source.opened.part(place.start, place.start + place.size).removeprefix(b"\xef\xbb\xbf"),
            "the request",
        )
        body = request.mapping("body")
        given = self._asked(body)
        for name in body:
            self._reading.leave_out(f"body.{name}", int(name not in _SENT))
        candidate = str(body.get("model") or "unknown model")
        self._reading.note_parameters(candidate, {name: body[name] for name in _SETTINGS if body.get(name) is not None})
        dataset = place.source.path.name.partition(".")[0]
        question = ImportedQuestion(
            id=_custom_id(request),
            dataset=dataset,
            prompt=given.prompt,
            messages=given.messages,
            metadata=mapping(body.get("metadata")),
        )
        return ImportedItem(question=question, candidate=candidate)

    def _asked(self, body: Row) -> ImportedPrompt:
        given = body["messages"] if "messages" in body else body.get("input")
        instructions = body.get("instructions")
        if isinstance(instructions, str) and instructions.strip():
            # The Responses API has instructions next to its input; in a conversation they are the first message.
            messages = given if isinstance(given, list) else [{"role": "user", "content": given}]
            given = [{"role": "system", "content": instructions}, *messages]
        return asked(given, self._reading)

    def _answer(self, body: Row, request_id: str) -> ImportedAnswer | None:
        """Return the text of an answer, a refusal included; None where there is no readable text."""
        choices = sequence(body.get("choices"))
        choice = mapping(choices[0]) if choices else {}
        message = mapping(choice.get("message"))
        refusal = message.get("refusal")
        # A refusal replaces the content.
        given = refusal if message.get("content") is None else message["content"]
        self._reading.leave_out("tool calls of an answer", len(sequence(message.get("tool_calls"))))
        if given is None and not any(one.get("type") == "message" for one in mappings(body.get("output"))):
            return None
        text = content_text(given, self._reading) if message else self._output_text(body)
        self._reading.leave_out("refusal next to an answer", int(isinstance(refusal, str) and refusal != given))
        self._reading.leave_out("further choices of an answer", max(0, len(choices) - 1))
        return ImportedAnswer(
            text=text,
            model=str(body.get("model") or ""),
            finish_reason=str(choice.get("finish_reason") or body.get("status") or ""),
            usage=_usage(mapping(body.get("usage"))),
            request_id=request_id,
        )

    def _output_text(self, body: Row) -> str:
        """Return the text of an answer in the form of the Responses API."""
        said = mappings(body.get("output"))
        self._reading.leave_out("output that is not a message", sum(one.get("type") != "message" for one in said))
        return "\n".join(content_text(one.get("content"), self._reading) for one in said if one.get("type") == "message")


def _calls_tools(body: Row) -> bool:
    choices = sequence(body.get("choices"))
    message = mapping(mapping(choices[0]).get("message")) if choices else {}
    called = message.get("tool_calls") or message.get("function_call")
    return bool(called) or any(str(one.get("type")).endswith("_call") for one in mappings(body.get("output")))


def _custom_id(row: LazyObject) -> str:
    custom_id = row.get("custom_id")
    if not isinstance(custom_id, str) or not custom_id:
        raise RowRefused(f"custom_id is {kind(custom_id)}, not text")
    return custom_id


def _problem(error: object, body: object, status: object) -> tuple[str, str]:
    """Return code and message of an error, from each place where the API reports one."""
    # Three places: the line, the body of an HTTP error, and a failed response in a body.
    given = error or mapping(body).get("error")
    said = given if isinstance(given, dict) else {"message": given}
    code = str(said.get("code") or said.get("type") or f"http_{status}")
    return code, str(said.get("message") or f"the provider answered with status {status}")


def _usage(usage: Row) -> Usage:
    """Return the tokens, in the form of chat completions or of responses."""
    details = mapping(usage.get("prompt_tokens_details")) or mapping(usage.get("input_tokens_details"))
    thought = mapping(usage.get("completion_tokens_details")) or mapping(usage.get("output_tokens_details"))
    return Usage(
        # Chat completions and responses name the same counts differently.
        input_tokens=tokens(usage.get("prompt_tokens", usage.get("input_tokens"))),
        output_tokens=tokens(usage.get("completion_tokens", usage.get("output_tokens"))),
        total_tokens=tokens(usage.get("total_tokens")),
        cached_tokens=tokens(details.get("cached_tokens")),
        reasoning_tokens=tokens(thought.get("reasoning_tokens")),
    )
