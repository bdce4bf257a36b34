"""No input takes more than linear time: twice of any repeated element takes about twice the time, in every reader."""

import gc
import math
import time
from collections.abc import Callable
from typing import NamedTuple

import pytest

from assay import validate
from assay.core.strict_json import parse_json, parse_json_lines, read_exactly
from assay.datasets.parsing.strict_yaml import parse_yaml

MOST = 2.5
"""Times as long for twice as much."""
TRIES = 20
"""On a busy machine caches are shared, so that a measurement comes out too long, never too short. Few need a second one."""
ONE_HASH = 2**61 - 1
"""Python gives all multiples of it the same hash."""


def cpu(work: Callable[[], object]) -> float:
    # What other tests have left is not to be looked through for cycles meanwhile.
    gc.collect()
    gc.freeze()
    try:
        start = time.process_time()
        work()
        return time.process_time() - start
    finally:
        gc.unfreeze()


def growth(work: Callable[[bytes], object], make: Callable[[int], str], count: int, *, times: int) -> float:
    """The growth of the time for each doubling, from one size to so many times as much; the best of several tries."""
    sizes = [make(size).encode("utf-8", "surrogatepass") for size in (count, times * count)]
    best = [math.inf, math.inf]
    for _ in range(TRIES):
        best = [min(known, cpu(lambda data=data: work(data))) for known, data in zip(best, sizes, strict=True)]
        if best[1] < best[0] * MOST ** math.log2(times):
            break
    return (best[1] / best[0]) ** (1 / math.log2(times))


def check_linear(work: Callable[[bytes], object], make: Callable[[int], str], count: int) -> None:
    # Where the larger input alone leaves the processor's cache, one doubling is slower than linear; several are not.
    assert growth(work, make, count, times=2) < MOST or growth(work, make, count, times=8) < MOST


class Flood(NamedTuple):
    """An element that is repeated, where `%d` is its number times `step`, between a beginning and an end."""

    contract: str
    before: str
    element: str
    after: str
    count: int
    """So many that reading them takes at least some 20 ms."""
    separator: str = ","
    step: int = 1

    def text(self, count: int) -> str:
        is_numbered = "%d" in self.element
        elements = (
            [self.element.replace("%d", str(at * self.step)) for at in range(count)] if is_numbered else [self.element] * count
        )
        return self.before + self.separator.join(elements) + self.after


GOOD = '{"record_id":"r","input":{"prompt":"p"}'
HEAD = '{"dataset_id":"d","dataset_version":"1","schema_version":"1.0",'
RECORDS = HEAD + '"records":['
RECORD = RECORDS + GOOD
ROW = '{"schema_version":"legal_eval_v1","id":"r","dataset":"d","prompt":"p",'
QA = '"task_type":"reference_qa","reference_answers":["x"]'
RUBRIC = ROW + '"task_type":"rubric_qa","rubric":['
CASES = '{"version":"1.0.0","cases":['
CASE = '{"id":"c%d","user_prompt":"Is it?","rubric":"It says that it is."'
TURN = '{"turn_id":1,"speaker":"user","message":"m"'
YAML = "- turn_id: 1\n"

