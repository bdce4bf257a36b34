"""Logs of Inspect AI (.eval archives and JSON) as items: one for each sample and epoch, with the data of the header."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from assay.core.errors import SourceUnreadable
from assay.core.model_call import Usage
from assay.datasets.converters.rows import Row, RowRefused, choice_id, kind
from assay.datasets.imports.items import ImportedAnswer, ImportedItem, ImportedQuestion, ImportedScore, ImportSource, ImportState
from assay.integrations.importers.json_values import (
    LazyObject,
    amount,
    listed,
    mapping,
    mappings,
    number,
    seconds,
    sequence,
    tokens,
)
from assay.integrations.importers.messages import ImportedMessage, ImportedToolCall, turns_of
from assay.integrations.importers.safe_zip import Archive

_PARAMETERS = ("temperature", "top_p", "max_tokens", "seed", "frequency_penalty", "presence_penalty", "reasoning_effort")
_FINISHED = "success"


class InspectLogHeader(msgspec.Struct, frozen=True, kw_only=True):
    """Data that all samples of a log share."""

    dataset: str
    candidate: str
    scorers: tuple[str, ...]
    sample_ids: tuple[str, ...]
    scores_errors: bool
    """The log's own metrics count samples that ended with an error."""
    # Every error of a member means the same: the text is not a log.
    status: str
    """Inspect's status of the evaluation: `started` where it never ended."""
    planned: int
    """Samples that were to be evaluated, each epoch counted; 0 where the log does not state it."""


def read_header(document: LazyObject, reading: ImportState) -> InspectLogHeader:
    """Read the header of a log; raises SourceUnreadable where the text is not a log."""
    try:
        spec = document.mapping("eval")
        reading.note_run(
            version=str((spec.get("packages") or {}).get("inspect_ai") or ""), created_at=str(spec.get("created") or "")
        )
        settings = {**(document.mapping("plan").get("config") or {}), **(spec.get("model_generate_config") or {})}
        parameters = {name: settings[name] for name in _PARAMETERS if settings.get(name) is not None}
        reading.note_parameters(str(spec["model"]), parameters)
        _leave_out_of(spec, document, reading)
        dataset = spec.get("dataset") or {}
        return InspectLogHeader(
            dataset=str(dataset.get("name") or spec["task"]),
            candidate=str(spec["model"]),
            scorers=tuple(str(scorer["name"]) for scorer in spec.get("scorers") or ()),
            sample_ids=tuple(map(str, dataset.get("sample_ids") or ())),
            scores_errors=bool((spec.get("config") or {}).get("score_on_error")),
            status=str(document.get("status") or "started"),
            planned=_planned_samples(spec, mapping(document.get("results"))),
        )
    except (RowRefused, KeyError, TypeError, AttributeError) as problem:
        raise SourceUnreadable(f"this is not a log of Inspect: {problem}", hint="name the format: --from") from problem


def note_incomplete_log(source: ImportSource, log: InspectLogHeader, reading: ImportState) -> None:
    """Note that a log is incomplete, after all its samples were read."""
    held = source.tally.read
    # A log that ended early holds fewer samples, and its scores are about those alone.
    if log.status == _FINISHED and held >= log.planned:
        return
    counted = f"holds {held:,} of {log.planned:,} samples" if log.planned else f"holds {held:,} samples of an unknown number"
    reading.incomplete.append(f"{source.path.name} {counted}, and its status is {log.status}")
    reading.leave_out("sample that the log does not hold", max(0, log.planned - held))


def _leave_out_of(spec: Row, document: LazyObject, reading: ImportState) -> None:
    steps = [str(step.get("solver")) for step in document.mapping("plan").get("steps") or () if step.get("solver") != "generate"]
    for step in steps:
        reading.leave_out(f"solver {step}")
    for name in ("model_roles", "sandbox", "task_args_passed"):
        reading.leave_out(f"eval.{name}", int(bool(spec.get(name))))
    for name in ("reductions", "log_updates", "error"):
        reading.leave_out(f"log {name}", int(name in document))


def _planned_samples(spec: Row, results: Row) -> int:
    """Return samples times epochs; the dataset's own size counts only where the evaluation was not limited to a part of it."""
    if total := _count(results.get("total_samples")):
        return total
    dataset, config = mapping(spec.get("dataset")), mapping(spec.get("config"))
    chosen = len(sequence(dataset.get("sample_ids")))
    # With a limit the size of the dataset says nothing about this run.
    is_part = config.get("limit") is not None or config.get("sample_id") is not None
    return max(chosen, 0 if is_part else _count(dataset.get("samples"))) * (_count(config.get("epochs")) or 1)


