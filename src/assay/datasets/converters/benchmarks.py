"""Rows of published benchmarks into rows of legal_eval_v1."""

import json
import re
from collections.abc import Sequence

import msgspec

from assay.core.strict_json import parse_json
from assay.datasets.converters.rows import (
    ALPHABET,
    Row,
    RowDraft,
    RowOrigin,
    RowRefused,
    SourceColumns,
    choice_id,
    digest,
    finish,
    is_empty,
    kind,
    list_cell,
    older_digest,
    option_text,
    whole_number,
)


def convert_apexv1(columns: SourceColumns, origin: RowOrigin) -> tuple[Row, ...]:
    """Convert one task to its canonical row; raises RowRefused."""
    prompt = columns.text("prompt")
    rubric = _apex_rubric(columns)
    # Without an id in the source, the content gives one: ids must be the same in every conversion, regardless of the order of rows.
    task_id = columns.identifier("task_id") or (digest(prompt, rubric) if origin.id_style == "stable" else older_digest(prompt))
    draft = RowDraft(
        id=f"apexv1:{task_id}",
        dataset="apexv1",
        task_type="rubric_qa",
        prompt=prompt,
        metadata={
            "domain": columns.get("domain"),
            "source_task_id": columns.get("task_id"),
            "policy_id": "apexv1_extended_v1",
        },
        attachments=_attachments(columns.get("file_attachments")),
        rubric=rubric,
    )
    return (finish(draft),)


def _apex_rubric(columns: SourceColumns) -> list[Row]:
    value = columns.get("rubric_json")
    if is_empty(value):
        raise RowRefused("Rubric JSON is empty")
    found = _parse(value) if isinstance(value, str) else value
    if not isinstance(found, dict):
        raise RowRefused(f"Rubric JSON is not an object but {kind(found)}")
    return [_apex_criterion(name, columns.inside("Rubric JSON", item)) for name, item in found.items()]


def _parse(text: str) -> object:
    document = parse_json(text)
    if document.flaws:
        raise RowRefused(f"Rubric JSON: {document.flaws[0].message}")
    return document.value


def _apex_criterion(name: str, cells: SourceColumns) -> Row:
    """Build a criterion: the description is judged, the justification explains it to people and judges."""
    criterion: Row = {"id": name.strip(), "title": cells.text("description")}
    justification = cells.text("justification")
    if justification:
        criterion["description"] = justification
    # Real weights are words such as "Primary objective(s)"; the benchmark counts criteria unweighted.
    if kind(cells.peek("weight")) == "a number":
        criterion["weight"] = float(cells.get("weight"))
    return criterion


def _attachments(value: object) -> list[Row]:
    """List the attachments, one path per line; a path may contain commas and spaces."""
    if is_empty(value):
        return []
    paths = value.splitlines() if isinstance(value, str) else value
    if not isinstance(paths, list) or not all(isinstance(path, str) for path in paths):
        raise RowRefused(f"File Attachments is not text but {kind(value)}")
    return [{"path": path.strip(), "kind": _kind(path)} for path in paths if path.strip()]


def _kind(path: str) -> str:
    return "pdf" if path.strip().lower().endswith(".pdf") else "file"


INCLUDE_OPTIONS = ("option_a", "option_b", "option_c", "option_d")
INCLUDE_METADATA = ("language", "country", "subject", "level", "is_european", "source_file")


def convert_includebase(columns: SourceColumns, origin: RowOrigin) -> tuple[Row, ...]:
    """Convert one question to its canonical row; raises RowRefused."""
    prompt = columns.text("question")
    options = [_option(columns, name) for name in INCLUDE_OPTIONS]
    answer = whole_number(columns.get("answer"), "answer")
    if not 0 <= answer < len(options):
        raise RowRefused(f"answer is {answer}, but the options are numbered 0 to {len(options) - 1}")
    # The answer is a number among the options, so an empty one may not be skipped before it is looked up.
    if not options[answer]:
        raise RowRefused(f"answer is {answer}, but {INCLUDE_OPTIONS[answer]} is empty")
    draft = RowDraft(
        id=f"includebase:{_include_id(columns, origin, prompt=prompt, options=options)}",
        dataset="includebase",
        task_type="mcq",
        prompt=prompt,
        metadata={
            **{name: columns.get(name) for name in INCLUDE_METADATA},
            "answer_index": answer,
            "policy_id": "includebase_default_v1",
        },
        # An empty option keeps its letter: the answer's number counts it.
        choices=[{"id": letter, "text": text} for letter, text in zip(ALPHABET, options, strict=False) if text],
        correct_choice_ids=[ALPHABET[answer]],
    )
    return (finish(draft),)


