"""Deterministic datasets to measure with: clean ones, and ones with 2 % bad records and a list of what is wrong in them.

Texts are made of invented sentences: mostly ASCII, some with Latin accents, some in CJK, Devanagari or Arabic script, some with
emoji, all mixed with code, LaTeX, quotations and lists. Three records in ten are written with \\u escapes, the others as UTF-8.
"""

import json
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

CACHE = Path(__file__).parent / "files"
RECIPE = 1
"""Part of every file's name: a change of what is generated changes it."""
MEGABYTE = 1_000_000
BAD_SHARE = 0.02
ESCAPED_SHARE = 0.3
CRITERIA = ("accuracy", "clarity", "reasoning", "factuality", "overall")

Value = dict[str, Any]

_WORDS = {
    "plain": "the of and to in a is that for it as was with be by on not at are this have from or which one all would their when "
    "will more about than into only other some could these first then any now such most after also many before must through "
    "where should because each just those between under same last another while against right used model record prompt answer "
    "contract clause notice payment tenant supplier liability evidence appeal deadline invoice function variable latency "
    "gradient sample metric threshold retrieval tokens cache queue schema index vector baseline",
    "accented": "déjà façade élève cœur Straße für über Größe niño mañana corazón ação não está café procédure société naïve",
    "wide": "模型 数据 评估 合同 责任 問題 回答 東京 データ 한국어 모델 평가 नमस्ते प्रश्न उत्तर न्याय مرحبا سؤال جواب عقد",
    "emoji": "😀 🚀 ✅ 🔥 👩‍💻 🎉 🤖 ❤️ 👍🏽 🇩🇪",
}
_FOREIGN_SHARE = {"plain": 0.0, "accented": 0.2, "wide": 0.75, "emoji": 0.08}
_INSERTS = (
    '\n```python\nprint("hello\\n")\n```\n',
    "\n- first\n- second\n",
    ' She said "not before noon". ',
    " $\\frac{1}{2}\\beta + \\theta$ ",
    " C:\\temp\\new ",
    ' {"k": [1, 2.5, null]} ',
    "\n\n",
    "\tcolumn\tcolumn\r\n",
    " https://example.org/a/b?c=d&e=f ",
)
_TAGS = ("ml", "law", "contracts", "math", "code", "python", "long-context", "multilingual", "safety", "définition", "合同")


class Writer:
    """A seeded source of words, texts and choices."""

    def __init__(self, seed: str) -> None:
        self.random = random.Random(seed)
        self._words = {kind: words.split() for kind, words in _WORDS.items()}
        self._sentences = {kind: [self._sentence(kind) for _ in range(3000)] for kind in _WORDS}

    def _sentence(self, kind: str) -> str:
        kinds = [kind if self.chance(_FOREIGN_SHARE[kind]) else "plain" for _ in range(self.random.randint(5, 18))]
        words = [self.random.choice(self._words[each]) for each in kinds]
        insert = self.random.choice(_INSERTS) if self.random.random() < 0.12 else " "
        return " ".join(words).capitalize() + self.random.choice(".?!;:") + insert

    def kind(self) -> str:
        """The script of the next record."""
        return self.random.choices(tuple(_WORDS), (72, 14, 7, 7))[0]

    def text(self, kind: str, median: int, *, most: int = 60_000) -> str:
        """A text of about so many characters: most are shorter, a few much longer."""
        size = min(self.random.lognormvariate(0, 0.8) * median, most)
        parts: list[str] = []
        while size > 0:
            parts.append(self.random.choice(self._sentences[kind]))
            size -= len(parts[-1])
        return "".join(parts).strip()

    def chance(self, share: float) -> bool:
        """True in that share of all cases."""
        return self.random.random() < share

    def dumped(self, value: Any) -> str:
        """The value as JSON, in one of the two usual spellings."""
        return json.dumps(value, ensure_ascii=self.chance(ESCAPED_SHARE))


def batch_record(writer: Writer, index: int) -> Value:
    """One valid record of batch_v1."""
    kind, pick = writer.kind(), writer.random
    record: Value = {"record_id": f"q_{index:06d}", "input": {"prompt": writer.text(kind, 700)}}
    if writer.chance(0.2):
        record["input"]["system"] = writer.text(kind, 120)
    if writer.chance(0.85):
        record["reference"] = {"answer": writer.text(kind, 350)}
        if writer.chance(0.3):
            record["reference"]["citations"] = [{"doc": f"d{pick.randrange(9999)}", "page": pick.randrange(500)} for _ in range(3)]
    if writer.chance(0.9):
        record["tags"] = pick.sample(_TAGS, pick.randint(0, 6))
    if writer.chance(0.6):
        record["expected"] = {"max_latency_ms": pick.randint(1, 120_000), "required_criteria": pick.sample(CRITERIA, 2)}
    if writer.chance(0.7):
        record["metadata"] = _metadata(writer)
    return record


