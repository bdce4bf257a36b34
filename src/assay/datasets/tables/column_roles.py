"""What each column of a table is: as the user says, or by common names and the values of the first rows."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from assay.core.errors import UsageProblem
from assay.core.settings import ColumnSection
from assay.datasets.parsing.checks import nearest
from assay.datasets.tables import column_names as names
from assay.datasets.tables.column_names import folded
from assay.datasets.tables.table_rows import is_blank

ROLES = ("prompt", "messages", "context", "rubric", "reference", "choices", "answer", "id")
"""Roles of columns that a search by name fills; `metadata` takes the others."""
MAX_NAMED = 20
"""Columns that a message lists."""


class ColumnsUnclear(UsageProblem):
    """Columns that do not say what they are, or say two things; the user has to name one."""

    def __init__(self, message: str, *, hint: str, role: str = "prompt", options: Sequence[str] = ()) -> None:
        super().__init__(message, hint=hint)
        self.role = role
        """Role that is unclear."""
        self.options = tuple(options)
        """Columns that may be it; empty where any may be."""


class FoundColumns(NamedTuple):
    """Columns by their roles, and what they were recognised by."""

    columns: ColumnSection
    evidence: tuple[str, ...] = ()


class ColumnSample(NamedTuple):
    """Columns of a table with the values of its first rows."""

    names: tuple[str, ...]
    rows: tuple[Mapping[str, object], ...]

    def values(self, column: str) -> list[Any]:
        """Return the cells of a column that are not blank."""
        return [value for row in self.rows if not is_blank(value := cell(row, column))]


def cell(row: Mapping[str, object], column: str) -> Any:
    """Return a cell of a row; `inputs.question` leads into an object unless a column has that very name."""
    if column in row:
        return row[column]
    head, _, rest = column.partition(".")
    while rest:
        inner = row.get(head)
        if isinstance(inner, Mapping):
            return cell(inner, rest)
        more, _, rest = rest.partition(".")
        head = f"{head}.{more}"
    return None


def find_columns(sample: ColumnSample, given: ColumnSection) -> FoundColumns:
    """Find the column of each role: the named ones, and others by common names; raises ColumnsUnclear."""
    stated = _stated(sample, given)
    roles: dict[str, Any] = {name: value for name, value in msgspec.structs.asdict(stated).items() if value}
    evidence: list[str] = []
    search = _NameSearch(sample, roles, evidence)
    search.find_question()
    search.find_grading()
    # An empty text as the id says that no column is one.
    for role, levels in (("context", names.CONTEXTS), ("id", names.IDS)):
        search.find(role, levels)
    search.check_id(is_stated=bool(stated.id))
    return FoundColumns(ColumnSection(**roles), tuple(evidence))


def _stated(sample: ColumnSample, given: ColumnSection) -> ColumnSection:
    """Return the columns that the user named, as the table writes them; raises ColumnsUnclear for one that it has not."""
    stated: dict[str, Any] = {}
    for role, value in msgspec.structs.asdict(given).items():
        if isinstance(value, str) and role not in ("choices", "metadata"):
            stated[role] = _column(sample, value, role) if value else ""
            continue
        listed = (value,) if isinstance(value, str) else tuple(value)
        if len(listed) == 1 and listed[0] not in sample.names and "," in listed[0]:
            # One option with several names, unless a column is really called so.
            listed = tuple(part.strip() for part in listed[0].split(",") if part.strip())
        stated[role] = tuple(_column(sample, name, role) for name in listed)
    return ColumnSection(**stated)


def _column(sample: ColumnSample, name: str, role: str) -> str:
    if name in sample.names or sample.values(name):
        return name
    alike = [column for column in sample.names if folded(column) == folded(name)]
    if len(alike) == 1:
        return alike[0]
    raise ColumnsUnclear(
        f"there is no column {name!r}; the columns are {listed(sample.names)}",
        hint=nearest(name, sample.names) or f"name one of them: --{role} COL",
        role=role,
        options=sample.names,
    )


def listed(columns: Sequence[str]) -> str:
    """List columns for a message."""
    more = len(columns) - MAX_NAMED
    return ", ".join(map(repr, columns[:MAX_NAMED])) + (f" and {more} more" if more > 0 else "")


class _NameSearch:
    """Search of columns by their names, which adds to the roles and to the evidence."""

    def __init__(self, sample: ColumnSample, roles: dict[str, Any], evidence: list[str]) -> None:
        self._sample = sample
        self._roles = roles
        self._evidence = evidence
        self._by_name: dict[str, list[str]] = {}
        for column in sample.names:
            self._by_name.setdefault(folded(column), []).append(column)

    def find_question(self) -> None:
        """Find the column with the question, or with a conversation."""
        if "prompt" in self._roles or "messages" in self._roles:
            return
        found = self.find("prompt", names.PROMPTS) or self.find("messages", names.MESSAGES)
        if not found and not self.find("prompt", names.PROMPTS[:1], may_be_empty=True):
            raise ColumnsUnclear(
                f"no column is known to hold the questions; the columns are {listed(self._sample.names)}",
                hint="name it: --prompt COL (and --reference COL for the expected answers)",
                options=self._sample.names,
            )

    def find_grading(self) -> None:
        """Find what an answer is graded by: choices with their key, a rubric, references."""
        if "choices" in self._roles or self._find_choices():
            if not self.find("answer", names.ANSWER_KEYS):
                raise ColumnsUnclear(
                    f"the choices are in {listed(self._roles['choices'])}, but no column is known to say which of them is correct",
                    hint="name it: --answer COL",
                    role="answer",
                    options=self._free(),
                )
            return
        self.find("rubric", names.RUBRICS)
        self.find("reference", names.REFERENCES)

    def find(self, role: str, levels: Sequence[frozenset[str]], *, may_be_empty: bool = False) -> bool:
        """Find the column of a role by its name; raises ColumnsUnclear where two have one of the best names."""
        if role in self._roles:
            return True
        for level in levels:
            found = [column for column in self._free() if folded(column) in level and (may_be_empty or self._sample.values(column))]
            if not found:
                continue
            if len(found) > 1 and role != "id" and not self._are_equal(found):
                raise ColumnsUnclear(
                    f"{listed(found)} may all be the {role} column", hint=f"name one: --{role} COL", role=role, options=found
                )
            self._roles[role] = found[0]
            self._evidence.append(f"{role}: column {found[0]!r}")
            return True
        return False

    def check_id(self, *, is_stated: bool) -> None:
        """Drop a column of ids that was found by its name but repeats values: it numbers something else."""
        column = self._roles.get("id")
        if column is None or is_stated:
            return
        values = self._sample.values(column)
        texts = [value for value in values if isinstance(value, str | int) and not isinstance(value, bool)]
        if len(texts) < len(self._sample.rows) or len({str(value) for value in texts}) < len(texts):
            del self._roles["id"]
            self._evidence = [found for found in self._evidence if not found.startswith("id:")]

    def _free(self) -> list[str]:
        used = {column for value in self._roles.values() for column in ((value,) if isinstance(value, str) else value)}
        return [column for column in self._sample.names if column not in used]

    def _are_equal(self, columns: Sequence[str]) -> bool:
        """Return whether several columns say the same in all rows of the sample."""
        return all(len({repr(cell(row, column)) for column in columns}) == 1 for row in self._sample.rows)

    def _find_choices(self) -> bool:
        families: dict[str, list[tuple[str, str]]] = {}
        for column in self._free():
            match = names.FAMILY.fullmatch(folded(column))
            if match:
                families.setdefault(match["word"] or "", []).append((match["sign"], column))
        for word, members in families.items():
            signs = [sign for sign, _ in members]
            # Two columns called A and B are not enough of a sign by themselves.
            if _is_sequence(signs) and len(members) >= (2 if word else 3) and self._has_key():
                self._roles["choices"] = tuple(column for _, column in members)
                self._evidence.append(f"choices: columns {listed(self._roles['choices'])}")
                return True
        if not self.find("choices", names.CHOICES):
            return False
        self._roles["choices"] = (self._roles["choices"],)
        return True

    def _has_key(self) -> bool:
        """Return whether some column may say which choice is correct."""
        return any(folded(column) in level for level in names.ANSWER_KEYS for column in self._free())


def _is_sequence(signs: Sequence[str]) -> bool:
    """Return whether signs count on from a, 0 or 1 without a gap."""
    if all(re.fullmatch("[a-j]", sign) for sign in signs):
        return [ord(sign) - ord("a") for sign in signs] == list(range(len(signs)))
    numbers = [int(sign) for sign in signs if sign.isdigit()]
    return len(numbers) == len(signs) and numbers in (list(range(len(signs))), list(range(1, len(signs) + 1)))
