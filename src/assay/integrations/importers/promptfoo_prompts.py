"""Prompts of a config of promptfoo: texts, files and patterns, and their templates with the values of one test."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from assay.core.strict_json import parse_json
from assay.datasets.converters.report import UnreadableLine
from assay.datasets.converters.rows import RowRefused, kind
from assay.datasets.converters.sources import read_source
from assay.datasets.imports.items import ImportState
from assay.integrations.importers.nunjucks import TemplateRefused, names_in, render
from assay.integrations.importers.promptfoo_asserts import fill
from assay.integrations.importers.promptfoo_files import FILE, ConfigFiles, FileUnread, is_code, is_file

_CONVERSATION = "_conversation"
MAX_PASSES = 5
"""Rounds in which promptfoo puts variables into the values of others."""
_ELSEWHERE = re.compile(r"(?:portkey|langfuse|helicone)://")
_FILE_NAME = re.compile(r"[^\s{}]+\.(?:txt|md|j2|json|jsonl|ya?ml|csv)|[^\s{}]*[*][^\s{}]*")
"""promptfoo takes a prompt that is called like a file, or is a pattern, for a file."""
_DATA = frozenset({".json", ".yaml", ".yml"})
_VARIABLE = re.compile(r"\{\{\s*(\w+)\s*\}\}")


class PromptTemplate(msgspec.Struct, frozen=True):
    """One prompt with the names that tests may choose it by."""

    text: str
    names: tuple[str, ...] = ()

    def is_allowed(self, wanted: object) -> bool:
        """Return whether a test that lists prompts lists this one: by its name, or by the part before a colon, or with a `*`."""
        if not isinstance(wanted, list):
            return True
        texts = [one for one in wanted if isinstance(one, str)]
        return any(
            name == one or name.startswith(f"{one}:") or (one.endswith("*") and name.startswith(one[:-1]))
            for name in self.names
            for one in texts
        )


class UnreadValue(msgspec.Struct, frozen=True):
    """Value of a variable that was not read, and why."""

    reason: str


class PromptReader:
    """Reads the prompts of a config."""

    def __init__(self, files: ConfigFiles, reading: ImportState) -> None:
        self._files = files
        self._reading = reading
        self.problems: list[str] = []
        """Reasons why prompts were not read."""

    def read(self, given: object) -> Iterator[PromptTemplate]:
        """Yield all prompts; others are counted, and their reasons kept."""
        # An older form names files as keys, and labels as values.
        listed = list(given) if isinstance(given, dict) else given if isinstance(given, list) else [given]
        for prompt in listed:
            names: tuple[str, ...] = ()
            text = prompt
            if isinstance(prompt, dict):
                text = next((prompt[name] for name in ("raw", "content", "id") if isinstance(prompt.get(name), str)), None)
                names = tuple(str(prompt[name]) for name in ("label", "id") if prompt.get(name))
            if isinstance(text, str):
                yield from self._read_text(text, names)
            elif isinstance(prompt, list) or (isinstance(prompt, dict) and isinstance(prompt.get("raw"), list | dict)):
                yield PromptTemplate(json.dumps(prompt if isinstance(prompt, list) else prompt["raw"], ensure_ascii=False), names)
            else:
                self._leave_out(f"prompt that is {kind(prompt)}", f"a prompt is {kind(prompt)}, not text")

    def _read_text(self, text: str, names: tuple[str, ...]) -> Iterator[PromptTemplate]:
        is_path = "\n" not in text and (is_file(text) or _FILE_NAME.fullmatch(text) is not None)
        if _ELSEWHERE.match(text):
            self._leave_out("prompt from elsewhere", f"the prompt '{text}' is kept by another service")
        elif "\n" not in text and is_code(text) and " " not in text.removeprefix("exec:").strip():
            self._leave_out("prompt that is code", f"the prompt '{text.removeprefix(FILE)}' is made by a program, which is not run")
        elif text.startswith("exec:"):
            self._leave_out("prompt that is code", f"the prompt '{text}' is made by a program, which is not run")
        elif is_path:
            yield from self._read_files(text, names)
        else:
            yield PromptTemplate(text, (*names, text))

    def _read_files(self, address: str, names: tuple[str, ...]) -> Iterator[PromptTemplate]:
        try:
            paths = self._files.found(address)
        except FileUnread as problem:
            self._unread(problem)
            return
        for path in paths:
            name = path.relative_to(self._files.folder.resolve()).as_posix() if self._is_inside(path) else path.name
            if is_code(path.name):
                self._leave_out("prompt that is code", f"the prompt '{name}' is made by a program, which is not run")
                continue
            try:
                yield from (PromptTemplate(text, (*names, *own, name, address)) for text, own in self._texts(path))
            except FileUnread as problem:
                self._unread(problem)

    def _is_inside(self, path: Path) -> bool:
        return path.is_relative_to(self._files.folder.resolve())

    def _texts(self, path: Path) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yield the prompts of a file with their labels; raises FileUnread."""
        suffix, text = path.suffix.lower(), self._files.text(path)
        if suffix in _DATA:
            yield self._data(path, text), ()
        elif suffix == ".jsonl":
            yield from ((line, ()) for line in text.splitlines() if line.strip())
        elif suffix == ".csv":
            yield from self._table(path, text)
        elif suffix == ".txt":
            # Three dashes on a line separate prompts in a text file, as promptfoo reads them.
            parts = re.split(r"(?m)^[ \t]*---[ \t]*\r?$", text)
            yield from ((part.strip(), ()) for part in parts if part.strip())
        else:
            yield text, ()

    def _data(self, path: Path, text: str) -> str:
        """Return a file of JSON or YAML as the text of a prompt; one that cannot be parsed is the template of one."""
        try:
            value = self._files.data(path)
        except FileUnread:
            return text
        # A chat in YAML is one in JSON; a text stays what it is.
        return value if isinstance(value, str) else json.dumps(self._with_files(value), ensure_ascii=False)

    def _table(self, path: Path, text: str) -> Iterator[tuple[str, tuple[str, ...]]]:
        lines = [line for line in text.splitlines() if line.strip()]
        header = [name.strip() for name in lines[0].split(",")] if lines else []
        if "prompt" not in header or len(header) == 1:
            yield from ((line, ()) for line in lines[int(bool(lines) and lines[0].strip().lower() == "prompt") :])
            return
        for number, row in read_source(path).lines:
            if isinstance(row, UnreadableLine):
                self._leave_out("prompt in a row that cannot be read", f"{path.name}:{number}: {row.reason}")
            elif isinstance(row.get("prompt"), str):
                label = row.get("label")
                yield str(row["prompt"]), (label,) if isinstance(label, str) else ()

    def _with_files(self, value: object) -> object:
        """Return a value with the files read that it names."""
        if isinstance(value, dict):
            return {name: self._with_files(one) for name, one in value.items()}
        if isinstance(value, list):
            return [self._with_files(one) for one in value]
        if not is_file(value) or "{{" in value:
            return value
        try:
            return self._files.value(value)
        except FileUnread as problem:
            self._files.leave_out(problem)
            return value

    def _unread(self, problem: FileUnread) -> None:
        self._files.leave_out(problem)
        self.problems.append(str(problem))

    def _leave_out(self, loss: str, reason: str) -> None:
        self._reading.leave_out(loss)
        self.problems.append(reason)