FLOODS = {
    # batch_v1: the document
    "batch-keys": Flood("batch_v1", HEAD, '"a":1', f',"records":[{GOOD}}}]}}', 20_000),
    "batch-keys-after-the-records": Flood("batch_v1", RECORD + "}],", '"é":1', "}", 20_000),
    "batch-keys-on-lines-of-their-own": Flood("batch_v1", HEAD, '"a":1', f',"records":[{GOOD}}}]}}', 20_000, ",\n"),
    "batch-keys-without-records": Flood("batch_v1", HEAD, '"a":1', "}", 20_000),
    "batch-unknown-keys": Flood("batch_v1", RECORD + "}],", '"k%d":1', "}", 5_000),
    "batch-metadata-of-the-document": Flood("batch_v1", RECORD + '}],"metadata":{', '"k%d":"é"', "}}", 10_000),
    "batch-empty-lines": Flood("batch_v1", "", "\n", RECORD + "}]}", 10_000_000, ""),
    "batch-empty-lines-at-the-end": Flood("batch_v1", RECORD + "}]}", "\n", "", 10_000_000, ""),
    "batch-brackets": Flood("batch_v1", "", "[", "", 2_000_000, ""),
    "batch-records-that-are-numbers": Flood("batch_v1", RECORDS, "1", "]}", 5_000),
    "batch-more-records-than-are-allowed": Flood("batch_v1", RECORDS, "1", "]}", 600_000),
    "batch-records": Flood("batch_v1", RECORDS, GOOD.replace('"r"', '"r%d"') + "}", "]}", 10_000),
    "batch-duplicate-ids": Flood("batch_v1", RECORDS, GOOD + "}", "]}", 4_000),
    "batch-records-with-lone-surrogates": Flood("batch_v1", RECORDS, GOOD + ',"tags":["\\ud800"]}', "]}", 2_000),
    "batch-records-outside-of-nfc": Flood("batch_v1", RECORDS, GOOD + ',"tags":["e\u0301"]}', "]}", 2_000),
    "batch-deep-records": Flood("batch_v1", RECORDS, "[" * 300 + "]" * 300, "]}", 300),
    # batch_v1: a record
    "record-keys": Flood("batch_v1", RECORD + ",", '"a":1', "}]}", 10_000),
    "record-unknown-fields": Flood("batch_v1", RECORD + ",", '"k%d":1', "}]}", 10_000),
    "record-tags": Flood("batch_v1", RECORD + ',"tags":[', "1", "]}]}", 10_000),
    "record-criteria": Flood("batch_v1", RECORD + ',"expected":{"required_criteria":[', '"x"', "]}}]}", 5_000),
    "record-escapes": Flood("batch_v1", RECORD + ',"tags":["', "\\u0041", '"]}]}', 100_000, ""),
    "record-backslashes": Flood("batch_v1", RECORD + ',"tags":["', "\\\\", '"]}]}', 300_000, ""),
    "record-lone-surrogates": Flood("batch_v1", RECORD + ',"tags":["', "\\ud800", '"]}]}', 50_000, ""),
    "record-texts-with-lone-surrogates": Flood("batch_v1", RECORD + ',"tags":[', '"\\ud800"', "]}]}", 4_000),
    "record-combining-marks": Flood("batch_v1", RECORD + ',"tags":["', "\u0301", '"]}]}', 100_000, ""),
    "record-marks-in-short-runs": Flood("batch_v1", RECORD + ',"tags":["', "a" + "\u0316\u0301" * 10, '"]}]}', 5_000, ""),
    "record-control-characters": Flood("batch_v1", RECORD + ',"tags":[', '"\\u0007"', "]}]}", 5_000),
    "record-metadata": Flood("batch_v1", RECORD + ',"metadata":{', '"k%d":{}', "}}]}", 10_000),
    "record-nested-metadata": Flood("batch_v1", RECORD + ',"metadata":{"a":[', "[[[[[]]]]]", "]}}]}", 5_000),
    "record-long-text": Flood("batch_v1", RECORD + ',"reference":{"answer":"', "é", '"}}]}', 300_000, ""),
    "record-fields-of-the-input": Flood("batch_v1", RECORDS + '{"record_id":"r","input":{', '"k%d":1', "}}]}", 20_000),
    # legal_eval_v1
    "legal-empty-lines": Flood("legal_eval_v1", "", "\n", "", 10_000_000, ""),
    "legal-blanks": Flood("legal_eval_v1", "", " ", "\n", 10_000_000, ""),
    "legal-blank-lines": Flood("legal_eval_v1", ROW + QA + "}\n", " \t\r\n", ROW + QA + "}", 500_000, ""),
    "legal-rows": Flood("legal_eval_v1", "", ROW.replace('"r"', '"r%d"') + QA + "}\n", "", 10_000, ""),
    "legal-numbers": Flood("legal_eval_v1", "", "1\n", "", 2_000, ""),
    "legal-lines-that-are-not-json": Flood("legal_eval_v1", "", '{"a\n', "", 2_000, ""),
    "legal-duplicate-ids": Flood("legal_eval_v1", "", ROW + QA + "}\n", "", 1_000, ""),
    "legal-keys": Flood("legal_eval_v1", ROW + QA + ",", '"a":1', "}", 10_000),
    "legal-unknown-fields": Flood("legal_eval_v1", ROW + QA + ",", '"k%d":1', "}", 2_000),
    "legal-unknown-fields-of-a-bad-row": Flood("legal_eval_v1", ROW + QA + ',"context":1,', '"k%d":1', "}", 2_000),
    "legal-unknown-fields-of-many-rows": Flood("legal_eval_v1", "", ROW + QA + ',"k%d":1}\n', "", 1_000, ""),
    "legal-messages": Flood("legal_eval_v1", ROW + QA + ',"messages":[', "1", "]}", 5_000),
    "legal-attachments": Flood("legal_eval_v1", ROW + QA + ',"attachments":[', '{"path":"/a"}', "]}", 3_000),
    "legal-criteria": Flood("legal_eval_v1", RUBRIC, '{"id":"c%d","title":"Names the rule %d"}', "]}", 3_000),
    "legal-duplicate-criteria": Flood("legal_eval_v1", RUBRIC, '{"id":"c","title":"t"}', "]}", 3_000),
    "legal-criteria-that-say-the-same": Flood("legal_eval_v1", RUBRIC, '{"id":"c%d","title":"Names the same rule"}', "]}", 3_000),
    "legal-criteria-that-deny-each-other": Flood(
        "legal_eval_v1",
        RUBRIC,
        '{"id":"c%d","title":"Does not name this rule"},{"id":"d%d","title":"Does name this rule"}',
        "]}",
        2_000,
    ),
    "legal-references": Flood(
        "legal_eval_v1",
        RUBRIC + '{"id":"c","title":"Names the rule"}],"reference_answers":[',
        '"quarantine protocol %d"',
        "]}",
        3_000,
    ),
    "legal-choices": Flood(
        "legal_eval_v1", ROW + '"task_type":"mcq","correct_choice_ids":["x"],"choices":[', '{"id":"c%d","text":"t"}', "]}", 3_000
    ),
    "legal-correct-choices": Flood(
        "legal_eval_v1", ROW + '"task_type":"mcq","choices":[{"id":"c","text":"t"}],"correct_choice_ids":[', '"x%d"', "]}", 3_000
    ),
    "legal-nul": Flood("legal_eval_v1", ROW + QA + ',"metadata":{"a":[', '"\\u0000"', "]}}", 3_000),
    "legal-escapes": Flood("legal_eval_v1", ROW + QA + ',"context":"', "\\u0000", '"}', 200_000, ""),
    "legal-long-name": Flood("legal_eval_v1", ROW + QA + ',"', "k", '":["\\u0000"]}', 1_000_000, ""),
    # golden_v1
    "golden-cases": Flood("golden_v1", CASES, CASE + "}", "]}", 3_000),
    "golden-cases-that-are-numbers": Flood("golden_v1", CASES, "1", "]}", 5_000),
    "golden-keys": Flood("golden_v1", CASES + "],", '"a":1', "}", 20_000),
    "golden-unknown-fields": Flood("golden_v1", CASES + "],", '"k%d":1', "}", 5_000),
    "golden-tags": Flood("golden_v1", CASES + CASE.replace("%d", "1") + ',"tags":[', "1", "]}]}", 5_000),
    "golden-duplicate-ids": Flood("golden_v1", CASES, CASE.replace("%d", "1") + "}", "]}", 3_000),
    "golden-empty-lines": Flood("golden_v1", "", "\n", CASES + "1]}", 10_000_000, ""),
    # conversation_v1
    "turns-that-are-numbers": Flood("conversation_v1", "[", "1", "]", 20_000),
    "turns": Flood("conversation_v1", "[", TURN.replace("1", "%d") + "}", "]", 3_000),
    "turns-whose-ids-have-one-hash": Flood("conversation_v1", "[", TURN.replace("1", "%d") + "}", "]", 6_000, step=ONE_HASH),
    "turns-with-one-id": Flood("conversation_v1", "[", TURN + "}", "]", 2_000),
    "turns-on-lines": Flood("conversation_v1", "", TURN + "}\n", "", 2_000, ""),
    "turns-on-lines-that-are-not-json": Flood("conversation_v1", TURN + "}\n", '{"a\n', "", 5_000, ""),
    "turns-behind-blanks": Flood("conversation_v1", TURN + "}\n", " ", "\n" + TURN + "}", 2_000_000, ""),
    "conversations-on-lines": Flood("conversation_v1", "", "[1]\n", "", 3_000, ""),
    "turn-keys": Flood("conversation_v1", "[" + TURN + ",", '"a":1', "}]", 20_000),
    "turn-unknown-fields": Flood("conversation_v1", "[" + TURN + ",", '"k%d":1', "}]", 4_000),
    "turn-nested-objects": Flood("conversation_v1", "[" + TURN + ',"metadata":{"a":[', '{"b":{"c":[]}}', ']},"x":1}]', 5_000),
    "turn-deep-objects": Flood(
        "conversation_v1", "[" + TURN + ',"metadata":{"a":[', '{"b":' * 60 + "1" + "}" * 60, ']},"x":1}]', 200
    ),
    "turn-numbers-that-do-not-fit": Flood("conversation_v1", "[" + TURN + ',"metadata":{"a":[', "1e999", "]}}]", 5_000),
    "turn-digits": Flood("conversation_v1", "[" + TURN + ',"metadata":{"a":', "7", "}}]", 2_000_000, ""),
    "turn-fraction": Flood("conversation_v1", "[" + TURN + ',"x":0.', "7", "}]", 2_000_000, ""),
    "turn-numbers-and-spaces": Flood("conversation_v1", "[" + TURN + ',"x":[', "1," + " " * 500 + "[]", "]}]", 2_000),
    # conversation_v1 as YAML
    "yaml-turns": Flood("conversation_v1", "", "- 1\n", "", 5_000, ""),
    "yaml-empty-lines": Flood("conversation_v1", YAML, "\n", "", 2_000_000, ""),
    "yaml-comments": Flood("conversation_v1", YAML, "# no\n", "", 200_000, ""),
    "yaml-keys": Flood("conversation_v1", YAML, "  a: 1\n", "", 3_000, ""),
    "yaml-unknown-fields": Flood("conversation_v1", YAML, "  k%d: 1\n", "", 3_000, ""),
    "yaml-anchors": Flood("conversation_v1", YAML, "  k%d: &a%d 1\n", "", 3_000, ""),
    "yaml-aliases": Flood("conversation_v1", "- turn_id: &a 1\n  x:\n", "  - *a\n", "", 3_000, ""),
    "yaml-aliases-of-lists": Flood("conversation_v1", "- a: &a [1, [2]]\n  x:\n", "  - *a\n", "", 2_000, ""),
    "yaml-brackets": Flood("conversation_v1", "- [", "[]", "]", 5_000),
    "yaml-escapes": Flood("conversation_v1", '- message: "', "\\x41", '"', 100_000, ""),
    "yaml-lone-surrogates": Flood("conversation_v1", "- x:\n", '  - "\\ud800"\n', "", 2_000, ""),
    "yaml-block-text": Flood("conversation_v1", YAML + "  speaker: user\n  message: |\n", "    a b c\n", "", 100_000, ""),
    "yaml-folded-text": Flood("conversation_v1", YAML + "  speaker: user\n  message:\n", "    a b c\n", "", 50_000, ""),
    "yaml-documents": Flood("conversation_v1", "", YAML + "---\n", "", 100_000, ""),
    "yaml-flow-in-one-line": Flood("conversation_v1", "- {", "a: 1", "}", 3_000, ", "),
    "yaml-tabs": Flood("conversation_v1", "- a:", "\t", "1", 500_000, ""),
}


