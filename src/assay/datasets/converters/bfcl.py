"""Files of the Berkeley Function Calling Leaderboard (BFCL) into a batch_v1 document that expects its calls, by its rules."""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from assay.core.canonical import JsonObject
from assay.datasets.converters.report import ConversionCounts, ConversionResult, RowSource, UnreadableLine, summarize
from assay.datasets.converters.rows import RowRefused, drop_empty, kind
from assay.datasets.converters.sources import read_source

NAME = "bfcl"
# The types of the benchmark in the words of JSON Schema, as its own code for providers translates them.
_SCHEMA_TYPES = {
    "integer": "integer", "number": "number", "float": "number", "string": "string", "boolean": "boolean", "bool": "boolean",
    "array": "array", "list": "array", "dict": "object", "object": "object", "tuple": "array", "any": "string", "byte": "integer",
    "short": "integer", "long": "integer", "double": "number", "char": "string", "ArrayList": "array", "Array": "array",
    "HashMap": "object", "Hashtable": "object", "Queue": "array", "Stack": "array", "Any": "string", "String": "string",
    "Bigint": "integer", "Boolean": "boolean",
}  # fmt: skip
_SCHEMA_MEMBERS = ("description", "enum", "default", "format", "minimum", "maximum", "pattern")
_NO_CHECKER = ("memory", "web_search", "rest", "sql", "chatable")
"""Categories whose checkers read answers in words, or execute calls."""
_VERSION = re.compile(r"BFCL_(v\d+)_", re.IGNORECASE)
_UNNAMED = re.compile(r"[^A-Za-z0-9_.-]+")
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_MAX_ID = 128


def convert_bfcl(paths: Sequence[str | Path]) -> ConversionResult:
    """Convert questions and possible answers; a row with `ground_truth` and no `question` is an answer, in whatever file."""
    return convert_bfcl_rows([read_source(path) for path in paths])


def convert_bfcl_rows(sources: Sequence[RowSource]) -> ConversionResult:
    """Convert rows of questions and possible answers to a batch_v1 document and a report."""
    tallies = [ConversionCounts(source.name) for source in sources]
    questions: list[tuple[ConversionCounts, int, Mapping[str, Any]]] = []
    answers: dict[str, Any] = {}
    for source, tally in zip(sources, tallies, strict=True):
        for line, row in source.lines:
            is_answer = not isinstance(row, UnreadableLine) and "question" not in row and "ground_truth" in row
            # A possible answer is part of the record of its question.
            tally.read += not is_answer
            if isinstance(row, UnreadableLine):
                tally.refuse(row.reason, line=line)
            elif is_answer:
                _add_answer(answers, row, tally, line=line)
            else:
                questions.append((tally, line, row))
    converter = _BfclConverter(answers, has_answers=bool(answers), is_by_position=_is_by_position(questions, answers))
    records = [record for number, question in enumerate(questions) for record in converter.record(number, *question)]
    asked = {row.get("id") for _, _, row in questions}
    unasked = [] if converter.is_by_position else [name for name in answers if name not in asked]
    if unasked:
        tallies[-1].note("left_out", f"{len(unasked):,} possible answers have no question, such as that of {unasked[0]!r}")
    report = summarize(NAME, "batch_v1", tallies=tallies)
    name = next((Path(source.name).name.partition(".")[0] for source in sources), NAME)
    version = _VERSION.search(name)
    document = {
        "dataset_id": (_UNNAMED.sub("-", name).strip("-") or NAME)[:_MAX_ID],
        "dataset_version": version[1] if version else "1",
        "schema_version": "1.0",
        "metadata": {"task_type": "tool_calls", "source": "Berkeley Function Calling Leaderboard"},
        "records": records,
    }
    return ConversionResult(report=report, document=document)


def _add_answer(answers: dict[str, Any], row: Mapping[str, Any], tally: ConversionCounts, *, line: int) -> None:
    answer_id = row.get("id")
    if not isinstance(answer_id, str) or not answer_id:
        tally.note("left_out", f"the possible answer on line {line} has no id")
    elif answer_id in answers:
        tally.note("left_out", f"line {line} is a second possible answer with this id", record_id=answer_id)
    else:
        answers[answer_id] = row["ground_truth"]


