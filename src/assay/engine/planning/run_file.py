"""The run file: YAML or JSON that says which models answer which datasets, who judges, and within which limits."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from assay.core.document import Document
from assay.core.issue import Issue
from assay.core.plan import CriterionName, Fallback, McqMode, OnInvalid, ProfileId, ResponseSource, RubricMode
from assay.core.provider import ProviderKind
from assay.core.redact_rule import RedactRule
from assay.core.retention import RetentionSettings
from assay.datasets.checks import Findings, check_flaws
from assay.datasets.formats import is_of_a_run
from assay.datasets.issue_locator import RecordContext, locate_issue
from assay.datasets.lazy_yaml import parse_yaml
from assay.datasets.source import open_source
from assay.engine.planning.settings import FieldAliases, Wordings, read_settings
from assay.store.redact_custom import rule_problem

Name = Annotated[str, Meta(min_length=1)]
Variable = Annotated[str, Meta(pattern=r"^[A-Z_][A-Z0-9_]*$", title="the name of an environment variable in capitals, not the key")]
Web = Annotated[str, Meta(pattern=r"^https?://[^\s@]+$", title="an http or https address without a user name or password")]
RunId = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$", title="up to 128 letters, digits, dots, dashes and underscores, no dot first"
    ),
]
Rate = Annotated[float, Meta(ge=0, le=1)]
Score = Annotated[float, Meta(ge=0, le=100)]
Penalty = Annotated[float, Meta(ge=-2, le=2)]
Positive = Annotated[float, Meta(gt=0)]
NotNegative = Annotated[float, Meta(ge=0)]
Count = Annotated[int, Meta(ge=1)]
Calls = Annotated[int, Meta(ge=1, le=10_000)]
Repeat = Annotated[int, Meta(ge=1, le=1_000)]


def _says(description: str) -> Meta:
    return Meta(description=description)


class ProviderEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where models are reached; a provider that is called like its kind needs no entry."""

    name: Annotated[Name, _says("The name that models use: the part of `provider/model` before the slash.")]
    kind: Annotated[
        ProviderKind | None, _says("How the provider is spoken to. Default: the name if it is a kind, else `openai`.")
    ] = None
    base_url: Annotated[Web | None, _says("Address of the server, such as `http://localhost:8000/v1`.")] = None
    key_variable: Annotated[
        Variable | None,
        _says("Name of the environment variable that holds the key. Default: that of the kind, or none beside a `base_url`."),
    ] = None
    timeout: Annotated[Positive, _says("Seconds for one attempt as a whole.")] = 120.0
    requests_per_minute: Annotated[Positive | None, _says("Maximum calls per minute.")] = None
    tokens_per_minute: Annotated[Positive | None, _says("Tokens per minute at most.")] = None
    headers: Annotated[dict[str, str], _says("Headers sent with every call; `$NAME` stands for an environment variable.")] = {}


class DatasetEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A dataset of the run; a text alone is its path."""

    path: Annotated[Name, _says("The file, a folder of files or a pattern, relative to the run file's folder.")]
    name: Annotated[
        str, _says("What reports call it. Default: the file's name without its ending, in a folder with the path to it.")
    ] = ""
    contract: Annotated[
        str | None,
        _says("Contract of the file: one of ours, a plugin, or `file.py:function`. Default: recognised by content."),
    ] = None
    enabled: Annotated[bool, _says("`false` leaves the dataset out.")] = True
    split_field: Annotated[str, _says("Take only records whose metadata has this member (`a.b` looks inside `a`) ...")] = ""
    split_value: Annotated[str | bool | int | float, _says("... with this value, or with a list that holds it.")] = ""
    limit: Annotated[Count | None, _says("Take the first so many records of this dataset, in a folder of each file.")] = None
    config: Annotated[str, _says("File with settings of its validation, as for `assay validate --config`.")] = ""


class ModelEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A candidate or a judge; a text alone is its `provider/model`."""

    model: Annotated[Name, _says("`provider/model` (also `provider:model`), or the model alone beside `provider`.")]
    provider: Annotated[str, _says("Name of a provider. Default: the first part of `model`.")] = ""
    name: Annotated[str, _says("What reports and response files call it. Default: `provider/model`.")] = ""
    temperature: Annotated[
        Annotated[float, Meta(ge=0, le=2)] | None, _says("Sampling temperature; null leaves it to the provider.")
    ] = 0.0
    top_p: Annotated[Rate | None, _says("Share of the probability that is sampled from.")] = None
    frequency_penalty: Annotated[Penalty | None, _says("Penalty for tokens by how often they occurred.")] = None
    presence_penalty: Annotated[Penalty | None, _says("Penalty for tokens that occurred at all.")] = None
    max_tokens: Annotated[Count | None, _says("Longest answer in tokens.")] = None
    seed: Annotated[int | None, _says("Seed of the provider's sampling.")] = None
    reasoning_effort: Annotated[str | None, _says("How much a reasoning model thinks, in the provider's words.")] = None
    thinking_budget: Annotated[Count | None, _says("Tokens that a thinking model may spend before it answers.")] = None
    extra_body: Annotated[dict[str, Any], _says("Further members of the request, sent as they are.")] = {}


class StageSection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits on all calls of one stage."""

    concurrency: Annotated[Calls | None, _says("Maximum concurrent calls.")] = None
    requests_per_minute: Annotated[Positive | None, _says("Maximum calls per minute.")] = None


class RunSection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The run itself."""

    id: Annotated[
        RunId | None,
        _says("Id of the run, which is resumed where it exists unfinished. Default: a new id every time."),
    ] = None
    runs_dir: Annotated[
        Name | None, _says("Folder that holds the runs, relative to the run file's folder. Default: `runs` in the current folder.")
    ] = None
    system_prompt: Annotated[
        str, _says("Sent to candidates, except where a record has a system message of its own or a policy of a benchmark.")
    ] = ""
    response_source: Annotated[
        ResponseSource | None,
        _says(
            "`sampled` calls the candidates, `prefilled` reads their answers from `responses`, `part_of_conversation` takes those "
            "of an earlier run, or the recorded replies where no `responses` are named. Default: `prefilled` beside `responses`, "
            "`part_of_conversation` for conversations without a candidate, else `sampled`."
        ),
    ] = None
    responses: Annotated[str, _says("File with the answers: JSONL, a JSON list or object, or the folder of an earlier run.")] = ""
    pass_threshold: Annotated[Rate, _says("Score from which a record passes on the 0-1 scale.")] = 0.7
    case_pass_score: Annotated[Annotated[int, Meta(ge=1, le=5)], _says("Score from which a record passes on the 1-5 scale.")] = 4
    rubric_mode: Annotated[
        RubricMode, _says("`per_criterion` asks judges about each criterion of a rubric, `one_call` about all of them at once.")
    ] = "per_criterion"
    mcq_mode: Annotated[
        McqMode,
        _says("Several correct choices: `exact` wants all of them and none besides, `any` is content with one or more of them."),
    ] = "exact"
    criteria: Annotated[
        tuple[CriterionName, ...], _says("What records of batch_v1 are judged by that name no criteria. Default: `overall`.")
    ] = ()
    concurrency: Annotated[Calls, _says("Maximum concurrent calls.")] = 32
    generation: Annotated[StageSection, _says("Limits on the candidate's calls.")] = StageSection()
    judging: Annotated[StageSection, _says("Limits on the judges' calls.")] = StageSection()
    keep_raw: Annotated[bool, _says("Keep the providers' whole replies, redacted, in the attempt log.")] = False


class RetrySection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What happens after a timeout, a rate limit or a provider's own error."""

    max_attempts: Annotated[Annotated[int, Meta(ge=1, le=10)], _says("Attempts per record, the first one included.")] = 3
    base_delay: Annotated[NotNegative, _says("Seconds: the waits are 1, 3, 7, 15 ... times as long.")] = 2.0
    max_delay: Annotated[NotNegative, _says("Longest wait in seconds that a provider's Retry-After may cause.")] = 60.0