def _count(value: object) -> int:
    # Numbers above 2**53 cannot come from a count, and JSON readers differ about them.
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1 << 53 else 0


_SAMPLE = re.compile(r"samples/(?P<id>.*)_epoch_(?P<epoch>[0-9]+)\.json", re.DOTALL)
_SHELL = re.compile(r"samples/.*_epoch_[0-9]+/sample\.json", re.DOTALL)
_REFERENCE = re.compile(r"(?:attachment|tc)://(?P<hash>.+)", re.DOTALL)
_NUMBER = re.compile(r"[+-]?[0-9]{1,15}(?:\.[0-9]{1,15})?", re.ASCII)
_WORDS = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0, "yes": 1.0, "no": 0.0, "true": 1.0, "false": 0.0}
"""Numbers that Inspect itself uses for the values of its scorers."""
_EXPECTED = frozenset(
    {"uuid", "total_time", "working_time", "completed_at", "turn_count", "description", "role_usage", "events_data", "message_pool"}
)
"""Members whose data other members have too; the last two hold texts of events, which are counted themselves."""


def read_inspect(sources: list[ImportSource], reading: ImportState) -> Iterator[tuple[ImportedItem, ImportSource, int]]:
    """Yield the items of logs; the tally of a source counts what cannot be read."""
    reading.tool = "inspect_ai"
    for source in sources:
        if source.is_zip:
            yield from _read_archive(source, reading)
        else:
            yield from _written_out(source, reading)


def _read_archive(source: ImportSource, reading: ImportState) -> Iterator[tuple[ImportedItem, ImportSource, int]]:
    with Archive(source.path) as archive:
        # A log that never ended has no header yet, only what its journal began with.
        header = next((name for name in ("header.json", "_journal/start.json") if name in archive), None)
        if header is None:
            raise SourceUnreadable(f"'{source.name}' is a zip file, but no log of Inspect", hint="name the format: --from")
        log = read_header(LazyObject(archive.read(header), header), reading)
        for name in filter(_SHELL.fullmatch, archive.names()):
            source.tally.read += 1
            # Samples in pieces are a layout for very large samples, which only Inspect can put together.
            source.tally.skip(
                "the sample is stored in pieces; let Inspect write it out: inspect log convert --to json", record_id=name
            )
        for line, name in enumerate(_in_order(archive, log), 1):
            yield from _taken(source, reading, log=log, text=archive.read(name), line=line)
        note_incomplete_log(source, log, reading)


def _in_order(archive: Archive, log: InspectLogHeader) -> list[str]:
    """Return the samples as the dataset had them: archives keep the order in which they were finished."""
    places = {sample_id: place for place, sample_id in enumerate(log.sample_ids)}
    found = [match for match in map(_SAMPLE.fullmatch, archive.names()) if match]
    found.sort(key=lambda match: (int(match["epoch"]), places.get(match["id"], len(places))))
    return [match[0] for match in found]


def _written_out(source: ImportSource, reading: ImportState) -> Iterator[tuple[ImportedItem, ImportSource, int]]:
    document = LazyObject(source.opened.buffer(), "the log")
    log = read_header(document, reading)
    for line, sample in listed(source, document.part("samples"), "samples") if "samples" in document else ():
        yield from _taken(source, reading, log=log, text=sample, line=line)
    note_incomplete_log(source, log, reading)


def _taken(
    source: ImportSource, reading: ImportState, *, log: InspectLogHeader, text: bytes, line: int
) -> Iterator[tuple[ImportedItem, ImportSource, int]]:
    source.tally.read += 1
    try:
        item = _InspectSample(LazyObject(text, "the sample"), log, reading).item()
    except RowRefused as problem:
        source.tally.refuse(str(problem), line=line)
        return
    yield item, source, line