def _is_by_position(questions: Sequence[tuple[object, int, Mapping[str, Any]]], answers: Mapping[str, object]) -> bool:
    """Return whether answers belong to questions by their position: older files have other ids, in the same order."""
    return len(questions) == len(answers) > 0 and not any(row.get("id") in answers for _, _, row in questions)


class _BfclConverter:
    """Converter of questions, which knows all possible answers."""

    def __init__(self, answers: Mapping[str, Any], *, has_answers: bool, is_by_position: bool) -> None:
        self._answers = answers
        self._has_answers = has_answers
        self.is_by_position = is_by_position
        self._in_order = list(answers.values()) if is_by_position else []
        self._names: set[str] = set()
        self._parameters = _keyword_orders(answers)

    def record(self, number: int, tally: ConversionCounts, line: int, row: Mapping[str, Any]) -> Iterator[JsonObject]:
        """Yield the record of a question; a row that cannot be converted is counted with its reason."""
        record_id = row.get("id")
        known = record_id if isinstance(record_id, str) else None
        try:
            record = self._record(number, row)
        except RowRefused as problem:
            tally.refuse(str(problem), line=line, record_id=known)
            return
        if record["record_id"] in self._names:
            tally.skip(f"the id {known!r} is used before", line=line, record_id=known)
            return
        self._names.add(record["record_id"])
        tally.emitted += 1
        changed: list[str] = []
        record["input"] = _without_controls(record["input"], "input", changed)
        for path in changed:
            tally.note("changed", "control characters become spaces, since the contract has none", record_id=known, path=path)
        yield record

    def _record(self, number: int, row: Mapping[str, Any]) -> JsonObject:
        record_id = row.get("id")
        if not isinstance(record_id, str) or not record_id.strip():
            raise RowRefused("the row has no id")
        category = _category(record_id)
        if category.startswith(_NO_CHECKER):
            raise RowRefused(f"the category {category!r} is not checked by comparing calls")
        answer = self._in_order[number] if self._in_order else self._answers.get(record_id)
        turns = _turns(row)
        functions = _functions(row)
        if isinstance(answer, list) and answer and all(isinstance(turn, list) for turn in answer):
            return _with_tags(self._of_turns(record_id, turns, functions, answer), category)
        expected, matching = self._expected(category, functions, answer)
        prompt, messages = _conversation([message for turn in turns for message in turn])
        tools = [_tool(function, _language(category)) for function in functions]
        given = {**drop_empty({"prompt": prompt, "messages": messages}), "tools": tools}
        reference = {"tool_calls": expected, "tool_matching": matching}
        return _with_tags({"record_id": record_id, "input": given, "reference": reference}, category)

    def _expected(self, category: str, functions: Sequence[JsonObject], answer: object) -> tuple[list[JsonObject], str]:
        if "irrelevance" in category:
            return [], "bfcl"
        if "relevance" in category:
            return [], "any_call"
        if answer is None and self._has_answers:
            raise RowRefused("there is no possible answer with its id")
        if answer is None:
            raise RowRefused("it needs the file of possible answers, which stands after that of the questions")
        if not isinstance(answer, list) or not answer:
            raise RowRefused(f"ground_truth is not a list of calls but {kind(answer)}")
        if all(isinstance(call, str) for call in answer):
            return [self._plain_call(call, step=1) for call in answer], "in_order"
        language = _language(category)
        is_simple = "parallel" not in category and "multiple" not in category and len(answer) == 1
        return [_expected_call(call, functions, language=language, is_simple=is_simple) for call in answer], "bfcl"

    def _of_turns(
        self, record_id: str, turns: Sequence[Sequence[JsonObject]], functions: Sequence[JsonObject], answer: Sequence[Any]
    ) -> JsonObject:
        """Build the record of a conversation of several turns: the calls of all its turns are expected."""
        texts = [str(message.get("content") or "") for turn in turns for message in turn]
        calls = [self._plain_call(call, step=number) for number, turn in enumerate(answer, 1) for call in turn]
        tools = [_tool(function, "python") for function in functions]
        prompt = "\n\n".join(f"({number}) {text}" for number, text in enumerate(texts, 1))
        given = drop_empty({"prompt": prompt, "tools": tools})
        if not calls:
            raise RowRefused("its possible answer has no call")
        # The benchmark executes calls and compares what they did, so that further calls may be harmless.
        return {"record_id": record_id, "input": given, "reference": {"tool_calls": calls, "tool_matching": "superset"}}

    def _plain_call(self, text: object, *, step: int) -> JsonObject:
        """Read a call that is written as Python, such as `sort(file_name='x')`; nothing is executed."""
        name, positional, named = _python_call(text)
        known = [one for one in self._parameters.get(name, ()) if one not in named]
        if len(positional) > len(known):
            known += [f"argument_{number}" for number in range(len(known) + 1, len(positional) + 1)]
        return {"name": name, "arguments": {**dict(zip(known, positional, strict=False)), **named}, "step": step}