class PanelSection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How several judges decide together; every vote is kept."""

    quorum: Annotated[
        Count | None,
        _says("Judges who must vote on a question, or the record ends in an error, without a score. Default: all who are asked."),
    ] = None
    escalate: Annotated[bool, _says("Call the first judge, and the others only if it is unsure.")] = False
    min_confidence: Annotated[
        Rate, _says("With `escalate`: a first judge who says that it is less sure than this, from 0 to 1, is unsure.")
    ] = 0.7


class CacheSection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Replies kept for other runs that ask the same; without this section there is no cache."""

    enabled: Annotated[bool, _says("`false` neither reads nor writes the cache.")] = True
    folder: Annotated[str, _says("Folder of the cache, relative to the run file's folder. Default: `.cache` in `runs_dir`.")] = ""


class BatchSection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The candidates are asked in batches of their providers, for half the price and within a day; judges are asked as always."""

    enabled: Annotated[bool, _says("`false` asks record by record.")] = True
    fallback: Annotated[
        Fallback,
        _says("Requests that a batch left without an answer: `live` asks them one by one at the full price, `fail` does not."),
    ] = "live"
    max_requests: Annotated[
        Count | None, _says("Requests in one batch at most. Default: 50,000 for OpenAI, 100,000 for Anthropic.")
    ] = None
    max_bytes: Annotated[
        Count | None, _says("Bytes of one batch at most. Default: 200,000,000 for OpenAI, 256,000,000 for Anthropic.")
    ] = None
    poll_seconds: Annotated[
        Positive, _says("Seconds between two looks at the batches; while they are under way up to four times as many.")
    ] = 30.0


class GatesSection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a run must reach; the bounds themselves meet the gates. golden_v1 has gates where none are set: 0.8, 3.5 and 0."""

    pass_rate: Annotated[Rate | None, _says("Share of the graded records that pass.")] = None
    min_score: Annotated[
        Score | None,
        _says(
            "Mean score: 0-1, or 1-5 where nothing is compared (golden_v1, batch_v1, recorded replies); of a profile, its headline."
        ),
    ] = None
    max_error_rate: Annotated[
        Rate | None, _says("Share of all records that may end in an error (invalid ones included) or be cancelled.")
    ] = None