def _option(columns: SourceColumns, name: str) -> str:
    value = columns.get(name)
    return "" if is_empty(value) else option_text(value, name)


def _include_id(columns: SourceColumns, origin: RowOrigin, *, prompt: str, options: list[str]) -> str:
    source_file = columns.text("source_file")
    if origin.id_style == "upstream":
        return older_digest(f"{source_file or 'unknown'}:{origin.line}:{prompt}")
    return digest(source_file, prompt, options)


PROMPT = "Select the continuation that best extends the ECHR argument excerpt."
LAR_OPTIONS = ("a", "b", "c", "d")
MEASURES = (
    "toughness_score",
    "difficulty_signal_facts_len",
    "difficulty_signal_context_len",
    "difficulty_signal_option_similarity",
    "difficulty_signal_overlap_ambiguity",
    "difficulty_signal_negation_density",
)


def convert_lar_echr(columns: SourceColumns, origin: RowOrigin) -> tuple[Row, ...]:
    """Convert one argument to continue to its canonical row; raises RowRefused."""
    facts = _required(columns, "facts")
    arguments = _required(columns, "context_arguments", "context")
    choices = _choices(columns)
    row_id = columns.identifier("case_id") or _lar_id(columns, origin, content=[facts, arguments, choices])
    metadata = {
        "policy_id": "lar_echr_mcq_v1",
        "source_id": columns.identifier("record_id") or row_id,
        "case_id": columns.get("case_id"),
        "case_no": columns.get("case_no"),
        "source_split": columns.get("source_split"),
        "source_dataset": columns.get("source_dataset"),
    }
    draft = RowDraft(
        id=f"lar_echr:{row_id}",
        dataset="lar_echr",
        task_type="mcq",
        prompt=PROMPT,
        context=f"Facts:\n{facts}\n\nArguments:\n{arguments}",
        metadata={**metadata, **{name: columns.get(name) for name in MEASURES if name in columns}},
        choices=choices,
        # Whether the label is one of the choices is a rule of the contract, which `finish` applies.
        correct_choice_ids=[_required(columns, "label").upper()],
    )
    return (finish(draft),)


def _required(columns: SourceColumns, *names: str) -> str:
    text = columns.text(*names)
    if not text:
        raise RowRefused(f"{' and '.join(names)} {'is' if len(names) == 1 else 'are'} empty")
    return text


def _choices(columns: SourceColumns) -> list[Row]:
    cells = [(letter, name, columns.get(name)) for letter, name in zip(ALPHABET, LAR_OPTIONS, strict=False)]
    return [{"id": letter, "text": option_text(value, name)} for letter, name, value in cells if not is_empty(value)]


def _lar_id(columns: SourceColumns, origin: RowOrigin, *, content: list[object]) -> str:
    if origin.id_style == "upstream":
        return older_digest(f"{origin.line}:{content[0]}:{content[1]}")
    return columns.identifier("record_id") or digest(*content)


LEXAM_METADATA = ("course", "language", "area", "jurisdiction", "year")

_VARIANT = re.compile(r"([0-9]+)_choices", re.ASCII)


class _IdParts(msgspec.Struct, frozen=True):
    """Parts of a row's id: `subset` distinguishes the variants of one question."""

    kind: str
    source_id: str
    subset: str
    origin: RowOrigin
    suffix: str = ""

    def row_id(self) -> str:
        if self.origin.id_style == "upstream":
            return f"lexam:{self.kind}:{self.source_id}:{self.origin.line}{self.suffix}"
        return f"lexam:{self.kind}:{self.subset}:{self.source_id}"


def convert_lexam(columns: SourceColumns, origin: RowOrigin) -> tuple[Row, ...]:
    """Convert one question to its canonical row, or to one row for each size of its choice list; raises RowRefused."""
    stated = columns.text("question_type").lower()
    if stated not in ("", "open", "mcq"):
        raise RowRefused(f"the question type {stated!r} is neither 'open' nor 'mcq'")
    variants = _variants(columns)
    if stated == "open" or (not stated and "choices" not in columns and not variants):
        return (_open(columns, origin),)
    # The perturbation file has lists of several sizes in one row, and each becomes a question of its own.
    if "choices" in columns or not variants:
        return (_mcq(columns, origin),)
    return tuple(_variant(columns, origin, name=name) for name in variants)