def _metadata(writer: Writer) -> Value:
    pick = writer.random
    return {
        "source": "internal",
        "difficulty": pick.choice(("easy", "medium", "hard")),
        "weight": round(pick.random() * 4, 3),
        "reviewed": writer.chance(0.5),
        "annotator": {"id": pick.randrange(1000), "team": {"name": "eval", "site": None}},
        "history": [pick.randrange(100) for _ in range(pick.randint(0, 5))],
    }


class Flaw(NamedTuple):
    """What one kind of bad record is reported as: the code, the path below the record, and the change that makes it bad."""

    code: str
    path: str
    spoil: Callable[[Value], object]


FLAWS = (
    Flaw("missing_required_field", ".record_id", lambda record: record.pop("record_id")),
    Flaw("missing_required_field", ".input", lambda record: record.pop("input")),
    Flaw("missing_required_field", ".input.prompt", lambda record: record["input"].pop("prompt")),
    Flaw("invalid_field_type", ".input.prompt", lambda record: record["input"].update(prompt=12)),
    Flaw("invalid_field_type", ".input", lambda record: record.update(input=["a prompt"])),
    Flaw("invalid_field_type", ".record_id", lambda record: record.update(record_id=7)),
    Flaw("invalid_field_type", ".tags", lambda record: record.update(tags="ml")),
    Flaw("invalid_field_type", ".tags[1]", lambda record: record.update(tags=["ml", None])),
    Flaw("invalid_field_type", ".metadata", lambda record: record.update(metadata=None)),
    Flaw("invalid_field_type", ".expected.max_latency_ms", lambda record: record.update(expected={"max_latency_ms": 2000.0})),
    Flaw("invalid_field_type", ".reference.answer", lambda record: record.update(reference={"answer": 5})),
    Flaw("value_out_of_range", ".input.prompt", lambda record: record["input"].update(prompt="")),
    Flaw("value_out_of_range", ".expected.max_latency_ms", lambda record: record.update(expected={"max_latency_ms": 120_001})),
    Flaw("value_out_of_range", ".tags", lambda record: record.update(tags=[f"t{number}" for number in range(33)])),
    Flaw("value_out_of_range", ".tags[1]", lambda record: record.update(tags=["a", ""])),
    Flaw("value_out_of_range", ".metadata", lambda record: record.update(metadata={"a": {"b": {"c": {"d": {"e": {}}}}}})),
    Flaw("string_too_long", ".record_id", lambda record: record.update(record_id=record["record_id"] + "x" * 128)),
    Flaw("string_too_long", ".tags[0]", lambda record: record.update(tags=["y" * 65])),
    Flaw(
        "invalid_enum_value", ".expected.required_criteria[0]", lambda record: record.update(expected={"required_criteria": [""]})
    ),
    Flaw("duplicate_record_id", ".record_id", lambda record: record.update(record_id="q_000000")),
    Flaw("record_too_large", ".metadata", lambda record: record.update(metadata={"blob": "z" * 8300})),
    Flaw("invalid_encoding", ".input.prompt", lambda record: record["input"].update(prompt="a NUL \x00 inside")),
    Flaw("invalid_encoding", ".reference.answer", lambda record: record.update(reference={"answer": "a bell \x07 rings"})),
    Flaw("invalid_encoding", ".input.prompt", lambda record: record["input"].update(prompt="half of a pair \ud83d alone")),
    Flaw("invalid_encoding", ".metadata.note", lambda record: record.update(metadata={"note": "C1 \x85 control"})),
    Flaw("invalid_encoding", ".tags[0]", lambda record: record.update(tags=["two\nlines"])),
    Flaw("unsupported_field", ".answer", lambda record: record.update(answer="in the wrong place")),
    Flaw("unsupported_field", ".expected.latency", lambda record: record.update(expected={"latency": 5})),
)
TWICE = Flaw("invalid_encoding", ".input", lambda record: record)
"""The same name twice in one object: no Python value says that, so it is written into the text."""


def batch_lines(writer: Writer, size: int, truth: list[Value] | None) -> Iterator[str]:
    """A document on one line, as json.dump writes it; with `truth`, one record in fifty is bad and noted there."""
    yield '{"dataset_id": "bench", "dataset_version": "1", "schema_version": "1.0", "metadata": {"owner": "bench"}, "records": ['
    written = index = 0
    while written < size and index < 50_000:
        record = batch_record(writer, index)
        is_bad = truth is not None and index > 0 and writer.chance(BAD_SHARE)
        line = _spoiled(record, index, truth) if is_bad and truth is not None else writer.dumped(record)
        yield f", {line}" if index else line
        written += len(line.encode("utf-8", "surrogatepass")) + 2
        index += 1
    yield "]}"