class MlflowSection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The commands `run` and `suite` push finished runs to MLflow, as with `--mlflow`; one that does not answer is a warning."""

    uri: Annotated[
        Annotated[str, Meta(pattern=r"^[^\s@]+$", title="an address without a user name or password")],
        _says("Address of the MLflow server, such as `http://localhost:5000`."),
    ]
    experiment: Annotated[str, _says("The experiment, made where there is none. Default: the dataset's id.")] = ""


class RunFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of `assay run`."""

    schema: Annotated[str, _says("Address of this schema, for editors.")] = msgspec.field(name="$schema", default="")
    datasets: Annotated[tuple[DatasetEntry | str, ...], _says("What is asked.")] = ()
    candidates: Annotated[tuple[ModelEntry | str, ...], _says("Who answers; each candidate is a run of its own.")] = ()
    judges: Annotated[tuple[ModelEntry | str, ...], _says("Who grades what no program can grade.")] = ()
    grader: Annotated[
        str,
        _says("A grader of your own, which grades every record: the name of a plugin, `module:function` or `file.py:function`."),
    ] = ""
    policy: Annotated[
        str, _says("A policy of your own, which says what candidates are asked, and may grade too; named in the same way.")
    ] = ""
    policies: Annotated[
        dict[Name, str],
        _says(
            "Policies of your own for single records: `{house: own.py:function}` is used by the records whose `metadata.policy_id` "
            "is `house`. `policy` overrides them."
        ),
    ] = {}
    panel: Annotated[PanelSection, _says("How several judges decide together.")] = PanelSection()
    providers: Annotated[tuple[ProviderEntry, ...], _says("Servers of your own, and limits for the well-known ones.")] = ()
    run: Annotated[RunSection, _says("The run itself.")] = RunSection()
    retry: Annotated[RetrySection, _says("What happens after a failed call.")] = RetrySection()
    cache: Annotated[CacheSection | None, _says("Replies kept for other runs.")] = None
    batch: Annotated[BatchSection | None, _says("Batches of the candidates' providers, for half the price.")] = None
    gates: Annotated[GatesSection, _says("What a run must reach.")] = GatesSection()
    retention: Annotated[RetentionSettings, _says("How long artifacts are kept before `assay purge` removes them.")] = (
        RetentionSettings()
    )
    mlflow: Annotated[MlflowSection | None, _says("MLflow server that finished runs are pushed to.")] = None
    profile: Annotated[
        ProfileId | None,
        _says("Benchmark whose official score is computed beside our own figures; every record must be one that it can score."),
    ] = None
    compat: Annotated[bool, _says("The profile treats errors as the benchmark does; otherwise they have no score.")] = False
    max_cost: Annotated[
        NotNegative | None, _says("US dollars after which no new call is made; refused where no price is known.")
    ] = None
    on_invalid: Annotated[
        OnInvalid | None,
        _says("Records that break their contract: `reject` the run, or `skip` them. Default: `skip` for batch_v1, else `reject`."),
    ] = None
    allow_size: Annotated[bool, _says("Accept golden datasets with fewer than 5 or more than 20 cases.")] = False
    null_as_absent: Annotated[bool, _says("Optional and forbidden fields that are null count as absent.")] = False
    config: Annotated[str, _says("File with settings of the validation, for every dataset without a file of its own.")] = ""
    records: Annotated[tuple[str, ...], _says("Take only the records with these ids.")] = ()
    limit: Annotated[Count | None, _says("Take the first so many records of the run.")] = None
    sample: Annotated[Count | None, _says("Take so many records, chosen by `seed` and their ids.")] = None
    seed: Annotated[int, _says("Seed of the sample and of resampled intervals.")] = 0
    repeat: Annotated[Repeat, _says("Answers per record, each evaluated; for pass@k, pass^k and the variance between answers.")] = 1
    redact: Annotated[
        tuple[RedactRule, ...],
        _says("Custom redaction rules, applied before the built-in ones to everything that the run stores, logs and reports."),
    ] = ()
    slices: Annotated[
        tuple[Name, ...],
        _says(
            "What metrics are grouped by: `tags`, `dataset`, `task_type`, `contract`, `policy_id`, or a member of metadata such as "
            "`court` or `court.name`: of the record, else of its `batch_v1` document."
        ),
    ] = (
        "tags",
        "dataset",
    )
    cluster_key: Annotated[
        str, _says("Member of metadata, of records or their document, whose records belong together, for honest intervals.")
    ] = ""


_STAGE = FieldAliases({"workers": "concurrency", "rpm": "requests_per_minute"})
_NAME_IT = "keys do not belong in files: put it into an environment variable and name that in key_variable"
WORDINGS: Wordings = {
    RunFile: FieldAliases({"thresholds": "gates"}, {"budget": "write max_cost at the top of the file"}),
    ProviderEntry: FieldAliases(
        {"api_key_env": "key_variable", "rpm": "requests_per_minute", "tpm": "tokens_per_minute"},
        {
            **dict.fromkeys(("api_key", "apikey", "key", "secret", "token", "access_token", "password"), _NAME_IT),
            "region": "it is part of base_url, or for litellm of the model's extra_body (aws_region_name, vertex_location)",
            "project": "send it in headers (OpenAI-Project), or for litellm in the model's extra_body (vertex_project)",
        },
    ),
    ModelEntry: FieldAliases({}, dict.fromkeys(("api_key", "key"), _NAME_IT)),
    RunSection: FieldAliases({"root": "runs_dir", "workers": "concurrency", "responses_path": "responses"}),
    StageSection: _STAGE,
    RetrySection: FieldAliases({"attempts": "max_attempts"}),
    CacheSection: FieldAliases({"dir": "folder"}),
}
"""Names that users of other tools write, and names that would put a secret into a file."""

