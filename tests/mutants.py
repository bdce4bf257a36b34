"""Seeded mutations of documents: wrong types and lengths, odd spellings and characters, damaged bytes.

A tree is a JSON value whose objects are lists of pairs, so that a name can appear twice, and whose leaves may be `Spelled`:
JSON text that is written as it is.
"""

import json
from random import Random
from typing import Any, NamedTuple


class Spelled(NamedTuple):
    """JSON text of one value, or of one name."""

    text: str


class Members(list[tuple[str | Spelled, Any]]):
    """An object as pairs."""


NUMBERS = (
    *(
        "0",
        "-0",
        "-0.0",
        "1",
        "1.0",
        "2000.0",
        "0.5",
        "1e5",
        "1E+2",
        "1e-7",
        "5e-324",
        "1e21",
        "1e22",
        "123456.789e3",
        "4.35",
        "1e400",
        "-1e400",
    ),
    *(
        "9007199254740991",
        "9007199254740993",
        "9007199254740993.0",
        "9100000000000000.0",
        "9999999999999998.0",
        "18446744073709551615",
    ),
    *(
        "18446744073709551616",
        "-9223372036854775809",
        "100000000000000000000000000000",
        "0.000001",
        "0.0001",
        "0.00001",
        "120000",
        "120001",
    ),
    *(
        "9" * 4300,
        "9" * 4301,
        "0." + "1" * 4298,
        "0." + "1" * 4299,
        "1" + "0" * 400,
        "NaN",
        "-Infinity",
        "01",
        "+1",
        ".5",
        "1.",
        "0x10",
        "1_000",
    ),
)
PIECES = (
    *(
        "\\u0000",
        "\\u0001",
        "\\b",
        "\\f",
        "\\n",
        "\\r\\n",
        "\\t",
        "\\/",
        '\\"',
        "\\\\",
        "\\\\b",
        "\\\\u0041",
        "\\\\\\b",
        "\\u0022",
        "\\u005c",
    ),
    *(
        "\\u0022:1,\\u0022",
        "\\u001f",
        "\\u007f",
        "\\u0080",
        "\\u009F",
        "\x7f",
        "\x80",
        "\x85",
        "\xa0",
        "\u2028",
        "\ufeff",
        "\ufffd",
        "\uffff",
    ),
    *(
        "\\ud800",
        "\\udc00",
        "\\ud83d\\ude00",
        "\\ude00\\ud83d",
        "\\uD83D\\uDE00",
        "\\ud83dx",
        "\\\\ud800",
        "😀",
        "é",
        "e\u0301",
        "\\u0065\\u0301",
    ),
    *(
        "\u212b",
        "\u1112\u1161\u11ab",
        "\ufb01",
        "\u0958",
        "x" + "\u0316" * 30,
        "x" + "\u0316" * 31,
        "\u0301",
        "\u200d",
        "\u202e",
        "日本",
        " ",
        "  ",
    ),
    *("\x00", "\x01", "\n", "\t", "\\x41", "\\u12", "\\", '"', "\\u00e9", "/etc", "../", "legal_eval_v1"),
)
NAMES = (
    *(
        "record_id",
        "input",
        "prompt",
        "reference",
        "answer",
        "tags",
        "expected",
        "max_latency_ms",
        "required_criteria",
        "metadata",
        "id",
        "Prompt",
    ),
    *(
        "task_type",
        "rubric",
        "choices",
        "correct_choice_ids",
        "reference_answers",
        "messages",
        "attachments",
        "context",
        "weight",
        "policy_id",
    ),
    *(
        "turn_id",
        "speaker",
        "message",
        "assistant_reply",
        "tool_used",
        "tool_input",
        "tool_output",
        "confidence_score",
        "cases",
        "version",
    ),
    *("", " ", "a.b", "😀", "\ufb01", "é", "e\u0301", "__proto__", "0"),
)
WORDS = (
    "mcq",
    "rubric_qa",
    "reference_qa",
    "user",
    "assistant",
    "system",
    "accuracy",
    "clarity",
    "1.0",
    "A",
    "legal_eval_v1",
    "Clarity",
    "",
)
LENGTHS = (1, 2, 63, 64, 65, 127, 128, 129, 2000, 5000, 5001, 8192, 199_999, 200_000, 200_001)
TOKENS = (
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b'"',
    b"\\",
    b"\n",
    b"\r\n",
    b"\x00",
    b"\xff",
    b"\xef\xbb\xbf",
    b"\xed\xa0\x80",
    b"\\ud800",
    b"null",
    b"1e400",
)