class _InspectSample:
    """One sample of a log on its way to an item."""

    def __init__(self, sample: LazyObject, log: InspectLogHeader, reading: ImportState) -> None:
        self._sample = sample
        self._log = log
        self._reading = reading
        self._attachments: Mapping[str, Any] = sample.mapping("attachments")

    def item(self) -> ImportedItem:
        """Return the sample as an item; raises RowRefused where it holds no question."""
        sample, question = self._sample, self._question()
        epoch = sample.get("epoch")
        if not isinstance(epoch, int) or isinstance(epoch, bool) or epoch < 1:
            raise RowRefused("epoch is not a whole number from 1")
        error_code, error = self._error()
        item = ImportedItem(
            question=question,
            candidate=self._log.candidate,
            sample=epoch - 1,
            answer=self._answer(),
            marks=tuple(self._marks()),
            error_code=error_code,
            error=error,
            turns=turns_of(list(self._said()), self._reading) if self._reading.wants_turns else [],
            started_at=seconds(sample.get("started_at")),
            latency_ms=self._latency(),
        )
        # Last, since members count as unread until something has read them.
        self._count_rest()
        return item

    def _count_rest(self) -> None:
        if not self._reading.wants_turns:
            turns = sum(message.get("role") == "tool" for message in mappings(self._sample.get("messages")))
            self._reading.leave_out("tool results in messages (--to conversation_v1 has them)", turns)
        for name in self._sample.unread():
            if name not in _EXPECTED:
                self._reading.leave_out(f"sample.{name}")

    def _question(self) -> ImportedQuestion:
        sample = self._sample
        given = sample.get("id")
        if not isinstance(given, str | int) or isinstance(given, bool):
            raise RowRefused(f"id is not text or a number but {kind(given)}")
        messages = self._messages(sample.get("input"))
        prompt = next((message["content"] for message in reversed(messages) if message["role"] == "user"), "")
        choices = [self._resolve_text(choice) for choice in sample.list("choices")]
        correct = self._correct(choices)
        # A multiple-choice target is a letter; as a reference it would be a text to compare with.
        targets = [] if correct else self._targets()
        return ImportedQuestion(
            id=str(given),
            dataset=self._log.dataset,
            prompt=prompt or messages[-1]["content"],
            messages=messages if len(messages) > 1 else [],
            references=targets,
            choices=[{"id": choice_id(place, "stable"), "text": text} for place, text in enumerate(choices)] if correct else [],
            correct_choice_ids=correct,
            metadata=sample.mapping("metadata"),
        )

    def _targets(self) -> list[str]:
        target = self._sample.get("target")
        listed = target if isinstance(target, list) else [target]
        return [self._resolve_text(one) for one in listed if isinstance(one, str) and one.strip()]

    def _correct(self, choices: list[str]) -> list[str]:
        """Return the letters of a multiple-choice target; none where the target is something else."""
        # `AC` stands for two letters where the target is upper case.
        letters = [letter for target in self._targets() for letter in (target if target.isupper() else [target])]
        known = {choice_id(place, "stable") for place in range(len(choices))}
        is_mcq = len(choices) > 1 and letters and known.issuperset(letters)
        if choices and not is_mcq:
            self._reading.leave_out("sample.choices without a target among them")
        return letters if is_mcq else []

    def _messages(self, given: object) -> list[Row]:
        if isinstance(given, str):
            given = [{"role": "user", "content": given}]
        found = [self._message(message) for message in given] if isinstance(given, list) else []
        kept = [message for message in found if message]
        if not kept:
            raise RowRefused("input has no text")
        return kept

    def _message(self, message: object) -> Row | None:
        """Return role and text of a message; None for a role that a candidate cannot be given."""
        if not isinstance(message, dict):
            raise RowRefused(f"a message of input is {kind(message)}")
        role, text = message.get("role"), self._content(message.get("content"))
        if role not in ("user", "assistant", "system") or not text.strip():
            self._reading.leave_out(f"message of role {role} in input")
            return None
        return {"role": role, "content": text}

    def _content(self, content: object) -> str:
        """Return the text of a message; parts that are not text are counted."""
        if not isinstance(content, list):
            return self._resolve_text(content) if isinstance(content, str) else ""
        texts: list[str] = []
        for part in content:
            if isinstance(part, dict) and part.get("type") == "text":
                texts.append(self._resolve_text(part.get("text")))
            else:
                self._reading.leave_out(f"content of type {part.get('type') if isinstance(part, dict) else kind(part)}")
        return "\n".join(texts)

    def _resolve_text(self, text: object) -> str:
        """Return the text behind a reference to an attachment, or the text itself; raises RowRefused where it is missing."""
        if not isinstance(text, str):
            raise RowRefused(f"a text is {kind(text)}")
        match = _REFERENCE.fullmatch(text)
        if match is None:
            return text
        found = self._attachments.get(match["hash"])
        if not isinstance(found, str):
            raise RowRefused(f"the log does not have the attachment {match['hash'][:40]!r}")
        return found

    def _answer(self) -> ImportedAnswer | None:
        output = self._sample.mapping("output")
        choices = mappings(output.get("choices"))
        if not choices:
            return None
        self._reading.leave_out("further choices of an answer", len(choices) - 1)
        message = mapping(choices[0].get("message"))
        if not self._reading.wants_turns:
            self._reading.leave_out("tool calls of an answer", len(sequence(message.get("tool_calls"))))
        # Usage by model counts all calls of the candidate for the sample; the output has the last one only.
        usage = mapping(self._sample.mapping("model_usage").get(self._log.candidate)) or mapping(output.get("usage"))
        return ImportedAnswer(
            text=self._content(message.get("content")),
            model=str(output.get("model") or ""),
            finish_reason=str(choices[0].get("stop_reason") or ""),
            usage=_usage(usage),
            cost=amount(usage.get("total_cost")),
        )

    def _said(self) -> Iterator[ImportedMessage]:
        """Return all messages of the sample; the result of a tool is with its call."""
        messages = mappings(self._sample.get("messages"))
        results = [message for message in messages if message.get("role") == "tool"]
        outputs = {message.get("tool_call_id"): self._content(message.get("content")) for message in results}
        for message in messages:
            if message.get("role") == "tool":
                continue
            calls = mappings(message.get("tool_calls"))
            used = (
                ImportedToolCall(
                    name=str(call.get("function")), given=call.get("arguments") or {}, output=outputs.get(call.get("id"))
                )
                for call in calls
            )
            yield ImportedMessage(role=str(message.get("role")), text=self._content(message.get("content")), calls=tuple(used))

    def _latency(self) -> float | None:
        """Return the latency of the one call, or of the whole sample where there were several."""
        said = mappings(self._sample.get("messages"))
        is_one = sum(message.get("source") == "generate" or message.get("role") == "assistant" for message in said) < 2
        # With several calls only the time of the whole sample is known.
        seconds_taken = self._sample.mapping("output").get("time") if is_one else self._sample.get("working_time")
        taken = amount(seconds_taken)
        return None if taken is None else round(taken * 1000, 3)

    def _error(self) -> tuple[str, str]:
        error, limit = self._sample.get("error"), self._sample.mapping("limit")
        if limit:
            self._reading.leave_out(f"sample limit ({limit.get('type')})")
        # Invalidated by a person: its score must not count, regardless of its value.
        if "invalidation" in self._sample:
            return "invalidated", str(self._sample.mapping("invalidation").get("reason") or "the sample was invalidated")
        # With `score_on_error` the log's own metrics count such samples, so they keep their scores here.
        if error is None or self._log.scores_errors:
            return "", ""
        return "sample_error", str(error.get("message") if isinstance(error, dict) else error)

    def _marks(self) -> Iterator[ImportedScore]:
        scores = self._sample.mapping("scores")
        if not scores and "score" in self._sample:
            # Logs of version 1 had one score.
            scores = {self._log.scorers[0] if self._log.scorers else "score": self._sample.mapping("score")}
        for name in sorted(scores, key=self._place):
            if isinstance(scores[name], dict):
                yield from self._mark(name, scores[name])
            else:
                self._reading.leave_out(f"score that is {kind(scores[name])}")

    def _place(self, name: str) -> int:
        return self._log.scorers.index(name) if name in self._log.scorers else len(self._log.scorers)

    def _mark(self, name: str, score: Row) -> Iterator[ImportedScore]:
        value = score.get("value")
        # A dictionary of values is a scorer with several scores, each of which may become the grade.
        parts = {f"{name}/{part}": one for part, one in value.items()} if isinstance(value, dict) else {name: value}
        for member in ("metadata", "history"):
            self._reading.leave_out(f"score.{member}", int(bool(score.get(member))))
        for scorer, one in parts.items():
            worth = _worth(one)
            reason = "" if worth is not None else str(score.get("reason") or _why_none(one))
            yield ImportedScore(
                scorer=scorer,
                value=worth,
                reason=reason,
                explanation=self._words(score.get("explanation")),
                selected=self._words(score.get("answer")),
            )

    def _words(self, text: object) -> str:
        return self._resolve_text(text) if isinstance(text, str) else ""


def _worth(value: object) -> float | None:
    """Return the number that Inspect computes with; None where it has none."""
    if not isinstance(value, str):
        # `number` refuses booleans, which scorers use.
        return float(value) if isinstance(value, bool) else number(value)
    word = value if value in _WORDS else value.lower()
    return _WORDS[word] if word in _WORDS else float(value) if _NUMBER.fullmatch(value) else None


def _why_none(value: object) -> str:
    return "the scorer gave no value" if value is None else f"the scorer's value is not a number: {str(value)[:60]!r}"


def _usage(usage: Row) -> Usage:
    """Return the tokens of all calls to the candidate for a sample, or of the last one where the log has no more."""
    return Usage(
        input_tokens=tokens(usage.get("input_tokens")),
        output_tokens=tokens(usage.get("output_tokens")),
        total_tokens=tokens(usage.get("total_tokens")),
        cached_tokens=tokens(usage.get("input_tokens_cache_read")),
        reasoning_tokens=tokens(usage.get("reasoning_tokens")),
    )
