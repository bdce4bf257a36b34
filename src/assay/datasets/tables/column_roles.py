"""What each column of a table is: as the user says, or by common names and the values of the first rows."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from assay.core.errors import UsageProblem
from assay.core.settings import NO_COLUMN, ColumnSection
from assay.datasets.parsing.checks import nearest
from assay.datasets.tables import column_names as names
from assay.datasets.tables.cell_values import (
    AnswerKey,
    ChoiceText,
    UnfitCell,
    are_messages,
    cell,
    choices_of,
    correct_choices,
    kind_of,
    object_in,
    text_of,
)
from assay.datasets.tables.column_names import folded, is_qualified
from assay.datasets.tables.known_layouts import layout_of
from assay.datasets.tables.table_rows import is_blank

MAX_NAMED = 20
"""Columns that a message lists."""
_FEW_VALUES = 10
"""Rows from which a column with few different values describes them."""
_INPUTS = frozenset(("input", "inputs", "question", "vars"))
_OUTPUTS = frozenset(("output", "outputs", "expectations", "expected", "expected_output", "expected_outputs", "reference_outputs"))
_CONTAINERS = _INPUTS | _OUTPUTS | frozenset(("example", "row", "fields", "values"))
"""Folded names of columns whose objects have the columns of a row inside: of the question, of what is expected, or of both."""
_ASKED = frozenset(("prompt", "messages", "context", "choices", "id"))
"""Roles that belong to the question."""
_OF_A_MODEL = frozenset(("generator", "model", "model_name", "model_id", "llm", "model_version", "candidate"))
"""Folded names of columns that name the model whose answers a table holds."""


_ABOUT = re.compile(
    r"(?:^|_)(?:ids?|scores?|urls?|links?|dates?|time|at|by|types?|category|categories|level|names?|number|no|count|flag|code|tags?|source"
    r"|sources|lang|language|file|path|page|pages|model|version|hash|status|index|email)$"
)
"""End of a folded name that says something about a row and is no answer."""


class ColumnsUnclear(UsageProblem):
    """Columns that do not say what they are, or say two things; the user has to name one."""

    def __init__(self, message: str, *, role: str, options: Sequence[str] = (), has_none: bool = False) -> None:
        super().__init__(message, hint=how_to_name(role, options, has_none=has_none))
        self.role = role
        """Role that is unclear, as the key of a run file."""
        self.options = tuple(options)
        """Columns that may be it; empty where any may be."""
        self.has_none = has_none
        """True if no column may be it, too."""


def how_to_name(role: str, options: Sequence[str] = (), *, has_none: bool = False) -> str:
    """Return the options that settle a role."""
    option = f"--{role.replace('_', '-')}"
    value = "NAME" if role == "sheet" else "COL"
    named = [f"{option} {_quoted(column)}" for column in options] if 0 < len(options) <= 3 else [f"{option} {value}"]
    return "name it: " + " or ".join([*named, *([f"{option} {NO_COLUMN} for none"] if has_none else [])])


def _quoted(column: str) -> str:
    return column if re.fullmatch(r"[\w.-]+", column) else f'"{column}"'


class FoundColumns(NamedTuple):
    """Columns by their roles, and what they were recognised by."""

    columns: ColumnSection
    layout: str = ""
    """Known layout of the columns, such as `Alpaca`."""
    evidence: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    """What the user may not expect of the columns."""


class ColumnSample:
    """Columns of a table with the values of its first rows."""

    def __init__(self, columns: Sequence[str], rows: Sequence[Mapping[str, object]]) -> None:
        self.names = tuple(columns)
        self.rows = tuple(rows)

    def values(self, column: str) -> list[Any]:
        """Return the cells of a column that are not blank."""
        return [value for row in self.rows if not is_blank(value := cell(row, column))]

    def members(self, column: str) -> list[str]:
        """Return the members of the objects in a column; none unless all its cells are objects."""
        found: dict[str, None] = {}
        for value in self.values(column):
            members = object_in(value)
            if members is None:
                return []
            found |= dict.fromkeys(map(str, members))
        return list(found)

    def has_column(self, column: str) -> bool:
        """Return whether a column, or a path into the objects of one, exists."""
        return column in self.names or bool(self.values(column))


def listed(columns: Sequence[str]) -> str:
    """List columns for a message."""
    more = len(columns) - MAX_NAMED
    return ", ".join(map(repr, columns[:MAX_NAMED])) + (f" and {more} more" if more > 0 else "")


def find_columns(sample: ColumnSample, given: ColumnSection) -> FoundColumns:
    """Find the column of each role: the named ones, and others by common names; raises ColumnsUnclear."""
    search = _ColumnSearch(sample, _stated(sample, given))
    search.run()
    return search.result(given)


def _stated(sample: ColumnSample, given: ColumnSection) -> dict[str, Any]:
    """Return the columns that the user named, as the table writes them; raises ColumnsUnclear for one that it has not."""
    stated: dict[str, Any] = {}
    for role, value in msgspec.structs.asdict(given).items():
        if value in ("", (), None):
            continue
        if isinstance(value, str) and role not in ("choices", "metadata", "context"):
            stated[role] = value if value == NO_COLUMN else _column(sample, value, role)
        elif isinstance(value, int):
            stated[role] = value
        else:
            found = (value,) if isinstance(value, str) else tuple(value)
            if len(found) == 1 and not sample.has_column(found[0]) and "," in found[0]:
                # One option with several names, unless a column is really called so.
                found = tuple(part.strip() for part in found[0].split(",") if part.strip())
            stated[role] = found if found == (NO_COLUMN,) else tuple(_column(sample, name, role) for name in found)
    return stated


def _column(sample: ColumnSample, name: str, role: str) -> str:
    if sample.has_column(name):
        return name
    alike = [column for column in sample.names if folded(column) == folded(name)]
    if len(alike) == 1:
        return alike[0]
    guess = nearest(name, sample.names)
    raise ColumnsUnclear(
        f"there is no column {name!r}{f' ({guess})' if guess else ''}; the columns are {listed(sample.names)}", role=role
    )


class _ColumnSearch:
    """Search of columns by their names and values, which fills the roles one after the other."""

    def __init__(self, sample: ColumnSample, stated: dict[str, Any]) -> None:
        self._sample = sample
        self._roles = stated
        self._is_stated = frozenset(stated)
        self._evidence: list[str] = []
        self._remarks: list[str] = []
        # A member of an object is a column too; those of an object inside it only where the user names them.
        self._members = {
            column: sample.members(column) for column in sample.names if folded(column) in _CONTAINERS and sample.members(column)
        }
        self._columns = list(self._all_columns())

    def _all_columns(self) -> Iterator[str]:
        for column in self._sample.names:
            if column in self._members:
                yield from (f"{column}.{member}" for member in self._members[column])
            else:
                yield column

    def run(self) -> None:
        """Find the column of each role."""
        self._refuse_assertions()
        self._find_instruction()
        self._find_question()
        self._find_grading()
        if not self._find("context", names.CONTEXTS):
            self._take_rest_of_input()
        self._find_id()
        self._check_reference()

    def result(self, given: ColumnSection) -> FoundColumns:
        """Return what was found."""
        roles = {role: value for role, value in self._roles.items() if value not in (NO_COLUMN, (NO_COLUMN,))}
        if isinstance(roles.get("context"), str):
            roles["context"] = (roles["context"],)
        # A layout is claimed for columns that were found, and not for those that the user named.
        layout = "" if given != ColumnSection() else layout_of(self._columns, self._sample.names, roles)
        return FoundColumns(ColumnSection(**roles), layout, tuple(self._evidence), tuple(self._remarks))

    # Questions

    def _refuse_assertions(self) -> None:
        if any(column.startswith("__expected") for column in self._sample.names) and "prompt" not in self._roles:
            raise ColumnsUnclear(
                "the column '__expected' holds assertions of promptfoo, so that its config should be imported (assay import)",
                role="prompt",
            )

    def _find_instruction(self) -> None:
        """Take `instruction` with `input` for a question with its text, as Alpaca has them."""
        by_name = {folded(column): column for column in self._columns}
        if "prompt" in self._roles or "instruction" not in by_name:
            return
        answer = next((by_name[name] for name in ("output", "response") if name in by_name), None)
        if answer is None or any(level & by_name.keys() for level in names.PROMPTS[:1]):
            return
        self._set("prompt", by_name["instruction"])
        if "input" in by_name and "context" not in self._roles:
            self._set("context", by_name["input"])
        if "reference" not in self._roles and not _OF_A_MODEL & by_name.keys() and not names.REFERENCES[0] & by_name.keys():
            self._set("reference", answer)

    def _find_question(self) -> None:
        """Find the column with the question, or with a conversation."""
        if "prompt" in self._roles or "messages" in self._roles:
            return
        found = self._find("prompt", names.PROMPTS[:1]) or self._find("prompt", names.PROMPTS[:1], is_qualified_too=True)
        if not found and self._find("messages", names.MESSAGES):
            found = True
        # A column of the right name whose cells are all empty is the question of rows that have none.
        if (
            not found
            and not self._find("prompt", names.PROMPTS[1:])
            and not self._find("prompt", names.PROMPTS[:1], may_be_empty=True)
        ):
            raise self._no_question()
        prompt = self._roles.get("prompt")
        if prompt is not None and are_all(self._sample.values(prompt), are_messages):
            # A chat as the input, as of OpenAI Evals and Inspect.
            self._roles["messages"] = self._roles.pop("prompt")

    def _no_question(self) -> ColumnsUnclear:
        columns = self._columns
        # Without a header the first row of data is taken for one.
        like_data = next((column for column in columns if len(column) > 60 or column.rstrip().endswith("?")), None)
        if like_data is not None:
            shown = like_data if len(like_data) <= 60 else f"{like_data[:60]}…"
            return ColumnsUnclear(
                f"the first row must name the columns, and {shown!r} looks like data: add a header", role="prompt"
            )
        unfit = [
            column for column in columns if any(folded(column) in level for level in names.PROMPTS) and self._sample.values(column)
        ]
        if unfit:
            kind = kind_of(self._sample.values(unfit[0])[0])
            return ColumnsUnclear(f"the column {unfit[0]!r} holds {kind} in its cells, which cannot be sent as text", role="prompt")
        return ColumnsUnclear(f"no column is known to hold the questions; the columns are {listed(columns)}", role="prompt")

    # Grading

    def _find_grading(self) -> None:
        """Find what an answer is graded by: choices with their key, a rubric, references."""
        if self._is_open("choices") and (self._find_choice_columns() or self._find("choices", names.CHOICES)):
            value = self._roles["choices"]
            self._roles["choices"] = (value,) if isinstance(value, str) else value
        if self._roles.get("choices", (NO_COLUMN,)) != (NO_COLUMN,):
            if self._is_open("answer") and not self._find("answer", names.ANSWER_KEYS):
                raise ColumnsUnclear(
                    f"the choices are in {listed(self._roles['choices'])}, but no column is known to say which of them is correct",
                    role="answer",
                    options=self._free(),
                )
            self._find_first_choice()
            return
        self._refuse_wrong_answers()
        self._find("rubric", names.RUBRICS)
        levels = names.REFERENCES[:2] if self._has_models() else names.REFERENCES
        if folded(self._roles.get("prompt", "")) == "q":
            # A column `A` is a reference next to `Q` alone; next to `B` it is a choice.
            levels = (levels[0], levels[1] | {"a"}, *levels[2:])
        found = self._find("reference", levels[:2]) or self._find("reference", levels[:2], is_qualified_too=True)
        if not found and not self._find("reference", levels[2:]):
            self._take_whole_output()

    def _take_whole_output(self) -> None:
        """Take the objects of a column with what is expected as they are, where none of their members is known."""
        known = _OUTPUTS & (names.REFERENCES[0] | {"outputs"})
        whole = [column for column in self._members if folded(column) in known]
        if "reference" not in self._roles and "rubric" not in self._roles and len(whole) == 1:
            self._roles["reference"] = whole[0]
            self._evidence.append(f"reference: column {whole[0]!r}, objects as JSON")

    def _has_models(self) -> bool:
        """Return whether a column names models, so that answers next to it are theirs."""
        return any(folded(column) in _OF_A_MODEL for column in self._columns)

    def _find_choice_columns(self) -> bool:
        families: dict[str, list[tuple[str, str]]] = {}
        for column in self._free():
            match = names.FAMILY.fullmatch(folded(column))
            if match and self._sample.values(column):
                families.setdefault(match["word"] or "", []).append((match["sign"], column))
        has_key = "answer" in self._roles or any(folded(name) in level for level in names.ANSWER_KEYS for name in self._free())
        for word, members in families.items():
            # Two columns called A and B are not enough of a sign by themselves.
            if has_key and _is_sequence([sign for sign, _ in members]) and len(members) >= (2 if word else 3):
                self._roles["choices"] = tuple(column for _, column in members)
                self._evidence.append(f"choices: columns {listed(self._roles['choices'])}")
                return True
        return False

    def _refuse_wrong_answers(self) -> None:
        """Ask where right and wrong answers have columns of their own: they may be choices, or the right one a reference."""
        wrong = [column for column in self._free() if names.WRONG_ANSWER.fullmatch(folded(column)) and self._sample.values(column)]
        if not wrong or "reference" in self._roles or "rubric" in self._roles:
            return
        known = names.ANSWER_KEYS[0] | names.REFERENCES[0]
        right = [column for column in self._free() if re.sub(r"_[0-9]+$", "", folded(column)) in known]
        if right:
            choices = " ".join(f"--choices {_quoted(column)}" for column in (right[0], *wrong))
            raise ColumnsUnclear(
                f"{right[0]!r} may be a reference answer, or with {listed(wrong)} one of several choices"
                f" ({choices} --answer {_quoted(right[0])})",
                role="reference",
                options=right,
            )

    def _find_first_choice(self) -> None:
        """Find the number of the first choice where the key is a number; raises ColumnsUnclear where it may be 0 or 1."""
        if "first_choice" in self._roles:
            return
        readings: dict[int | None, list[list[int]] | None] = {}
        for first in (None, 0, 1):
            readings[first] = self._read_keys(AnswerKey(self._roles["answer"], first))
        if not self._has_numbers():
            return
        fitting = {first: read for first, read in readings.items() if read is not None}
        different = {repr(read) for read in fitting.values()}
        if len(different) > 1:
            ways = {None: "the text of a choice", 0: "its number from 0", 1: "its number from 1"}
            raise ColumnsUnclear(
                f"the column {self._roles['answer']!r} may be {' or '.join(ways[first] for first in fitting)}",
                role="first_choice",
                options=[str(first) for first in fitting if first is not None],
                has_none=None in fitting,
            )
        first = next((first for first in fitting), None)
        if first is not None:
            self._roles["first_choice"] = first
            self._evidence.append(f"answer: numbers that count from {first}")

    def _has_numbers(self) -> bool:
        return are_all(self._sample.values(self._roles["answer"]), _is_number)

    def _read_keys(self, key: AnswerKey) -> list[list[int]] | None:
        """Return the correct positions in the sample; None where one key does not fit."""
        read: list[list[int]] = []
        for row in self._sample.rows:
            try:
                choices = choices_in(row, self._roles["choices"])
                value = cell(row, key.column)
                if choices and not is_blank(value):
                    read.append(correct_choices(value, choices, key))
            except UnfitCell:
                return None
        return read

    def _check_reference(self) -> None:
        """Ask where a column without a known name may hold the answers to compare with."""
        if any(self._roles.get(role) for role in ("reference", "rubric", "choices")) or "messages" in self._roles:
            return
        prompt = self._roles["prompt"]
        if "prompt" not in self._is_stated and "reference" not in self._is_stated and not is_clear_question(prompt):
            raise ColumnsUnclear(
                f"{prompt!r} may hold questions, and nothing else shows that this is a table of questions",
                role="prompt",
                options=[prompt],
            )
        free = self._free()
        recorded = [column for column in free if folded(column) in names.RECORDED_ANSWERS | names.REFERENCES[2]]
        if recorded and are_all([self._sample.values(column) for column in recorded], bool):
            raise ColumnsUnclear(
                f"{listed(recorded)} may hold reference answers, or answers of a model that are not to be compared with",
                role="reference",
                options=recorded,
                has_none=True,
            )
        unknown = [column for column in free if self._may_answer(column)]
        if unknown and "prompt" not in self._is_stated:
            raise ColumnsUnclear(
                f"no column is known to hold reference answers, and {listed(unknown)} may",
                role="reference",
                options=unknown,
                has_none=True,
            )
        if unknown:
            self._remarks.append(f"no reference answers: none of {listed(unknown)} is known to hold them")

    def _may_answer(self, column: str) -> bool:
        """Return whether a column of no known name may hold answers: texts, most of them different."""
        values = self._sample.values(column)
        known = names.DESCRIPTIONS | names.IDS[0] | names.RECORDED_ANSWERS
        last = folded(column.rpartition(".")[2])
        if last in known or is_qualified(last, names.DESCRIPTIONS) or _ABOUT.search(last):
            return False
        texts = [value for value in values if isinstance(value, str) and not _is_number(value)]
        if not texts or len(texts) < len(values) / 2:
            return False
        return not (len(values) >= _FEW_VALUES and len(set(texts)) <= max(2, len(values) // 5))

    # Other roles

    def _take_rest_of_input(self) -> None:
        """Take the other members of an object with the question for its context: they belong to it."""
        prompt = self._roles.get("prompt", "")
        container, _, _ = prompt.rpartition(".")
        if "context" in self._roles or folded(container) not in ("input", "inputs", "vars") or container not in self._members:
            return
        used = self._used()
        # Whatever says what is expected stays with the judge, wherever it stands.
        hidden = frozenset().union(*names.REFERENCES, *names.RUBRICS, *names.ANSWER_KEYS, names.RECORDED_ANSWERS)
        members = [member for member in self._members[container] if folded(member) not in hidden]
        rest = tuple(name for member in members if (name := f"{container}.{member}") not in used)
        if rest:
            self._roles["context"] = rest
            self._evidence.append(f"context: the other members of {container!r}")

    def _find_id(self) -> None:
        """Find a column of ids; one that repeats values numbers something else."""
        if "id" in self._roles or not self._find("id", names.IDS):
            return
        values = self._sample.values(self._roles["id"])
        texts = [str(value) for value in values if isinstance(value, str | int | float) and not isinstance(value, bool)]
        if len(texts) < len(self._sample.rows) or len(set(texts)) < len(texts):
            del self._roles["id"]
            self._evidence.pop()

    def _find(
        self, role: str, levels: Sequence[frozenset[str]], *, may_be_empty: bool = False, is_qualified_too: bool = False
    ) -> bool:
        """Find the column of a role by its name; raises ColumnsUnclear where two have one of the best names."""
        if not self._is_open(role):
            return bool(self._roles[role] != NO_COLUMN)
        for level in levels:
            found = [column for column in self._free() if self._is_called(column, role, level, is_qualified_too=is_qualified_too)]
            found = [column for column in found if may_be_empty or self._fits(column, role)]
            if not found:
                continue
            if len(found) > 1 and role != "id" and not self._are_equal(found):
                raise ColumnsUnclear(f"{listed(found)} may all be the column of the {role}", role=role, options=found)
            self._set(role, found[0])
            return True
        return False

    def _is_called(self, column: str, role: str, level: frozenset[str], *, is_qualified_too: bool) -> bool:
        container, _, member = column.rpartition(".")
        if container not in self._members:
            name = folded(column)
            return name in level or (is_qualified_too and name not in names.RECORDED_ANSWERS and is_qualified(name, level))
        # The object says on which side its members are, so that one member needs no name that says it too.
        side = folded(container)
        if (side in _OUTPUTS and role in _ASKED) or (side in _INPUTS and role not in _ASKED):
            return False
        is_alone = len(self._members[container]) == 1 and side in _INPUTS | _OUTPUTS and role in ("prompt", "reference")
        return folded(member) in level or is_alone

    def _fits(self, column: str, role: str) -> bool:
        """Return whether most cells of a column can be what the role needs."""
        values = self._sample.values(column)
        if role == "prompt":
            fitting = [
                value for value in values if isinstance(value, str | int | float) or is_one_text(value) or are_messages(value)
            ]
        elif role == "reference":
            fitting = [value for value in values if not isinstance(value, list) or all(not isinstance(one, list) for one in value)]
        else:
            return bool(values)
        return bool(values) and 2 * len(fitting) >= len(values)

    def _set(self, role: str, column: str) -> None:
        self._roles[role] = column
        self._evidence.append(f"{role}: column {column!r}")

    def _is_open(self, role: str) -> bool:
        return role not in self._roles

    def _used(self) -> set[str]:
        values = [value for value in self._roles.values() if not isinstance(value, int)]
        return {column for value in values for column in ((value,) if isinstance(value, str) else value)}

    def _free(self) -> list[str]:
        used = self._used()
        return [column for column in self._columns if column not in used]

    def _are_equal(self, columns: Sequence[str]) -> bool:
        """Return whether several columns say the same in all rows of the sample."""
        return all(len({repr(cell(row, column)) for column in columns}) == 1 for row in self._sample.rows)


def is_clear_question(column: str) -> bool:
    """Return whether a column has a name that means a question in any table."""
    name = folded(column.rpartition(".")[2])
    return name in names.PROMPTS[0] or is_qualified(name, names.PROMPTS[0])


def is_one_text(value: object) -> bool:
    """Return whether a value is a list of one text."""
    return isinstance(value, list) and len(value) == 1 and isinstance(value[0], str)


def choices_in(row: Mapping[str, object], columns: Sequence[str]) -> list[Any]:
    """Return the choices of a row, from one column with a list or from a column for each."""
    if len(columns) == 1:
        return list(choices_of(cell(row, columns[0]), columns[0]))
    return [ChoiceText(text_of(value, column)) for column in columns if not is_blank(value := cell(row, column))]


def are_all(values: Sequence[Any], check: Callable[[Any], object]) -> bool:
    """Return whether there are values and each of them passes a check."""
    return len(values) > 0 and all(map(check, values))


def _is_number(value: object) -> bool:
    if isinstance(value, str):
        return re.fullmatch(r"\s*[-+]?[0-9]+(?:\.[0-9]+)?\s*", value) is not None
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_sequence(signs: Sequence[str]) -> bool:
    """Return whether signs count on from a, 0 or 1 without a gap."""
    if all(re.fullmatch("[a-j]", sign) for sign in signs):
        return [ord(sign) - ord("a") for sign in signs] == list(range(len(signs)))
    numbers = [int(sign) for sign in signs if sign.isdigit()]
    return len(numbers) == len(signs) and numbers in (list(range(len(signs))), list(range(1, len(signs) + 1)))