@pytest.mark.parametrize("name", FLOODS)
def test_a_flood_takes_linear_time(name: str) -> None:
    flood = FLOODS[name]
    check_linear(lambda data: validate(data, flood.contract), flood.text, flood.count)


@pytest.mark.parametrize("piece", ["\n", "- \n", "a: 1\n", "{", "[", '"', "\\", " ", "#\n", "'", "{}\n", "[]\n"])
def test_recognising_a_contract_takes_linear_time(piece: str) -> None:
    check_linear(lambda data: validate(data), lambda count: piece * count, 100_000)


STRICT: dict[str, Callable[[int], str]] = {
    "keys": lambda n: "{" + '"a":1,' * n + '"b":1}',
    "distinct-keys": lambda n: "{" + ",".join(f'"k{at}":1' for at in range(n)) + "}",
    "brackets": lambda n: "[" + "[]," * n + "1]",
    "objects": lambda n: "[" + '{"a":{}},' * n + "1]",
    "escapes": lambda n: '["' + "\\u00e9\\n" * n + '"]',
    "strings": lambda n: "[" + '"\\ud800",' * n + "1]",
    "numbers": lambda n: "[" + "1e999," * n + "1]",
    "empty-lines": lambda n: "[" + "\n" * 100 * n + "1]",
    "lines": lambda n: "[\n" + "1\n,\n" * n + "1]",
}