def chat_or_text(prompt: str) -> object:
    """Return the messages of a prompt that is written as JSON; any other prompt unchanged."""
    # JSON chats begin with a bracket; parsing every prompt as JSON would be slow.
    if not prompt.lstrip().startswith("["):
        return prompt
    document = parse_json(prompt)
    return prompt if document.flaws or not _is_chat(document.value) else document.value


def _is_chat(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, dict) and "role" in one for one in value)


def filled_prompt(template: str, variables: Mapping[str, object], reading: ImportState) -> object:
    """Return a prompt with its variables, as text or as messages; raises RowRefused where a value was not read.

    `variables` are those of `resolved_variables`.
    """
    used = names_in(template)
    reading.leave_out("answers to earlier tests in a prompt (_conversation)", int(_CONVERSATION in used))
    for name, value in variables.items():
        if isinstance(value, UnreadValue) and name in used:
            # A prompt without the text of the file would ask another question.
            raise RowRefused(f"the value of '{name}' was not read: {value.reason}")
    known = {name: value for name, value in variables.items() if not isinstance(value, UnreadValue)}
    if template.lstrip()[:1] in ("[", "{"):
        document = parse_json(template)
        # In a prompt that is JSON each text is a template of its own, so that values need no escapes.
        if not document.flaws and isinstance(document.value, list | dict):
            value = _filled_value(document.value, known, reading)
            return value if _is_chat(value) else json.dumps(value, ensure_ascii=False, indent=2)
    return chat_or_text(fill(template, _rendered(known), reading))


def _filled_value(value: object, variables: Mapping[str, object], reading: ImportState) -> object:
    if isinstance(value, str):
        return fill(value, variables, reading)
    if isinstance(value, list):
        return [_filled_value(one, variables, reading) for one in value]
    if isinstance(value, dict):
        return {name: _filled_value(one, variables, reading) for name, one in value.items()}
    return value


def resolved_variables(variables: Mapping[str, object]) -> dict[str, object]:
    """Return the variables with others put into their values, as promptfoo does: one after the other, a few rounds long."""
    found = {name: value.removesuffix("\n") if isinstance(value, str) else value for name, value in variables.items()}
    for _ in range(MAX_PASSES):
        is_changed = False
        for name, value in found.items():
            match = _VARIABLE.search(value) if isinstance(value, str) else None
            other = found.get(match[1]) if match else None
            if match and isinstance(value, str) and isinstance(other, str | int | float) and match[1] != name:
                found[name] = value.replace(match[0], _plain(other), 1)
                is_changed = True
        if not is_changed:
            break
    return found


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _rendered(variables: dict[str, object]) -> dict[str, object]:
    """Return the variables whose values are templates with their texts; one with a variable that is missing stays as it is."""
    return {name: _rendered_value(value, variables) if isinstance(value, str) else value for name, value in variables.items()}


def _rendered_value(value: str, variables: Mapping[str, object]) -> str:
    try:
        text, missing = render(value, variables)
    except TemplateRefused:
        return value
    return value if missing else text