def _without_controls(value: Any, path: str, changed: list[str]) -> Any:
    """Replace the control characters that batch_v1 does not take; a few real questions begin with one."""
    if isinstance(value, str):
        plain = _CONTROLS.sub(" ", value)
        changed += [path] if plain != value else []
        return plain
    if isinstance(value, list):
        return [_without_controls(member, f"{path}[{number}]", changed) for number, member in enumerate(value)]
    if isinstance(value, dict):
        return {name: _without_controls(member, f"{path}.{name}", changed) for name, member in value.items()}
    return value


def _category(record_id: str) -> str:
    return record_id.rsplit("_", 1)[0]


def _language(category: str) -> str:
    if "javascript" in category:
        return "javascript"
    return "java" if "java" in category else "python"


def _with_tags(record: JsonObject, category: str) -> JsonObject:
    return {**record, "tags": [category[:64] or NAME]}


def _turns(row: Mapping[str, Any]) -> list[list[JsonObject]]:
    """Return the messages turn by turn; older files have one text."""
    question = row.get("question")
    if isinstance(question, str):
        return [[{"role": "user", "content": question}]]
    if isinstance(question, list) and all(isinstance(message, dict) for message in question):
        question = [question]
    if not isinstance(question, list) or not all(
        isinstance(turn, list) and all(isinstance(message, dict) for message in turn) for turn in question
    ):
        raise RowRefused(f"question is not a list of turns but {kind(question)}")
    return question


def _conversation(messages: Sequence[JsonObject]) -> tuple[str, list[JsonObject]]:
    """Return the prompt, and the whole conversation where there is more than the prompt."""
    known = [{"role": one.get("role"), "content": one.get("content")} for one in messages]
    for one in known:
        if one["role"] not in ("user", "assistant", "system") or not isinstance(one["content"], str):
            raise RowRefused(f"a message has the role {one['role']!r} and {kind(one['content'])} as its content")
    # An empty message says nothing, and the contract takes none.
    known = [one for one in known if str(one["content"]).strip()]
    prompts = [one["content"] for one in known if one["role"] == "user"]
    if not prompts:
        raise RowRefused("question has no message of a user")
    return str(prompts[-1]), known if len(known) > 1 else []


def _functions(row: Mapping[str, Any]) -> list[JsonObject]:
    functions = row.get("function", row.get("functions", []))
    functions = [functions] if isinstance(functions, dict) else functions
    if not isinstance(functions, list) or not all(
        isinstance(one, dict) and isinstance(one.get("name"), str) and one["name"] for one in functions
    ):
        raise RowRefused("function is not a list of definitions with names")
    return functions


def _parameters(function: JsonObject) -> JsonObject:
    found = function.get("parameters")
    return found if isinstance(found, dict) else {}


def _properties(function: JsonObject) -> JsonObject:
    found = _parameters(function).get("properties")
    return found if isinstance(found, dict) else {}


def _tool(function: JsonObject, language: str) -> JsonObject:
    """Build the definition of a tool as JSON Schema; source code of other languages is given as text."""
    parameters = _parameters(function)
    properties = {name: _schema(schema, language) for name, schema in _properties(function).items()}
    required = [name for name in parameters.get("required") or () if isinstance(name, str)]
    schema: JsonObject = {"type": "object", "properties": properties, **({"required": required} if required else {})}
    description = function.get("description")
    return {"name": function["name"], "description": description if isinstance(description, str) else "", "parameters": schema}