def to_tree(value: Any) -> Any:
    """A JSON value as a tree."""
    if isinstance(value, dict):
        return Members((name, to_tree(member)) for name, member in value.items())
    return [to_tree(member) for member in value] if isinstance(value, list) else value


def mutant_of(value: Any, random: Random, *, most: int = 3) -> bytes:
    """The value after none to `most` mutations, written in some style."""
    tree = to_tree(value)
    for _ in range(random.randint(0, most)):
        tree = mutate(tree, random)
    return write(tree, random).encode("utf-8", "surrogatepass")


def mutate(tree: Any, random: Random) -> Any:
    """The tree with one change somewhere inside."""
    holders = _holders(tree)
    if not holders:
        return hostile_value(random)
    random.choice(_CHANGES)(random.choice(holders), random)
    return tree


def _holders(tree: Any) -> list[Any]:
    """Every container with something in it."""
    found: list[Any] = []
    open_nodes = [tree]
    while open_nodes:
        node = open_nodes.pop()
        if isinstance(node, list) and node:
            found.append(node)
            open_nodes += [member[1] for member in node] if isinstance(node, Members) else node
    return found


def _replace(holder: Any, random: Random) -> None:
    at = random.randrange(len(holder))
    value = hostile_value(random)
    holder[at] = (holder[at][0], value) if isinstance(holder, Members) else value


def _tweak_text(holder: Any, random: Random) -> None:
    """A text keeps its characters and gets a few more."""
    at = random.randrange(len(holder))
    old = holder[at][1] if isinstance(holder, Members) else holder[at]
    inner = json.dumps(old)[1:-1] if isinstance(old, str) else ""
    cut = random.randint(0, len(inner)) if "\\" not in inner else len(inner)
    value = Spelled(f'"{inner[:cut]}{hostile_text(random)}{inner[cut:]}"')
    holder[at] = (holder[at][0], value) if isinstance(holder, Members) else value


def _remove(holder: Any, random: Random) -> None:
    del holder[random.randrange(len(holder))]


def _repeat(holder: Any, random: Random) -> None:
    """The same name, or the same element, once more."""
    holder.insert(random.randint(0, len(holder)), random.choice(holder))


def _add(holder: Any, random: Random) -> None:
    value = hostile_value(random)
    holder.insert(random.randint(0, len(holder)), (hostile_name(random), value) if isinstance(holder, Members) else value)


def _rename(holder: Any, random: Random) -> None:
    at = random.randrange(len(holder))
    holder[at] = (hostile_name(random), holder[at][1]) if isinstance(holder, Members) else hostile_value(random)


def _nest(holder: Any, random: Random) -> None:
    at = random.randrange(len(holder))
    value = holder[at][1] if isinstance(holder, Members) else holder[at]
    for _ in range(random.choice((1, 2, 4, 5, 6, 250, 254, 300, 900))):
        value = Members([("k", value)]) if random.random() < 0.5 else [value]
    holder[at] = (holder[at][0], value) if isinstance(holder, Members) else value


_CHANGES = (_replace, _replace, _replace, _tweak_text, _tweak_text, _tweak_text, _remove, _repeat, _add, _add, _rename, _nest)


def hostile_text(random: Random) -> str:
    """The inside of a JSON string."""
    return "".join(random.choice(PIECES) for _ in range(random.randint(1, 3)))