@pytest.mark.parametrize("name", STRICT)
def test_the_strict_parser_and_its_locations_take_linear_time(name: str) -> None:
    def read(data: bytes) -> None:
        document = read_exactly(data.decode())
        document.locate([(at,) for at in range(2000)])
        for flaw in document.flaws:
            document.place(flaw.offset)
        document.place(document.offset((1999,)))

    check_linear(read, STRICT[name], 20_000)


@pytest.mark.parametrize("line", ["1", "{oops}", '"\\x', '{"a":1,"a":2}', "", " " * 50, '{"a":'])
def test_lines_are_read_in_linear_time(line: str) -> None:
    check_linear(parse_json_lines, lambda count: (line + "\n") * count, 10_000 if line.strip() else 100_000)


@pytest.mark.parametrize("text", ['"', "[", "{", '{"a":', "1", "-", "t", "\n", '["a",', "[1,", '"\\'])
def test_text_that_is_cut_off_is_refused_in_linear_time(text: str) -> None:
    check_linear(parse_json, lambda count: text * count, 200_000)


@pytest.mark.parametrize(
    "text", ["- ", "a: ", "[", "{", "? ", "'", '"', "&a ", "*a ", "!a ", "%TAG ! a\n", "|\n", "- - a\n", "\ufeff", "a:\n"]
)
def test_yaml_is_read_in_linear_time(text: str) -> None:
    check_linear(parse_yaml, lambda count: text * count, 30_000)
