"""The settings of a run, each defined once: the sections of a run file, which plans embed.

The annotation of a field has its bounds, its description, and its option, HTTP parameter and form field where it has them. Every
surface lists its settings in the order in which they are defined here.
"""

from collections.abc import Iterable
from functools import cache
from typing import Annotated, Any, Literal, TypeVar, get_args

import msgspec
from msgspec import UNSET, Meta, UnsetType

from assay.core.call_rules import CallRules
from assay.core.checks import Check, CheckName, PassRule
from assay.core.exposure import (
    FIXED,
    CommandOption,
    ExposedSetting,
    FormField,
    QueryParameter,
    described,
    exposed,
    exposed_settings,
)
from assay.core.graders import Scale
from assay.core.provider import ProviderKind
from assay.core.retention import RetentionSettings
from assay.core.secrets import RedactRule

ResponseSource = Literal["sampled", "prefilled", "part_of_conversation"]
OnInvalid = Literal["reject", "skip"]
Fallback = Literal["live", "fail"]
RubricMode = Literal["per_criterion", "one_call"]
McqMode = Literal["exact", "any"]
ToolOutputs = Literal["replay", "stop"]
"""What answers a candidate's tool calls."""
CriterionName = Literal["accuracy", "clarity", "reasoning", "factuality", "overall"]
"""batch_v1: `expected.required_criteria`."""
ProfileId = Literal[
    "prbench", "prbench_normalized", "healthbench", "apex_v1", "lexam_open", "lexam_mcq", "judge_1_5", "weighted_mean"
]
"""A benchmark's official scoring rules."""

Name = Annotated[str, Meta(min_length=1)]
ModelName = Annotated[str, Meta(min_length=1, max_length=256)]
Variable = Annotated[str, Meta(pattern=r"^[A-Z_][A-Z0-9_]*$", title="the name of an environment variable in capitals, not the key")]
# `@` is refused because a password in an address would be written to the plan, the ledger and the manifest.
Web = Annotated[str, Meta(pattern=r"^https?://[^\s@]+$", title="an http or https address without a user name or password")]
ReplyPath = str
"""Path into a reply, such as `$.output.text`; planning says what is wrong with one."""
HttpMethod = Literal["POST", "PUT", "GET"]
# A run id becomes a folder name: no slash, no leading dot, and short enough for every file system.
RunId = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$", title="up to 128 letters, digits, dots, dashes and underscores, no dot first"
    ),
]
Rate = Annotated[float, Meta(ge=0, le=1)]
Score = Annotated[float, Meta(ge=0, le=100)]
Temperature = Annotated[float, Meta(ge=0, le=2)]
PriceText = Annotated[
    str,
    Meta(
        pattern=r"^\d{1,9}(\.\d{1,9})?,\d{1,9}(\.\d{1,9})?$",
        title="two numbers as in 2.5,10: US dollars per million tokens sent, and received",
    ),
]
Penalty = Annotated[float, Meta(ge=-2, le=2)]
Positive = Annotated[float, Meta(gt=0)]
NotNegative = Annotated[float, Meta(ge=0)]
Count = Annotated[int, Meta(ge=1)]
Calls = Annotated[int, Meta(ge=1, le=10_000)]
Repeat = Annotated[int, Meta(ge=1, le=1_000)]


BUDGET_HINT = "write max_cost at the top of the file"
"""Hint for `budget`, which other tools have below their settings of a run."""
CLUSTER_TEXT = "Metadata key whose records form clusters."
"""Description of what overrides `cluster_key` for one comparison."""