def _variants(columns: SourceColumns) -> list[str]:
    return [name for name in columns if _VARIANT.fullmatch(name) and name in columns]


def _open(columns: SourceColumns, origin: RowOrigin) -> Row:
    answer = columns.text("answer")
    if not answer:
        raise RowRefused("an open question without an answer")
    source_id = _source_id(columns, origin, content=[answer])
    naming = _IdParts("open", source_id, columns.text("source_subset") or "open_question", origin)
    draft = RowDraft(
        id=naming.row_id(),
        dataset="lexam",
        task_type="reference_qa",
        prompt=columns.text("question"),
        metadata=_metadata(columns, naming, policy="lexam_oq_v1"),
        reference_answers=[answer],
    )
    return finish(draft)


def _mcq(columns: SourceColumns, origin: RowOrigin) -> Row:
    texts = _options(columns, "choices")
    gold = whole_number(columns.get("gold"), "gold")
    source_id = _source_id(columns, origin, content=texts)
    subset = columns.text("source_subset") or f"mcq_{len(texts)}_choices"
    return _mcq_row(columns, _IdParts("mcq", source_id, subset, origin), texts=texts, gold=gold)


def _variant(columns: SourceColumns, origin: RowOrigin, *, name: str) -> Row:
    """Convert one of the lists `4_choices` to `32_choices`, which the perturbation file has next to each other."""
    texts = _options(columns, name)
    gold = whole_number(columns.get(f"{name}_gold"), f"{name}_gold")
    source_id = _source_id(columns, origin, content=[])
    subset = f"{columns.text('source_subset') or 'mcq'}_{name}"
    # The older ids know one row per line; the size of the list keeps the variants of a line apart.
    return _mcq_row(columns, _IdParts("mcq", source_id, subset, origin, suffix=f":{name}"), texts=texts, gold=gold)


def _mcq_row(columns: SourceColumns, naming: _IdParts, *, texts: list[str], gold: int) -> Row:
    if not 0 <= gold < len(texts):
        raise RowRefused(f"gold is {gold}, but the choices are numbered 0 to {len(texts) - 1}")
    style = naming.origin.id_style
    draft = RowDraft(
        id=naming.row_id(),
        dataset="lexam",
        task_type="mcq",
        prompt=columns.text("question"),
        metadata={**_metadata(columns, naming, policy="lexam_mcq_v1"), "gold_index": gold},
        choices=[{"id": choice_id(position, style), "text": text} for position, text in enumerate(texts)],
        correct_choice_ids=[choice_id(gold, style)],
    )
    return finish(draft)


def _options(columns: SourceColumns, name: str) -> list[str]:
    value = columns.get(name)
    if is_empty(value):
        raise RowRefused("a multiple-choice question without choices")
    return [
        option_text(option, f"{columns.shown(name)}[{position}]")
        for position, option in enumerate(list_cell(value, columns.shown(name)))
    ]


def _source_id(columns: SourceColumns, origin: RowOrigin, *, content: list[str]) -> str:
    fallback = f"line_{origin.line}" if origin.id_style == "upstream" else digest(columns.text("question"), content)
    return columns.identifier("id") or fallback


def _metadata(columns: SourceColumns, naming: _IdParts, *, policy: str) -> Row:
    return {
        **{name: columns.get(name) for name in LEXAM_METADATA},
        "question_type": naming.kind,
        "source_id": naming.source_id,
        "policy_id": policy,
    }


TURNS = 10
"""Columns prompt_0 to prompt_9 and response_0 to response_8."""
PRBENCH_METADATA = (
    "topic",
    "field",
    "expert",
    "category",
    "decision_type",
    "economic_pathway",
    "classified_countries",
    "scratchpad",
)

_REFERENCE = re.compile(r"reference.*?([0-9]+)$", re.ASCII)
_WEIGHT = "_weight"