def _spoiled(record: Value, index: int, truth: list[Value]) -> str:
    number = len(truth) % (len(FLAWS) + 1)
    flaw = TWICE if number == len(FLAWS) else FLAWS[number]
    flaw.spoil(record)
    record_id = record.get("record_id")
    record_id = record_id if isinstance(record_id, str) else None
    truth.append({"index": index, "record_id": record_id, "code": flaw.code, "path": f"records[{index}]{flaw.path}"})
    text = json.dumps(record)
    return text.replace('"input":', '"input": {"prompt": "first"}, "input":', 1) if flaw is TWICE else text


def legal_row(writer: Writer, index: int) -> Value:
    """One valid row of legal_eval_v1."""
    kind, pick = writer.kind(), writer.random
    task = pick.choice(("rubric_qa", "reference_qa", "mcq"))
    row: Value = {"schema_version": "legal_eval_v1", "id": f"bench-{index:06d}", "dataset": "bench", "task_type": task}
    row["prompt"] = writer.text(kind, 600)
    if writer.chance(0.3):
        row["context"] = writer.text(kind, 500)
    if writer.chance(0.15):
        row["messages"] = [{"role": "system", "content": "Answer briefly."}, {"role": "user", "content": row["prompt"]}]
    if task == "mcq":
        row["choices"] = [{"id": name, "text": writer.text(kind, 120)} for name in "ABCDE"]
        row["correct_choice_ids"] = [pick.choice("ABCDE")]
    elif task == "reference_qa":
        row["reference_answers"] = [writer.text(kind, 700)]
    else:
        row["rubric"] = [_criterion(writer, kind, number) for number in range(pick.randint(3, 12))]
    row["metadata"] = {"policy_id": "bench_default", "year": pick.randint(1990, 2025), "lang": "en"}
    return row


def _criterion(writer: Writer, kind: str, number: int) -> Value:
    criterion: Value = {"id": f"c{number}", "title": writer.text(kind, 60)}
    criterion["weight"] = writer.random.choice((1, 2, 0.5, 5, -1.5)) if number else 1
    if writer.chance(0.5):
        criterion["description"] = writer.text(kind, 120)
    return criterion


def conversation(writer: Writer, _index: int) -> list[Value]:
    """One valid conversation of conversation_v1."""
    kind = writer.kind()
    return [_turn(writer, kind, number) for number in range(1, 2 * writer.random.randint(2, 8) + 1)]


def _turn(writer: Writer, kind: str, number: int) -> Value:
    if number % 2:
        return {"turn_id": number, "speaker": "user", "message": writer.text(kind, 150, most=4000)}
    turn: Value = {"turn_id": number, "speaker": "assistant", "assistant_reply": writer.text(kind, 350, most=4000)}
    if writer.chance(0.3):
        output = {"hits": [writer.text(kind, 60), writer.text(kind, 60)], "took_ms": writer.random.randrange(900)}
        turn |= {"tool_used": "search", "tool_input": {"query": writer.text(kind, 40), "top_k": 5}, "tool_output": output}
    if writer.chance(0.5):
        turn["confidence_score"] = round(writer.random.random(), 3)
    if writer.chance(0.2):
        turn["metadata"] = {"latency_ms": writer.random.randrange(4000), "region": "eu"}
    return turn


def json_lines(writer: Writer, size: int, make: Callable[[Writer, int], Any]) -> Iterator[str]:
    """As many values as fit, one on each line."""
    written = index = 0
    while written < size:
        line = writer.dumped(make(writer, index)) + "\n"
        yield line
        written += len(line.encode())
        index += 1


def dataset(name: str, megabytes: int) -> Path:
    """The file of that kind and size (`clean`, `bad`, `legal`, `conversation`), made on first use."""
    suffix = "json" if name in ("clean", "bad") else "jsonl"
    path = CACHE / f"{name}_{megabytes}.{RECIPE}.{suffix}"
    if path.exists():
        return path
    CACHE.mkdir(exist_ok=True)
    writer, size = Writer(f"{name} {megabytes}"), megabytes * MEGABYTE
    truth: list[Value] | None = [] if name == "bad" else None
    if suffix == "json":
        pieces = batch_lines(writer, size, truth)
    else:
        pieces = json_lines(writer, size, legal_row if name == "legal" else conversation)
    if truth is not None:
        pieces = iter(["".join(pieces)])
    partial = path.with_suffix(".partial")
    with partial.open("w", encoding="utf-8", newline="") as file:
        file.writelines(pieces)
    if truth is not None:
        truth_of(path).write_text("".join(json.dumps(entry) + "\n" for entry in truth), encoding="utf-8")
    return partial.rename(path)


def truth_of(path: Path) -> Path:
    """The list of everything that is wrong in a bad file: index, record_id, code and path on each line."""
    return path.with_suffix(".truth.jsonl")


if __name__ == "__main__":
    for megabytes in map(int, sys.argv[1:] or ("10", "50", "100")):
        for name in ("clean", "bad", "legal", "conversation"):
            print(dataset(name, megabytes))