class UsagePaths(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Where an HTTP endpoint's reply has its counts of tokens."""

    input_tokens: Annotated[ReplyPath | None, described("Path of the input tokens, such as `$.usage.prompt_tokens`.")] = None
    output_tokens: Annotated[ReplyPath | None, described("Path of the output tokens.")] = None
    total_tokens: Annotated[ReplyPath | None, described("Path of the sum of both.")] = None
    cached_tokens: Annotated[ReplyPath | None, described("Path of the input tokens that were read from a cache.")] = None


class TokenPrice(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """US dollars per million tokens; 0 for a server of your own."""

    input: Annotated[NotNegative, described("For tokens that are sent.")]
    output: Annotated[NotNegative, described("For tokens of the answer, those of its reasoning included.")]
    cached: Annotated[NotNegative | None, described("For tokens that the provider had in its cache. Default: as `input`.")] = None


class ProviderEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A server that models are called on; a provider whose name is its kind needs no entry."""

    name: Annotated[Name, described("The name that models use: the part of `provider/model` before the slash.")]
    kind: Annotated[ProviderKind | None, described("Kind of interface. Default: the name if it is a kind, else `openai`.")] = None
    base_url: Annotated[Web | None, described("Address of the server, such as `http://localhost:8000/v1`.")] = None
    key_variable: Annotated[
        Variable | None,
        described("Name of the environment variable that holds the key. Default: that of the kind, or none with a `base_url`."),
    ] = None
    timeout: Annotated[Positive, described("Time limit of one attempt in seconds.")] = 120.0
    requests_per_minute: Annotated[Positive | None, described("Maximum calls per minute.")] = None
    tokens_per_minute: Annotated[Positive | None, described("Maximum tokens per minute.")] = None
    headers: Annotated[
        dict[str, str],
        described("Headers sent with every call; `$NAME`, or `${NAME}` within a text, stands for an environment variable."),
    ] = {}
    # Unset by default, so that plans of other kinds stay as they were.
    url: Annotated[
        Web | UnsetType, described("`kind: http`: address that is called, as it is; may hold `{{...}}` after the host.")
    ] = UNSET
    method: Annotated[HttpMethod | UnsetType, described("`kind: http`: HTTP method. Default: `POST`; `GET` sends no body.")] = UNSET
    body: Annotated[
        dict[str, Any] | UnsetType,
        described(
            "`kind: http`: JSON body, where `{{prompt}}`, `{{system}}`, `{{messages}}`, `{{attachments}}`, `{{metadata.NAME}}`, "
            "`{{session}}`, `{{record_id}}` and `{{model}}` stand for values, and `${NAME}` for an environment variable."
        ),
    ] = UNSET
    answer: Annotated[
        ReplyPath | UnsetType, described("`kind: http`: path of the answer in the reply, such as `$.output.text`.")
    ] = UNSET
    error: Annotated[
        ReplyPath | UnsetType,
        described("`kind: http`: path of an error's message; a reply that has one is a failure with any status."),
    ] = UNSET
    steps: Annotated[
        ReplyPath | UnsetType, described("`kind: http`: path of the list of an agent's steps, which are stored with the answer.")
    ] = UNSET
    usage: Annotated[
        UsagePaths | ReplyPath | UnsetType,
        described(
            "`kind: http`: paths of the counts of tokens, or of one object that names them as providers do, such as `$.usage`."
        ),
    ] = UNSET
    session: Annotated[
        ReplyPath | UnsetType,
        described(
            "`kind: http`: path of the session's id in the reply, for later turns. Default: assay makes an id for each record."
        ),
    ] = UNSET
    # Unset rather than null, so that plans without prices are written as by earlier versions.
    prices: Annotated[TokenPrice | UnsetType, described("Price of all its models, instead of the one in the price list.")] = UNSET


DESCRIPTION = ("url", "method", "body", "answer", "error", "steps", "usage", "session")
"""Members of a provider that describe an HTTP endpoint."""


NO_COLUMN = "-"
"""Says of a role that no column of a table has it."""
FirstChoice = Annotated[int, Meta(ge=0, le=1)]


def _column(text: str, name: str, *, is_list: bool = False) -> Meta:
    """Expose a role of a table's columns as an option and a parameter of its name."""
    return exposed(
        text,
        member=f"{name}_column" + "s" * is_list,
        kind=tuple[str, ...] if is_list else str,
        option=CommandOption(f"Table: {text[0].lower()}{text[1:]}", "COL", name=f"--{name}"),
        parameter=QueryParameter(name=name, is_later=True),
    )


class ColumnSection(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Columns of a table (CSV, TSV, JSON Lines, a workbook ...) by what they hold; without them common names are recognised."""

    prompt: Annotated[str, _column("Column with the question.", "prompt")] = ""
    reference: Annotated[str, _column("Column with the reference answer.", "reference")] = ""
    context: Annotated[
        tuple[str, ...] | str,
        _column("Column with text that belongs to the question, which the candidate sees too.", "context", is_list=True),
    ] = ()
    rubric: Annotated[str, _column("Column with the rubric.", "rubric")] = ""
    choices: Annotated[
        tuple[str, ...] | str,
        _column("Column with the list of choices, or a column for each choice.", "choices", is_list=True),
    ] = ()
    answer: Annotated[str, _column("Column with the correct choice: its letter, number or text.", "answer")] = ""
    first_choice: Annotated[
        FirstChoice | None,
        exposed(
            "Number of the first choice, where the answer is a number.",
            option=CommandOption("Table: number of the first choice where the answer is a number, 0 or 1.", "N"),
            parameter=QueryParameter("Number of the first choice where the answer is a number, 0 or 1.", is_later=True),
        ),
    ] = None
    messages: Annotated[str, _column("Column with a conversation as a list of messages.", "messages")] = ""
    id: Annotated[str, _column("Column with the ids of the records.", "id")] = ""
    metadata: Annotated[
        tuple[str, ...] | str,
        _column("Column to store with the record; without it all other columns are.", "metadata", is_list=True),
    ] = ()


class DatasetEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A dataset of the run; a text alone is its path."""

    path: Annotated[Name, described("The file, a folder of files or a pattern, relative to the run file's folder.")]
    name: Annotated[
        str, described("Name in reports. Default: the file's name without its ending, in a folder with the path to it.")
    ] = ""
    contract: Annotated[
        str | None,
        described("Contract of the file: a built-in one, a plugin, or `file.py:function`. Default: recognised by content."),
    ] = None
    enabled: Annotated[bool, described("`false` leaves the dataset out.")] = True
    split_field: Annotated[str, described("Use only records whose metadata has this member (`a.b` looks inside `a`) ...")] = ""
    split_value: Annotated[str | bool | int | float, described("... with this value, or with a list that holds it.")] = ""
    limit: Annotated[Count | None, described("Use the first N records of this dataset, in a folder of each file.")] = None
    config: Annotated[str, described("File with settings of its validation, as for `assay validate --config`.")] = ""
    columns: Annotated[ColumnSection | None, described("For a table: its columns. Default: those at the top of the file.")] = None
    sheet: Annotated[str, described("Sheet of a workbook. Default: the one at the top of the file, or the only one.")] = ""


# Defaults are omitted, so that a parameter that is added later changes no plan without it, and no hash.
class ModelParameters(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Sampling parameters; None leaves a value to the provider."""

    temperature: Annotated[
        Temperature | None, described("Sampling temperature; null leaves it to the provider.")
        # Deterministic by default: golden_v1 demands 0, and repeats are asked for explicitly.
    ] = 0.0
    top_p: Annotated[Rate | None, described("Share of the probability mass that is sampled from.")] = None
    frequency_penalty: Annotated[Penalty | None, described("Penalty for tokens by how often they occurred.")] = None
    presence_penalty: Annotated[Penalty | None, described("Penalty for tokens that occurred at all.")] = None
    max_tokens: Annotated[Count | None, described("Maximum tokens of an answer.")] = None
    seed: Annotated[int | None, described("Seed of the provider's sampling.")] = None
    reasoning_effort: Annotated[str | None, described("Reasoning effort, as the provider names its levels.")] = None
    thinking_budget: Annotated[Count | None, described("Maximum tokens of reasoning before the answer.")] = None
    extra_body: Annotated[dict[str, Any], described("Further members of the request, sent unchanged.")] = {}


class ModelEntry(ModelParameters, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A candidate or a judge; a text alone is its `provider/model`."""

    model: Annotated[Name, described("`provider/model` (also `provider:model`), or the model alone with `provider`.")]
    provider: Annotated[str, described("Name of a provider. Default: the first part of `model`.")] = ""
    name: Annotated[str, described("Name in reports and response files. Default: `provider/model`.")] = ""


class GraderEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One of several graders: checks, a plugin, or a judge."""

    name: Annotated[
        CheckName, described("Name in reports, metrics and gates. Default: the plugin's, the judge's, or `checks`.")
    ] = ""
    primary: Annotated[
        bool,
        described("Whether it decides score and result of a record. Default: the first grader, where none is marked."),
    ] = False
    checks: Annotated[tuple[Check, ...], described("Checks that grade, as in `checks` of the file.")] = ()
    pass_rule: Annotated[PassRule, described("With `checks`: which of them an answer must pass.")] = msgspec.field(
        name="pass", default="all"
    )
    plugin: Annotated[str, described("Custom grader: the name of a plugin, `module:function` or `file.py:function`.")] = ""
    judge: Annotated[
        ModelEntry | str | UnsetType,
        described("Judge model; without `prompt` it grades as a judge of `judges` would. With `plugin`: the judge that it asks."),
    ] = UNSET
    prompt: Annotated[
        str,
        described(
            "With `judge`: text file with the prompt, relative to the run file's folder; it has placeholders such as `{{answer}}`."
        ),
    ] = ""
    scale: Annotated[
        Scale | UnsetType,
        described("With `prompt`: scale of the judge. Default: `pass_fail`. Each has a word for answers that cannot be assessed."),
    ] = UNSET
    at_least: Annotated[
        NotNegative | UnsetType,
        described("With `prompt`: score on the scale from which an answer passes. Default: `pass_threshold` or `case_pass_score`."),
    ] = UNSET


class StageSection(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Limits on all calls of one stage."""

    concurrency: Annotated[Calls | None, described("Maximum concurrent calls.")] = None
    requests_per_minute: Annotated[Positive | None, described("Maximum calls per minute.")] = None


class GradingRules(msgspec.Struct, frozen=True, kw_only=True):
    """Rules of grading, for every method."""

    pass_threshold: Annotated[Rate, described("Score from which a record passes on the 0-1 scale.")] = 0.7
    case_pass_score: Annotated[
        Annotated[int, Meta(ge=1, le=5)], described("Score from which a record passes on the 1-5 scale.")
    ] = 4
    rubric_mode: Annotated[
        RubricMode, described("`per_criterion` asks judges about each criterion of a rubric, `one_call` about all of them at once.")
    ] = "per_criterion"
    mcq_mode: Annotated[
        McqMode,
        described("Several correct choices: `exact` requires all of them and no others, `any` one or more of them and no others."),
    ] = "exact"
    criteria: Annotated[
        tuple[CriterionName, ...],
        exposed(
            "Criteria of batch_v1 records that name none. Default: `overall`.",
            parameter=QueryParameter("What records of batch_v1 are judged by that name no criteria; `overall` by default."),
        ),
    ] = ()


class RunSection(GradingRules, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The run itself."""

    responses: Annotated[
        str,
        exposed(
            "File with the answers: JSONL, a JSON list or object, or the folder of an earlier run.",
            option=CommandOption("Grade the answers in this file or earlier run's folder; call no candidate.", "FILE"),
        ),
    ] = ""
    response_source: Annotated[
        ResponseSource | None,
        exposed(
            "`sampled` calls the candidates, `prefilled` reads their answers from `responses`, `part_of_conversation` takes those "
            "of an earlier run, or the recorded replies where no `responses` are named. Default: `prefilled` with `responses`, "
            "`part_of_conversation` for conversations without a candidate, else `sampled`.",
        ),
    ] = None
    runs_dir: Annotated[
        Name | None,
        exposed(
            "Folder that holds the runs, relative to the run file's folder. Default: `runs` in the current folder.",
            option=CommandOption("Folder of the runs; ASSAY_RUNS_DIR sets it for all commands.", "DIR"),
        ),
    ] = None
    id: Annotated[
        RunId | None,
        exposed(
            "Run id; an unfinished run with the same id is resumed. Default: a new id every time.",
            member="run_id",
            option=CommandOption("Run id; an unfinished run with the same id and settings is resumed.", "ID"),
        ),
    ] = None
    group: Annotated[
        RunId | None,
        exposed(
            "Name that the run shares with others, so that commands such as `assay show` and `gate` take all of them. Default: "
            "the run id where there are several candidates, whose runs are called after it.",
            option=CommandOption("Name of the group that the run joins.", "NAME", default="with several candidates the run id"),
            parameter=QueryParameter("Name of the group of runs that the run joins.", is_later=True),
        ),
    ] = None
    concurrency: Annotated[
        Calls,
        exposed(
            "Maximum concurrent calls.",
            kind=Count,
            option=CommandOption(metavar="N", default="{}"),
            parameter=QueryParameter(),
        ),
    ] = 32
    generation: Annotated[StageSection, described("Limits on the candidate's calls.")] = StageSection()
    judging: Annotated[StageSection, described("Limits on the judges' calls.")] = StageSection()
    tools: Annotated[
        ToolOutputs,
        exposed(
            "What answers tool calls of candidates: `replay` gives a call that equals a recorded one the recorded output, `stop` "
            "ends the answer with its first calls.",
            option=CommandOption("Answer tool calls with recorded outputs, or stop at the first call.", default="{}"),
            parameter=QueryParameter("What answers tool calls: `replay` or `stop`.", is_later=True),
        ),
    ] = "replay"
    system_prompt: Annotated[
        str,
        exposed(
            "Sent to candidates, except where a record has a system message of its own or a policy of a benchmark.",
            option=CommandOption("System prompt of the candidates.", "TEXT"),
            parameter=QueryParameter("System prompt of the candidates.", is_later=True),
        ),
    ] = ""
    keep_raw: Annotated[bool, described("Keep the providers' whole replies, redacted, in the attempt log.")] = False


# The defaults are the schedule of batch_v1: three attempts, waits of 2 and 6 seconds, 20 % jitter.
class RetrySection(msgspec.Struct, frozen=True, kw_only=True):
    """Retries after a timeout, a rate limit or an error of the provider."""

    max_attempts: Annotated[Annotated[int, Meta(ge=1, le=10)], described("Attempts per record, the first one included.")] = 3
    # Fixed, because the contract states it; plans hold it so that a run explains its own waits.
    jitter: Annotated[float, FIXED] = 0.2
    """The share by which waits are lengthened or shortened at random."""
    base_delay: Annotated[NotNegative, described("Base of the waits in seconds: they are 1, 3, 7, 15 ... times as long.")] = 2.0
    max_delay: Annotated[NotNegative, described("Longest wait in seconds that a provider's Retry-After may cause.")] = 60.0


class PanelSection(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Rules by which several judges decide together; every vote is stored."""

    quorum: Annotated[
        Count | None,
        exposed(
            "Votes that a question needs; with fewer, the record ends in an error, without a score. Default: all that are asked.",
            option=CommandOption("Votes that a record needs for a score.", "N", default="all judges"),
            parameter=QueryParameter("Judges who must vote."),
        ),
    ] = None
    escalate: Annotated[
        bool,
        exposed(
            "Call the first judge, and the others only if it is unsure.",
            option=CommandOption(),
            parameter=QueryParameter(),
        ),
    ] = False
    min_confidence: Annotated[
        Rate, described("With `escalate`: confidence, from 0 to 1, below which the first judge counts as unsure.")
    ] = 0.7


class CacheSection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Cache of replies, shared with other runs that send the same requests; without this section there is no cache."""

    enabled: Annotated[bool, described("`false` neither reads nor writes the cache.")] = True
    folder: Annotated[
        str, described("Folder of the cache, relative to the run file's folder. Default: `.cache` in `runs_dir`.")
    ] = ""


class BatchSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Use of the batches of the candidate's provider; a plan without batches has none of these settings."""

    fallback: Annotated[
        Fallback,
        exposed(
            "Requests without an answer in their batch: `live` repeats them as single calls at full price, `fail` does not.",
            member="batch_fallback",
            option=CommandOption(
                "With --batch: repeat unanswered requests as single calls at full price, or end in an error.",
                default="{}",
            ),
        ),
    ] = "live"
    max_requests: Annotated[
        Count | None, described("Maximum requests of one batch. Default: 50,000 for OpenAI, 100,000 for Anthropic.")
    ] = None
    max_bytes: Annotated[
        Count | None, described("Maximum bytes of one batch. Default: 200,000,000 for OpenAI, 256,000,000 for Anthropic.")
    ] = None
    poll_seconds: Annotated[
        Positive, described("Seconds between two polls of the batches, and up to four times as many while they are in progress.")
    ] = 30.0


class BatchSection(BatchSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Calls of candidates through their providers' batches, for half the price and within a day; judges are called as usual."""

    enabled: Annotated[bool, described("`false` calls the candidate record by record.")] = True


class Gates(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Inclusive thresholds that a run must reach. A run over golden_v1 that sets none has 0.8, 3.5 and 0."""

    pass_rate: Annotated[
        Rate | None,
        exposed(
            "Share of the graded records that pass.",
            option=CommandOption("Gate: minimum pass rate of graded records.", "X"),
            parameter=QueryParameter(),
            form=FormField("Gate: minimum pass rate", "no gate", is_extra=True),
        ),
    ] = None
    min_score: Annotated[
        Score | None,
        exposed(
            "Mean score: 0-1, or 1-5 where nothing is compared (golden_v1, batch_v1, recorded replies); of a profile, its "
            "headline.",
            option=CommandOption("Gate: minimum mean score on the dataset's scale; with --profile, its headline.", "X"),
            parameter=QueryParameter("Gate: mean score."),
        ),
    ] = None
    max_error_rate: Annotated[
        Rate | None,
        exposed(
            "Share of all records that may end in an error (invalid ones included) or be cancelled.",
            option=CommandOption("Gate: maximum share of records without a score.", "X"),
            parameter=QueryParameter(),
        ),
    ] = None
    max_truncated: Annotated[
        Rate | None,
        exposed(
            "Share of the answers that may end at the output limit.",
            option=CommandOption("Gate: maximum share of answers cut off at the output limit.", "X"),
            parameter=QueryParameter(is_later=True),
        ),
    ] = None
    min_tool_calls: Annotated[
        Rate | None,
        exposed(
            "Share of the expected tool calls that are made with the right arguments; with unknown ones, their worst case.",
            option=CommandOption("Gate: minimum share of expected tool calls that are made right.", "X"),
            parameter=QueryParameter(is_later=True),
        ),
    ] = None

    checks: Annotated[
        dict[str, Rate],
        exposed(
            "Share of the answers that pass a check, by its name: `{exact: 0.9}`.",
            member="check_gates",
            kind=tuple[str, ...],
            option=CommandOption(
                "Gate: minimum pass rate of a check, as in exact=0.9; repeat for several.", "NAME=X", name="--check-gate"
            ),
            parameter=QueryParameter("Gate: minimum pass rate of a check, as in `exact=0.9`.", name="check_gate", is_later=True),
        ),
    ] = {}
    graders: Annotated[
        dict[str, Rate],
        exposed(
            "Share of the answers that pass by one of several graders, by its name: `{polite: 0.8}`.",
            member="grader_gates",
            kind=tuple[str, ...],
            option=CommandOption(
                "Gate: minimum pass rate of a grader, as in polite=0.8; repeat for several.", "NAME=X", name="--grader-gate"
            ),
            parameter=QueryParameter("Gate: minimum pass rate of a grader, as in `polite=0.8`.", name="grader_gate", is_later=True),
        ),
    ] = {}


def named_rates(texts: Iterable[str]) -> dict[str, object]:
    """Return the numbers of texts such as `exact=0.9` by their names; what is not a number stays a text."""
    found: dict[str, object] = {}
    for text in texts:
        name, _, number = text.rpartition("=")
        try:
            found[name.strip() or text] = float(number)
        except ValueError:
            found[name.strip() or text] = number
    return found


def gate_limits(gates: Gates) -> dict[str, float]:
    """Return the thresholds that are set, by gate: `pass_rate`, `checks.exact`, `graders.polite` ..."""
    limits: dict[str, float] = {}
    for name, value in msgspec.structs.asdict(gates).items():
        if isinstance(value, dict):
            limits |= {f"{name}.{member}": limit for member, limit in value.items()}
        elif value is not None:
            limits[name] = value
    return limits


class MlflowSection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The commands `run` and `suite` push finished runs to MLflow, as with `--mlflow`; no answer is only a warning."""

    uri: Annotated[
        Annotated[str, Meta(pattern=r"^[^\s@]+$", title="an address without a user name or password")],
        described("Address of the MLflow server, such as `http://localhost:5000`."),
    ]
    experiment: Annotated[str, described("Experiment, created if it does not exist. Default: the dataset's id.")] = ""


class RunFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of `assay run`."""

    schema: Annotated[str, described("Address of this schema, for editors.")] = msgspec.field(name="$schema", default="")
    datasets: Annotated[
        tuple[DatasetEntry | str, ...],
        exposed(
            "Datasets of the run.",
        ),
    ] = ()
    candidates: Annotated[
        tuple[ModelEntry | str, ...],
        exposed(
            "Candidate models; each is a run of its own.",
            member="models",
            option=CommandOption("Candidate model; repeat for several.", "PROVIDER/MODEL", name="--model"),
            parameter=QueryParameter("The candidate, as `provider/model`.", name="model", kind=ModelName | None),
        ),
    ] = ()
    judges: Annotated[
        tuple[ModelEntry | str, ...],
        exposed(
            "Judge models, for answers that no program can grade.",
            option=CommandOption("Judge model; repeat for a panel that votes.", "PROVIDER/MODEL", name="--judge"),
            parameter=QueryParameter("A judge, as `provider/model`; several vote.", name="judge", kind=tuple[ModelName, ...]),
        ),
    ] = ()
    grader: Annotated[
        str,
        exposed(
            "Custom grader of every record: the name of a plugin, `module:function` or `file.py:function`.",
            option=CommandOption("Custom grader: a plugin, module:function or file.py:function.", "NAME"),
        ),
    ] = ""
    checks: Annotated[
        tuple[Check, ...],
        exposed(
            "Checks of every answer, which no model is called for: in addition to a judge, or instead of one. Records may have "
            "checks of their own in `metadata.checks`.",
            kind=tuple[str, ...],
            option=CommandOption(
                "Check every answer without a judge: a type such as equals, or '{type: length, max: 10}'; repeat for several.",
                "CHECK",
                name="--check",
            ),
            parameter=QueryParameter(
                'A check of every answer: its type, or a JSON object such as `{"type": "length", "max": 10}`.',
                name="check",
                is_later=True,
            ),
        ),
    ] = ()
    pass_rule: Annotated[
        PassRule,
        described("Checks that an answer must pass: `all`, `any`, or `{at_least: 0.5}`, a share of their weights."),
    ] = msgspec.field(name="pass", default="all")
    graders: Annotated[
        tuple[GraderEntry, ...],
        exposed("Several graders of every answer, instead of `judges`, `grader` and `checks`; one of them is primary."),
    ] = ()
    policy: Annotated[
        str,
        exposed(
            "Custom policy, which builds the candidates' messages and may grade too; named in the same way.",
            option=CommandOption("Custom policy: a plugin, module:function or file.py:function.", "NAME"),
        ),
    ] = ""
    policies: Annotated[
        dict[Name, str],
        exposed(
            "Custom policies of single records: `{house: own.py:function}` is used by the records whose `metadata.policy_id` "
            "is `house`. `policy` overrides them.",
        ),
    ] = {}
    tools: Annotated[
        str,
        exposed(
            "File with the tools that conversations offer: a JSON or YAML list of `{name, description, parameters}`, or of tools "
            "as chat completions have them. Default: inferred from the recorded calls.",
        ),
    ] = ""
    tool_calls: Annotated[
        CallRules, described("Rules by which the candidates' tool calls are compared with the expected ones.")
    ] = CallRules()
    temperature: Annotated[
        Temperature | None,
        exposed(
            "Sampling temperature of the candidates that state none; the option is for all of them.",
            option=CommandOption("Sampling temperature of the candidates.", "X", default="0"),
            parameter=QueryParameter("Sampling temperature of the candidates.", is_later=True),
        ),
    ] = None
    max_tokens: Annotated[
        Count | None,
        exposed(
            "Longest answer in tokens of the candidates that state none; the option is for all of them.",
            option=CommandOption("Longest answer of the candidates in tokens.", "N", default="the model's own maximum"),
            parameter=QueryParameter("Longest answer of the candidates in tokens.", is_later=True),
        ),
    ] = None
    base_url: Annotated[
        Web | None,
        exposed(
            "Address of the candidates' server, such as `http://localhost:8000/v1`, instead of that of their provider.",
            option=CommandOption("Server of the candidates, with the API of their provider, or else of OpenAI.", "URL"),
        ),
    ] = None
    price: Annotated[
        PriceText | None,
        exposed(
            "Price of the candidates in US dollars per million tokens sent and received, such as `2.5,10`; `0,0` for a server of "
            "your own.",
            option=CommandOption("Price of the candidates: US dollars per million tokens sent and received.", "IN,OUT"),
        ),
    ] = None
    prices: Annotated[
        dict[Name, TokenPrice],
        exposed("Prices of single models, by the names that reports call them, instead of the price list's."),
    ] = {}
    providers: Annotated[tuple[ProviderEntry, ...], exposed("Custom servers, and limits for the well-known ones.")] = ()
    run: Annotated[RunSection, described("Settings of the run itself.")] = RunSection()
    records: Annotated[
        tuple[str, ...],
        exposed(
            "Use only the records with these ids.",
            option=CommandOption("Use only the record with this id; repeat for several.", "ID", name="--record"),
        ),
    ] = ()
    limit: Annotated[
        Count | None,
        exposed(
            "Use the first N records of the run.",
            option=CommandOption("Use the first N records.", "N"),
            parameter=QueryParameter(),
            form=FormField("Record limit", "all"),
        ),
    ] = None
    sample: Annotated[
        Count | None,
        exposed(
            "Use a random sample of N records, chosen by `seed` and their ids.",
            option=CommandOption("Use a random sample of N records, the same for the same seed.", "N"),
            parameter=QueryParameter("Use a random sample of N records."),
        ),
    ] = None
    seed: Annotated[
        int,
        exposed(
            "Seed of the sample and of resampled intervals.",
            option=CommandOption(metavar="S", default="{}"),
            parameter=QueryParameter(),
        ),
    ] = 0
    repeat: Annotated[
        Repeat,
        exposed(
            "Answers per record, each evaluated; for pass@k, pass^k and the variance between answers.",
            option=CommandOption("Answers per record, for pass@k and pass^k.", "K"),
            parameter=QueryParameter("Answers per record."),
            form=FormField("Answers per record", "once", is_extra=True),
        ),
    ] = 1
    panel: Annotated[PanelSection, described("Rules by which several judges decide together.")] = PanelSection()
    retry: Annotated[RetrySection, described("Retries after a failed call.")] = RetrySection()
    cache: Annotated[CacheSection | None, described("Cache of replies, shared with other runs.")] = None
    batch: Annotated[
        BatchSection | None,
        exposed(
            "Batches of the candidates' providers, for half the price.",
            switch="enabled",
            option=CommandOption("Call the candidate through its provider's batch API: half the price, within 24 hours."),
        ),
    ] = None
    max_cost: Annotated[
        NotNegative | None,
        exposed(
            "US dollars after which no new call is made; refused where no price is known.",
            option=CommandOption("Budget in US dollars; no new call is made beyond it.", "X"),
            parameter=QueryParameter(),
            form=FormField("Budget in US dollars", "no limit"),
        ),
    ] = None
    strict_parameters: Annotated[
        bool,
        exposed(
            "Stop the run when a provider rejects a parameter that was set, instead of leaving the parameter out with a note.",
            option=CommandOption("Stop when a provider rejects a parameter that was set; by default it is left out, with a note."),
            parameter=QueryParameter(is_later=True),
        ),
    ] = False
    on_invalid: Annotated[
        OnInvalid | None,
        exposed(
            "Records that break their contract: `reject` the run, or `skip` them. Default: `skip` for batch_v1, else `reject`.",
            option=CommandOption(
                "Invalid records: do not start, or evaluate the valid ones.",
                default="skip for batch_v1, else reject",
            ),
            parameter=QueryParameter("With invalid records: do not start, or evaluate the valid ones."),
            form=FormField(
                "Invalid records",
                "contract default",
                words={"skip": "leave them out", "reject": "do not start"},
                needs_rejected=True,
            ),
        ),
    ] = None
    allow_size: Annotated[
        bool,
        exposed(
            "Accept golden datasets with fewer than 5 or more than 20 cases.",
            option=CommandOption(),
            parameter=QueryParameter(is_later=True),
        ),
    ] = False
    null_as_absent: Annotated[
        bool,
        exposed(
            "Optional and forbidden fields that are null count as absent.",
            option=CommandOption("Treat null in optional and forbidden fields as absent."),
            parameter=QueryParameter("Optional and forbidden fields that are null count as absent.", is_later=True),
        ),
    ] = False
    config: Annotated[
        str,
        exposed(
            "File with settings of the validation, for every dataset without a file of its own.",
            option=CommandOption("Validation settings, as for assay validate --config.", "FILE"),
        ),
    ] = ""
    columns: Annotated[ColumnSection, described("Columns of the datasets that are tables.")] = ColumnSection()
    sheet: Annotated[
        str,
        exposed(
            "Sheet of the datasets that are workbooks; also a split of a dataset on disk, or the member of a document.",
            option=CommandOption("Table: sheet of a workbook, split of a dataset, or member of a document.", "NAME"),
            parameter=QueryParameter("Sheet of a workbook, split of a dataset, or member of a document.", is_later=True),
        ),
    ] = ""
    profile: Annotated[
        ProfileId | None,
        exposed(
            "Benchmark whose official score is also computed; it must be able to score every record.",
            option=CommandOption(f"Also compute a benchmark's official score: {', '.join(get_args(ProfileId))}.", "P"),
            parameter=QueryParameter("Benchmark whose official score is also computed."),
        ),
    ] = None
    compat: Annotated[
        bool,
        exposed(
            "The profile treats errors as the benchmark does; otherwise they have no score.",
            option=CommandOption("With --profile: count errors as the benchmark does, instead of leaving them unscored."),
            parameter=QueryParameter("With a profile: count errors as the benchmark does."),
        ),
    ] = False
    gates: Annotated[Gates, described("Thresholds that a run must reach.")] = Gates()
    retention: Annotated[RetentionSettings, described("Days for which artifacts are kept before `assay purge` removes them.")] = (
        RetentionSettings()
    )
    mlflow: Annotated[MlflowSection | None, described("MLflow server that finished runs are pushed to.")] = None
    redact: Annotated[
        tuple[RedactRule, ...],
        described("Custom redaction rules, applied before the built-in ones to everything that the run stores, logs and reports."),
    ] = ()
    slices: Annotated[
        tuple[Name, ...],
        exposed(
            "Metrics are grouped by: `tags`, `dataset`, `task_type`, `contract`, `policy_id`, or a member of metadata such as "
            "`court` or `court.name`: of the record, else of its `batch_v1` document."
        ),
    ] = (
        "tags",
        "dataset",
    )
    cluster_key: Annotated[
        str, exposed("Metadata key, of records or their document, whose values form clusters of records, for honest intervals.")
    ] = ""


Section = TypeVar("Section", bound=msgspec.Struct)


def stated(section: Section) -> Section:
    """Copy a section for a plan, where it is encoded with its numbers even if they are the defaults.

    An encoder that omits defaults leaves out a number only if it is the very object in the definition.
    """
    # Decoding makes new number objects, which are never identical to those of the definition.
    return msgspec.json.decode(msgspec.json.encode(msgspec.structs.asdict(section)), type=type(section))


@cache
def run_settings() -> dict[str, ExposedSetting]:
    """Return the settings that can be given besides the run file, by their names in a request, in the order of definition."""
    return {setting.member: setting for setting in exposed_settings(RunFile)}