def convert_prbench(columns: SourceColumns, origin: RowOrigin) -> tuple[Row, ...]:
    """Convert one conversation with its rubric to its canonical row; raises RowRefused."""
    turns = _turns(columns)
    messages = [message for turn in turns for message in _messages(turn)]
    prompts = [message["content"] for message in messages if message["role"] == "user"]
    if not prompts:
        raise RowRefused(f"no prompt in prompt_0 to prompt_{TURNS - 1}")
    rubric = _prbench_rubric(columns)
    source_id = columns.identifier("task", "id", "canary") or _prbench_id(columns, origin, content=[turns, rubric])
    draft = RowDraft(
        id=f"prbench:{source_id}",
        dataset="prbench",
        task_type="rubric_qa",
        # The candidate answers the last user turn; the earlier ones are history, with the replies that the benchmark recorded.
        prompt=prompts[-1],
        metadata={
            **{name: columns.get(name) for name in PRBENCH_METADATA},
            "source_turns": turns,
            "source_id": source_id,
            "policy_id": "prbench_v1",
        },
        messages=messages,
        rubric=rubric,
    )
    return (finish(draft),)


def _prbench_id(columns: SourceColumns, origin: RowOrigin, *, content: Sequence[object]) -> str:
    if origin.id_style == "stable":
        return digest(*content)
    return older_digest(json.dumps(dict(columns.row), sort_keys=True, ensure_ascii=False, default=str))


def _turns(columns: SourceColumns) -> list[Row]:
    references = _references(columns)
    return [
        {
            "turn": turn,
            "prompt": columns.text(f"prompt_{turn}"),
            "response": columns.text(f"response_{turn}"),
            "reference_texts": references[turn],
        }
        for turn in range(TURNS)
    ]


def _references(columns: SourceColumns) -> list[list[str]]:
    """Collect every list column whose name contains `reference` and ends in a turn's number, in column order."""
    found: list[list[str]] = [[] for _ in range(TURNS)]
    for name in columns:
        match = _REFERENCE.search(name)
        if match and int(match[1]) < TURNS:
            found[int(match[1])] += _reference_texts(columns, name)
    return found


def _reference_texts(columns: SourceColumns, name: str) -> list[str]:
    value = columns.peek(name)
    if not isinstance(value, list) and not (isinstance(value, str) and value.lstrip().startswith("[")):
        return []
    found = list_cell(columns.get(name), columns.shown(name))
    texts = [text.strip() for text in found if isinstance(text, str)]
    if len(texts) < len(found):
        raise RowRefused(f"{columns.shown(name)} holds something that is not text")
    return [text for text in texts if text]


def _messages(turn: Row) -> list[Row]:
    messages = []
    if turn["prompt"]:
        references = [f"Reference Text {number}:\n{text}" for number, text in enumerate(turn["reference_texts"])]
        messages.append({"role": "user", "content": "\n\n".join([*references, turn["prompt"]])})
    if turn["response"]:
        messages.append({"role": "assistant", "content": turn["response"]})
    return messages


def _prbench_rubric(columns: SourceColumns) -> list[Row]:
    return [
        _prbench_criterion(columns.inside("rubric", item), number)
        for number, item in enumerate(list_cell(columns.get("rubric"), "rubric"), 1)
    ]


def _prbench_criterion(cells: SourceColumns, number: int) -> Row:
    annotations = cells.inside("annotations", cells.get("annotations") or {})
    criterion: Row = {"id": cells.identifier("id") or f"criterion_{number}", "title": cells.text("title")}
    description = annotations.text("criteria_description")
    weight = _weight(annotations, criterion["id"])
    if description:
        criterion["description"] = description
    if weight is not None:
        criterion["weight"] = weight
    return criterion


def _weight(annotations: SourceColumns, criterion: str) -> float | None:
    """Return the weight that `weight_class` names; annotators did not clear weights of other classes, some with the other sign."""
    found = {name: annotations.get(name) for name in annotations if name.endswith(_WEIGHT)}
    weights = {name: value for name, value in found.items() if value is not None}
    named = annotations.text("weight_class")
    if named:
        chosen = weights.get(named.lower().replace(" ", "_") + _WEIGHT)
        if chosen is None:
            raise RowRefused(f"criterion {criterion!r} is of class {named!r}, for which it has no weight")
    elif len(weights) > 1:
        raise RowRefused(f"criterion {criterion!r} has {len(weights)} weights and no weight_class to choose by")
    else:
        chosen = next(iter(weights.values()), None)
    return None if chosen is None else _number(chosen, criterion)


def _number(value: object, criterion: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise RowRefused(f"the weight of criterion {criterion!r} is not a number but {kind(value)}")
    return float(value)