def hostile_name(random: Random) -> str | Spelled:
    """A known name, an odd one, or a known one in an odd spelling."""
    name = random.choice(NAMES)
    kind = random.randrange(4)
    if kind == 0:
        return Spelled(f'"{hostile_text(random)}"')
    if kind == 1:
        return Spelled('"' + "".join(f"\\u{ord(character):04x}" if character < "\ud800" else character for character in name) + '"')
    return name


def hostile_value(random: Random) -> Any:
    """A value of any type, often just beyond a limit."""
    kind = random.randrange(6)
    if kind == 0:
        return [hostile_leaf(random) for _ in range(random.choice((0, 1, 2, 33)))]
    if kind == 1:
        return Members((hostile_name(random), hostile_leaf(random)) for _ in range(random.randint(0, 3)))
    return hostile_leaf(random)


def hostile_leaf(random: Random) -> Any:
    """A value with nothing inside."""
    kind = random.randrange(6)
    if kind < 2:
        return Spelled(random.choice(NUMBERS))
    if kind == 2:
        return Spelled(f'"{hostile_text(random)}"')
    if kind == 3:
        return random.choice(("x", "é", " ")) * random.choice(LENGTHS)
    return random.choice((*WORDS, None, True, False, 0, 1, -1, 7, 0.5, "text", [], Members()))


def write(tree: Any, random: Random) -> str:
    """The tree as JSON text, compact or loose, with or without escapes."""
    is_loose, is_escaped = random.random() < 0.3, random.random() < 0.3
    parts: list[str] = []
    # A stack instead of recursion: trees are as deep as the readers refuse.
    stack: list[Any] = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, Spelled):
            parts.append(node.text)
        elif isinstance(node, list):
            stack += reversed(_layout(node, random.choice(("", " ", "\n", "\r\n\t")) if is_loose else ""))
        else:
            parts.append(json.dumps(node, ensure_ascii=is_escaped))
    return "".join(parts)


def _layout(node: list[Any], space: str) -> list[Any]:
    """What stands between the brackets, and the brackets."""
    opening, closing = "{}" if isinstance(node, Members) else "[]"
    laid: list[Any] = [Spelled(opening)]
    for position, member in enumerate(node):
        laid.append(Spelled(("," if position else "") + space))
        laid += [member[0], Spelled(":" + space), member[1]] if isinstance(node, Members) else [member]
    return [*laid, Spelled(space + closing)]


def damaged(content: bytes, random: Random) -> bytes:
    """The bytes after a few cuts, flips, repeats and insertions."""
    piece = bytearray(content)
    for _ in range(random.randint(1, 4)):
        random.choice(_DAMAGES)(piece, random)
    return bytes(piece)


def _span(piece: bytearray, random: Random) -> slice:
    start = random.randint(0, len(piece))
    return slice(start, min(len(piece), start + random.choice((1, 1, 2, 8, 64))))


def _flip(piece: bytearray, random: Random) -> None:
    span = _span(piece, random)
    piece[span] = bytes(random.randrange(256) for _ in piece[span])


def _cut(piece: bytearray, random: Random) -> None:
    del piece[_span(piece, random)]


def _insert(piece: bytearray, random: Random) -> None:
    at = random.randint(0, len(piece))
    piece[at:at] = random.choice(TOKENS) * random.choice((1, 1, 1, 2, 30, 300))


def _insert_spelled(piece: bytearray, random: Random) -> None:
    at = random.randint(0, len(piece))
    piece[at:at] = random.choice((*NUMBERS, *PIECES)).encode("utf-8", "surrogatepass")


def _copy(piece: bytearray, random: Random) -> None:
    at = random.randint(0, len(piece))
    piece[at:at] = piece[_span(piece, random)]


def _truncate(piece: bytearray, random: Random) -> None:
    del piece[random.randint(0, len(piece)) :]


_DAMAGES = (_flip, _flip, _cut, _cut, _insert, _insert, _insert_spelled, _copy, _truncate)