def _schema(given: object, language: str) -> JsonObject:
    if not isinstance(given, dict):
        return {}
    if language != "python":
        words = {"java": "Java", "javascript": "JavaScript"}[language]
        about = f"{given.get('description') or ''} A value of the {words} type {given.get('type')}, as source code."
        return {"type": "string", "description": about.strip()}
    schema: JsonObject = {name: given[name] for name in _SCHEMA_MEMBERS if name in given}
    kind_of_value = _SCHEMA_TYPES.get(str(given.get("type")))
    if kind_of_value:
        schema["type"] = kind_of_value
    if isinstance(given.get("properties"), dict):
        schema["properties"] = {name: _schema(member, language) for name, member in given["properties"].items()}
    if isinstance(given.get("items"), dict):
        schema["items"] = _schema(given["items"], language)
    required = given.get("required")
    if isinstance(required, list) and all(isinstance(name, str) for name in required):
        schema["required"] = required
    return schema


def _expected_call(call: object, functions: Sequence[JsonObject], *, language: str, is_simple: bool) -> JsonObject:
    """Build an expected call: one rule for each argument that the tool or the possible answer knows."""
    if not isinstance(call, dict) or len(call) != 1 or not isinstance(next(iter(call.values())), dict):
        raise RowRefused(f"a possible answer is not one tool with its arguments but {kind(call)}")
    ((name, possible),) = call.items()
    # With a single tool, the benchmark looks at that one, whatever the answer is called.
    function = functions[0] if is_simple and functions else next((one for one in functions if one["name"] == name), None)
    if function is None:
        raise RowRefused(f"the possible answer calls {name!r}, which is not one of the functions")
    properties = _properties(function)
    required = _parameters(function).get("required")
    required = required if isinstance(required, list) else []
    names = dict.fromkeys((*possible, *(one for one in required if isinstance(one, str))))
    rules = {one: {"bfcl": _rule(one, possible, properties, is_required=one in required, language=language)} for one in names}
    return {"name": function["name"], "arguments": {}, "rules": rules}


def _rule(name: str, possible: Mapping[str, Any], properties: Mapping[str, Any], *, is_required: bool, language: str) -> JsonObject:
    values = possible.get(name)
    if name in possible and not isinstance(values, list):
        raise RowRefused(f"the possible values of {name!r} are not a list but {kind(values)}")
    schema = properties.get(name)
    schema = schema if isinstance(schema, dict) else {}
    items = schema.get("items")
    found = {
        "values": values or [],
        # Without a type nothing that is given can be right.
        "type": str(schema.get("type") or "") if name in possible else "",
        "items": str(items.get("type") or "") if isinstance(items, dict) else "",
        "language": "" if language == "python" else language,
    }
    return {**drop_empty(found), **({"is_required": True} if is_required else {})}


def _python_call(text: object) -> tuple[str, list[Any], JsonObject]:
    try:
        tree = ast.parse(str(text).strip(), mode="eval").body
        if not isinstance(tree, ast.Call) or any(keyword.arg is None for keyword in tree.keywords):
            raise ValueError
        # Literals only: nothing in a file is ever executed.
        positional = [_json_value(ast.literal_eval(value)) for value in tree.args]
        named = {str(keyword.arg): _json_value(ast.literal_eval(keyword.value)) for keyword in tree.keywords}
        return ast.unparse(tree.func), positional, named
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        raise RowRefused(f"a possible answer is not a call that can be read: {str(text)[:60]}") from None


def _json_value(value: Any) -> Any:
    if isinstance(value, list | tuple | set):
        return [_json_value(member) for member in value]
    if isinstance(value, dict):
        return {str(name): _json_value(member) for name, member in value.items()}
    if value is None or isinstance(value, str | int | float):
        return value
    raise TypeError


def _keyword_orders(answers: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the arguments of each tool in the order in which calls with keywords name most of them."""
    orders: dict[str, list[str]] = {}
    for answer in answers.values():
        turns = answer if isinstance(answer, list) else []
        for call in (call for turn in turns for call in (turn if isinstance(turn, list) else [turn]) if isinstance(call, str)):
            try:
                name, _, named = _python_call(call)
            except RowRefused:
                continue
            if len(named) > len(orders.get(name, ())):
                orders[name] = list(named)
    return orders