_KEY_HEADERS = r"(?i)authorization|cookie|(api|access|secret|auth)[-_ ]?(key|token)|token|secret|password"
_KEY_VALUE = r"(sk|pk|key|ghp|xox[a-z]|AKIA|AIza|Bearer)[-_ ]?[A-Za-z0-9_-]{8,}"


class LoadedRunFile(msgspec.Struct, frozen=True):
    """The members of a run file that could be read, its problems, and its text to point at."""

    path: str
    document: Document
    members: dict[str, Any]
    findings: Findings


def load_run_file(path: str | Path) -> LoadedRunFile:
    """The run file at a path; what is wrong with it is in `findings`. Raises SourceUnreadable where there is no file."""
    document = parse_yaml(bytes(open_source(path).buffer()))
    found = Findings()
    members: dict[str, Any] = {}
    if document.is_readable:
        members = read_members({} if document.value is None else document.value, found)
    check_flaws(found, document, ())
    return LoadedRunFile(str(path), document, members, found)


def read_members(value: Any, found: Findings) -> dict[str, Any]:
    """The members of a run file given as plain values; `found` gets every problem."""
    members = read_settings(value, RunFile, found=found, wordings=WORDINGS)
    _refuse_secrets(members, found)
    _check_redact_rules(members, found)
    return members


def _check_redact_rules(members: Mapping[str, Any], found: Findings) -> None:
    names: set[str] = set()
    for index, entry in enumerate(members.get("redact", ())):
        if not isinstance(entry, Mapping) or not {"name", "pattern"} <= entry.keys():
            continue
        rule = RedactRule(**entry)
        problem = rule_problem(rule, earlier=names)
        names.add(rule.name)
        if problem is not None:
            found.add("value_out_of_range", ("redact", index, problem.member), problem.message, hint=problem.hint)


def _refuse_secrets(members: Mapping[str, Any], found: Findings) -> None:
    """A key in a header or in the request's body is as much in the file as one that is called a key; `$NAME` is none."""
    for index, provider in enumerate(members.get("providers", ())):
        for name, text in (provider.get("headers", {}) if provider else {}).items():
            if not text.startswith("$") and (re.search(_KEY_HEADERS, name) or re.search(_KEY_VALUE, text)):
                path = ("providers", index, "headers", name)
                hint = "write $NAME, the environment variable that holds it, or name that in key_variable"
                found.add("unsupported_field", path, f"the header '{name}' seems to hold a key", hint=hint, on_key=True)
    for section in ("candidates", "judges"):
        for index, model in enumerate(members.get(section, ())):
            body = model.get("extra_body", {}) if isinstance(model, dict) else {}
            for name in body:
                if re.search(_KEY_HEADERS, name) and not name.endswith("tokens"):
                    path = (section, index, "extra_body", name)
                    found.add("unsupported_field", path, f"'{name}' seems to hold a key", hint=_NAME_IT, on_key=True)


def is_run_file(path: str | Path) -> bool:
    """True for a YAML or JSON mapping that names datasets, candidates, judges or a run, rather than records."""
    return is_of_a_run(open_source(path))


def issue_of(loaded: LoadedRunFile, finding: Any) -> Issue:
    """A finding with its line and column in the run file."""
    return locate_issue(finding, loaded.document, RecordContext())


def run_file_schema() -> dict[str, Any]:
    """JSON Schema of the run file; older names are in it as deprecated ones."""
    (ref,), components = msgspec.json.schema_components([RunFile])
    for kind, wording in WORDINGS.items():
        properties = components[kind.__name__]["properties"]
        for older, name in wording.older.items():
            kept = {key: value for key, value in properties[name].items() if key not in ("description", "default")}
            properties[older] = {**kept, "description": f"Older name of `{name}`.", "deprecated": True}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "assay run file", **ref, "$defs": components}
