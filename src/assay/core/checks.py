"""Checks of answers that no model is called for, as run files and `metadata.checks` of records hold them; and their results."""

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from assay.core.exposure import described

Measure = Literal["edit", "token_f1", "rouge_l", "bleu"]
LengthUnit = Literal["characters", "words"]
MAX_CHECKS = 200
"""Checks of a run, and different names that the checks of its records may have; each is a metric."""
MAX_PATTERN = 10_000
"""Characters of a regular expression."""
RECORD_CHECKS = "checks"
"""Member of a record's metadata that holds checks for this record alone."""

CheckName = Annotated[
    str, Meta(pattern=r"^[^\x00-\x1f\x7f]{0,100}$", title="a text of up to 100 characters without control characters")
]
_Text = Annotated[str, Meta(min_length=1)]
_Share = Annotated[float, Meta(ge=0, le=1)]
_NotNegative = Annotated[float, Meta(ge=0)]
_Texts = Annotated[tuple[_Text, ...], Meta(min_length=1)]
_IGNORES_CASE = described("Whether `A` and `a` are the same.")
_VALUE = "Default: the record's references, of which one is enough."


# Without `forbid_unknown_fields`, because plans hold checks, and a plan of a later version must stay readable.
class _Check(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type"):
    """What all checks have."""

    name: Annotated[CheckName, described("Name of the check, and of its metric. Default: its type.")] = ""
    weight: Annotated[
        _NotNegative, described("Weight in the score and in `pass: {at_least: ...}`; 0 reports a check that decides nothing.")
    ] = 1.0
    expected: Annotated[bool, described("`false` reverses the check: it passes where it would not.")] = True

    uses_references: ClassVar[bool] = False
    """Compares the answer with the record's references unless it has a value."""

    @property
    def type(self) -> str:
        """Return the type as run files name it."""
        return str(self.__struct_config__.tag)

    @property
    def title(self) -> str:
        """Return the name, or else the type."""
        return self.name or self.type

    @property
    def needs_references(self) -> bool:
        """Return whether the check has nothing to compare an answer with but the references of its record."""
        return self.uses_references and getattr(self, "value", UNSET) is UNSET


class EqualsCheck(_Check, frozen=True, kw_only=True, tag="equals"):
    """The answer is exactly the value; spaces and line breaks around it do not count."""

    uses_references = True
    value: Annotated[
        Any, described(f"Expected answer; one that is not a text is compared with the answer read as JSON. {_VALUE}")
    ] = UNSET
    ignore_case: Annotated[bool, _IGNORES_CASE] = False


class ContainsCheck(_Check, frozen=True, kw_only=True, tag="contains"):
    """The answer contains texts: any of them, all of them, none of them."""

    uses_references = True
    value: Annotated[_Text | UnsetType, described("One text that the answer contains.")] = UNSET
    any: Annotated[_Texts | UnsetType, described(f"Texts of which the answer contains at least one. {_VALUE}")] = UNSET
    all: Annotated[_Texts | UnsetType, described("Texts that the answer contains.")] = UNSET
    none: Annotated[_Texts | UnsetType, described("Texts that the answer does not contain.")] = UNSET
    ignore_case: Annotated[bool, _IGNORES_CASE] = False

    @property
    def needs_references(self) -> bool:
        """Return whether no text is named."""
        return all_unset(self.value, self.any, self.all, self.none)


class StartsWithCheck(_Check, frozen=True, kw_only=True, tag="starts-with"):
    """The answer starts with the value."""

    uses_references = True
    value: Annotated[_Text | UnsetType, described(f"Beginning of the answer. {_VALUE}")] = UNSET
    ignore_case: Annotated[bool, _IGNORES_CASE] = False


class EndsWithCheck(_Check, frozen=True, kw_only=True, tag="ends-with"):
    """The answer ends with the value."""

    uses_references = True
    value: Annotated[_Text | UnsetType, described(f"End of the answer. {_VALUE}")] = UNSET
    ignore_case: Annotated[bool, _IGNORES_CASE] = False


class RegexCheck(_Check, frozen=True, kw_only=True, tag="regex"):
    """A regular expression of RE2 matches somewhere in the answer."""

    value: Annotated[_Text, described("Regular expression in the syntax of RE2; `^` and `$` bind it to the whole answer.")]
    ignore_case: Annotated[bool, _IGNORES_CASE] = False


class _JsonCheck(_Check, frozen=True, kw_only=True):
    """What checks of JSON have."""

    extract: Annotated[
        bool, described("Whether the first JSON object or list within the answer counts, such as one in a code block.")
    ] = False


class IsJsonCheck(_JsonCheck, frozen=True, kw_only=True, tag="is-json"):
    """The answer is JSON (RFC 8259)."""


class JsonSchemaCheck(_JsonCheck, frozen=True, kw_only=True, tag="json-schema"):
    """The answer is JSON that a schema accepts."""

    schema: Annotated[
        dict[str, Any] | str,
        described(
            "JSON Schema; of the drafts 4 to 2020-12, without `$ref` to other documents. Or its JSON as a text, since batch_v1 "
            "limits how deep metadata is nested."
        ),
    ]

    @property
    def schema_json(self) -> bytes:
        """Schema as JSON."""
        return self.schema.encode() if isinstance(self.schema, str) else msgspec.json.encode(self.schema)


class JsonPathCheck(_JsonCheck, frozen=True, kw_only=True, tag="json-path"):
    """The answer is JSON with the value at a path."""

    uses_references = True
    path: Annotated[_Text, described("Path in the answer, such as `$.cities[0].name`.")]
    value: Annotated[Any, described(f"Expected value; several values at the path are a list. {_VALUE}")] = UNSET
    ignore_case: Annotated[bool, _IGNORES_CASE] = False


class NumberCheck(_Check, frozen=True, kw_only=True, tag="number"):
    """The answer's number is the value, within a tolerance."""

    uses_references = True
    value: Annotated[float | UnsetType, described(f"Expected number. {_VALUE}")] = UNSET
    tolerance: Annotated[_NotNegative, described("Largest difference that passes.")] = 0.0


class LengthCheck(_Check, frozen=True, kw_only=True, tag="length"):
    """The answer has at least and at most so many characters, or words."""

    min: Annotated[Annotated[int, Meta(ge=0)] | UnsetType, described("Smallest length.")] = UNSET
    max: Annotated[Annotated[int, Meta(ge=0)] | UnsetType, described("Largest length.")] = UNSET
    unit: Annotated[LengthUnit, described("What is counted; spaces around the answer are not.")] = "characters"


class OneOfCheck(_Check, frozen=True, kw_only=True, tag="one-of"):
    """The answer is one of several values."""

    uses_references = True
    value: Annotated[Annotated[tuple[Any, ...], Meta(min_length=1)] | UnsetType, described(f"Permitted answers. {_VALUE}")] = UNSET
    ignore_case: Annotated[bool, _IGNORES_CASE] = False


class SimilarityCheck(_Check, frozen=True, kw_only=True, tag="similarity"):
    """The answer is similar to the value."""

    uses_references = True
    measure: Annotated[
        Measure,
        described(
            "`edit` is the normalized edit distance, `token_f1` the F1 of the words as SQuAD counts them, `rouge_l` ROUGE-L (F1), "
            "`bleu` the sentence BLEU of sacrebleu; each from 0 to 1."
        ),
    ]
    at_least: Annotated[_Share | UnsetType, described("Similarity, from 0 to 1, from which the check passes.")] = UNSET
    max_edits: Annotated[
        Annotated[int, Meta(ge=0)] | UnsetType, described("With `edit`, instead of `at_least`: largest number of edits.")
    ] = UNSET
    value: Annotated[_Text | UnsetType, described(f"Text to compare with. {_VALUE}")] = UNSET


class RefusalCheck(_Check, frozen=True, kw_only=True, tag="refusal"):
    """The answer is a refusal; `expected: false` demands that it is none."""


class LanguageCheck(_Check, frozen=True, kw_only=True, tag="language"):
    """The answer is in a language."""

    value: Annotated[
        Annotated[str, Meta(pattern=r"^[a-z]{2,3}$", title="a code of ISO 639 such as 'de'")],
        described("Code of the language (ISO 639), such as `de`."),
    ]


class LatencyCheck(_Check, frozen=True, kw_only=True, tag="latency"):
    """The answer came within a time."""

    max_ms: Annotated[Annotated[float, Meta(gt=0)], described("Longest time in milliseconds.")]


class CostCheck(_Check, frozen=True, kw_only=True, tag="cost"):
    """The answer cost at most an amount."""

    max_usd: Annotated[_NotNegative, described("Highest cost of the answer in US dollars, judges not included.")]


class ToolCalledCheck(_Check, frozen=True, kw_only=True, tag="tool-called"):
    """The candidate called a tool."""

    tool: Annotated[_Text, described("Name of the tool.")]


Check = (
    EqualsCheck
    | ContainsCheck
    | StartsWithCheck
    | EndsWithCheck
    | RegexCheck
    | IsJsonCheck
    | JsonSchemaCheck
    | JsonPathCheck
    | NumberCheck
    | LengthCheck
    | OneOfCheck
    | SimilarityCheck
    | RefusalCheck
    | LanguageCheck
    | LatencyCheck
    | CostCheck
    | ToolCalledCheck
)
CheckType = Literal[
    "equals",
    "contains",
    "starts-with",
    "ends-with",
    "regex",
    "is-json",
    "json-schema",
    "json-path",
    "number",
    "length",
    "one-of",
    "similarity",
    "refusal",
    "language",
    "latency",
    "cost",
    "tool-called",
]


def all_unset(*values: object) -> bool:
    """Return whether none of the values was given."""
    return all(value is UNSET for value in values)


class PassShare(msgspec.Struct, frozen=True, kw_only=True):
    """A record passes from a share of the weights on."""

    at_least: Annotated[_Share, described("Share of the weights, from 0 to 1, that checks must have that pass.")]


PassRule = Literal["all", "any"] | PassShare
"""Which checks an answer must pass."""


class CheckResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Result of one check of one answer."""

    name: str
    type: str
    passed: bool | None
    """None where nothing is known that the check is about: it counts neither way."""
    score: float | None
    """From 0 to 1: a similarity, else 1 for a check that passed and 0 for one that did not; None as above."""
    reason: str


def named_checks(checks: Iterable[Check]) -> tuple[Check, ...]:
    """Return checks with names: a second one of the same type without a name gets a number, such as `contains-2`."""
    found: list[Check] = []
    taken = {check.name for check in checks if check.name}
    for check in checks:
        name, number = check.title, 1
        while not check.name and name in taken:
            number += 1
            name = f"{check.type}-{number}"
        taken.add(name)
        found.append(msgspec.structs.replace(check, name=name))
    return tuple(found)


def merged_checks(run: Sequence[Check], record: Sequence[Check]) -> tuple[Check, ...]:
    """Return the checks of a record: those of the run, each replaced by the record's own check of the same name, and its others."""
    own = {check.name: check for check in record}
    merged = [own.pop(check.name, check) for check in run]
    return (*merged, *own.values())
