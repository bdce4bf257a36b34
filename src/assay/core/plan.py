"""Plans: all settings of a run, frozen before the first call and hashed."""

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import PurePath
from typing import Any, Literal

import msgspec

from assay.core.call_rules import CallRules
from assay.core.canonical import canonical_json
from assay.core.checks import Check, PassRule
from assay.core.contract import dataset_title, further_names
from assay.core.errors import StoreUnavailable
from assay.core.graders import GraderPlan
from assay.core.provider import FUNCTIONS, PROVIDERS, ProviderKind
from assay.core.retention import RetentionPolicy
from assay.core.secrets import RedactRule
from assay.core.settings import (
    BatchSettings,
    ColumnSection,
    CriterionName,
    Gates,
    McqMode,
    ModelParameters,
    OnInvalid,
    PanelSection,
    ProfileId,
    ProviderEntry,
    ResponseSource,
    RetrySection,
    RubricMode,
    StageSection,
    TokenPrice,
    ToolOutputs,
)
from assay.core.tools import ToolDefinition

PluginKind = Literal["grader", "model", "policy", "converter", "contract"]


# The default temperature is 0, so that an empty ModelParameters would still ask for one.
NO_PARAMETERS = ModelParameters(temperature=None)
"""Parameters of a model that is sent none."""


class ProviderPlan(ProviderEntry, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """How to reach a provider, and how often it may be called, with the address that the environment has for it."""

    kind: ProviderKind
    base_url: str = ""
    key_variable: str = ""
    """Environment variable that holds the key; no plan holds the key itself."""


class ModelPlan(msgspec.Struct, frozen=True, kw_only=True):
    """One model of a run: the candidate, or a judge."""

    name: str
    provider: str
    """Name of one of the plan's providers."""
    model: str
    """Identifier at the provider."""
    parameters: ModelParameters = ModelParameters()
    explicit: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    """Parameters that the user set; the others are preferences. Only where there are some, so that plans stay as they were."""
    price: TokenPrice | msgspec.UnsetType = msgspec.UNSET
    """Price that the user set; otherwise that of the price list counts."""


# The thresholds of golden_v1. Its formula divides by the cases without an error, so that nine errors and one pass would pass;
# the cap on errors is ours.
GOLDEN_GATES = Gates(pass_rate=0.8, min_score=3.5, max_error_rate=0.0)
"""Gates of a run over golden datasets only, if the request sets none."""


class TablePlan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a table was read as records: its syntax, and what each column is."""

    format: str
    """Such as `CSV` or `JSON Lines`."""
    columns: ColumnSection = ColumnSection()
    """Column of each role; a dot leads into an object in a cell."""
    recognized: str = ""
    """Known layout that the columns were recognised as; empty where the user named them all."""
    evidence: tuple[str, ...] = ()
    """What the columns were recognised by."""
    encoding: str = ""
    separator: str = ""
    sheet: str = ""
    empty_rows: int = 0
    """Empty rows, which are skipped."""


class DatasetPlan(msgspec.Struct, frozen=True, kw_only=True):
    """One dataset of a run, as it was read."""

    path: str
    contract: str
    dataset_id: str
    dataset_version: str
    schema_version: str
    sha256: str
    """Hash of the file's bytes, unpacked."""
    name: str = ""
    file: str = ""
    """Name of the file; in a run repeated from its stored input, that of the original file."""
    split_field: str = ""
    split_value: str = ""
    limit: int | None = None
    validation: dict[str, Any] = {}
    """Settings of the validation that differ from the defaults."""
    created_at: str = ""
    """Time in the document; empty when its contract has none."""
    metadata: dict[str, Any] = {}
    """Metadata of the document as a whole."""
    ignored_fields: tuple[str, ...] = ()
    """Members of the document that its contract does not know; they were accepted and have no effect."""
    fields: dict[str, dict[str, int]] = {}
    """Number of records with each open or unsent field, by audience."""
    table: TablePlan | msgspec.UnsetType = msgspec.UNSET
    """How it was read, for a table; otherwise unset, so that other plans stay as they were."""

    @property
    def source_file(self) -> str:
        """Name of the file; plans of earlier versions have the path only."""
        return self.file or PurePath(self.path).name

    @property
    def title(self) -> str:
        """Short title: `support-answers 2026-10-01 (answers.json)`."""
        return dataset_title(self.dataset_id, self.dataset_version, name=self.name, file=self.source_file)

    @property
    def words(self) -> tuple[str, ...]:
        """Id, version and contract, and the other names."""
        words = (self.dataset_id, self.dataset_version, self.contract)
        return (*filter(None, words), *further_names(self.dataset_id, name=self.name, file=self.source_file))


class ComparedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A finished run whose answers are compared with those of others."""

    run_id: str
    name: str
    """Its candidate; with the run's id if several runs have the same."""
    path: str
    """The run's folder."""
    manifest_sha256: str


class ComparisonPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The runs whose answers are compared in pairs."""

    runs: tuple[ComparedRun, ...]
    notes: tuple[str, ...] = ()
    """Descriptions of the records that cannot be compared."""


class PluginPlan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One plugin of a run, as its manifest names it."""

    kind: PluginKind
    name: str
    """The run's name for it: that of an entry point, or `module:function`."""
    reference: str = ""
    """`module:function` or `file.py:function`, where any process can load it; empty if it must be given again."""
    folder: str = ""
    """Folder searched for its module after the installed ones."""
    distribution: str = ""
    version: str = ""
    source_sha256: str = ""
    """Of its own file and the one that its reference names; of its file and the plain data that it holds where it was given in
    Python; empty where there is no source to read."""
    imports: dict[str, str] | None = None
    """The SHA-256 of the file of each local module that it imports; runs of earlier versions know none."""
    unknown: tuple[str, ...] = ()
    """Parts that cannot be compared with those of another process, such as `client: a Client`."""
    token: str = ""
    """This process's token for the unknown parts, which no other process has. Empty when all is known."""
    grades: bool = False
    """True for a grader, and for a policy that also grades."""
    asks_judges: bool = False
    """Its grading function is a generator, driven from request to request."""
    by_record: bool = False
    """A policy only for records whose `metadata.policy_id` has its name."""


class ImportedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of another tool that a run was imported from."""

    name: str
    sha256: str
    """Hash of the file's bytes, unpacked if it was gzipped."""


class ImportPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Origin of an imported run: another tool called the models and graded the answers."""

    tool: str
    version: str
    """Version of the tool; empty when its files do not tell."""
    scorer: str
    """The scorer whose scores are the grades of the run."""
    scale: str
    other_scorers: tuple[str, ...] = ()
    """Scorers whose scores are stored next to the grades, without weight."""
    files: tuple[ImportedFile, ...] = ()
    evaluated_at: str = ""
    """Time of the tool's run, in its own format."""
    left_out: dict[str, int] = {}
    """What the files have and the run has not, by name, with counts."""
    incomplete: tuple[str, ...] = ()
    """Descriptions of files that hold less than the other tool was to evaluate."""


DEFAULT_PROJECT = "default"
"""Project of API keys that name no other, and of runs that were not created with another project's key."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of one run: one candidate, its judges, its data, its limits."""

    run_id: str
    datasets: tuple[DatasetPlan, ...]
    candidate: ModelPlan
    judges: tuple[ModelPlan, ...] = ()
    panel: PanelSection = PanelSection()
    providers: tuple[ProviderPlan, ...] = ()
    response_source: ResponseSource = "sampled"
    responses_path: str = ""
    responses_sha256: str = ""
    system_prompt: str = ""
    """Sent to the candidate under the default policy, if the case has no system message."""
    retry: RetrySection = RetrySection()
    concurrency: int = 32
    """Maximum calls in flight."""
    generation: StageSection = StageSection()
    judging: StageSection = StageSection()
    max_cost: float | None = None
    """Budget in US dollars; no new call is made beyond it."""
    gates: Gates = Gates()
    default_gates: tuple[str, ...] = ()
    """Names of the gates that come from the contract, because the request sets none."""
    profile: ProfileId | None = None
    """The benchmark whose score is computed in addition to our own metrics."""
    compat: bool = False
    """The profile scores failures as the benchmark does; otherwise they have no score."""
    slices: tuple[str, ...] = ("tags", "dataset")
    cluster_key: str = ""
    pass_threshold: float = 0.7
    """Normalized score from which a case passes, if its contract has no scale of its own."""
    case_pass_score: int = 4
    """1-5 score from which a case passes."""
    rubric_mode: RubricMode = "per_criterion"
    """One judge call for each criterion of a rubric, or one call for all of them."""
    mcq_mode: McqMode = "exact"
    """Several correct choices: all of them and no others, or any of them."""
    criteria: tuple[CriterionName, ...] = ()
    """Criteria of batch_v1 records that name none themselves; empty means `overall`."""
    on_invalid: OnInvalid = "reject"
    records: tuple[str, ...] = ()
    """Ids of the records to evaluate; empty for all."""
    limit: int | None = None
    sample: int | None = None
    seed: int = 0
    """Seed of the sample and of resampled intervals."""
    repeat: int = 1
    """Answers per record; each is evaluated on its own."""
    keep_raw: bool = False
    """Store the providers' whole replies in the attempt log, redacted."""
    cache_dir: str = ""
    suite: str = ""
    """Groups the runs of several candidates."""
    # Unset rather than empty, so that plans of a single candidate are written as by earlier versions.
    group: str | msgspec.UnsetType = msgspec.UNSET
    """Name that the run shares with those started together with it, by which commands take all of them."""
    project: str = DEFAULT_PROJECT
    """The API keys of this project may see the run."""
    retention: RetentionPolicy = RetentionPolicy()
    """Days for which the artifacts are kept."""
    parent_run_id: str = ""
    """The run whose failed records this one retries."""
    comparison: ComparisonPlan | None = None
    """The runs whose answers are compared; no candidate is called."""
    imported: ImportPlan | None = None
    """Origin of answers and grades that another tool made."""

    checks: tuple[Check, ...] = ()
    """Checks of every answer, each with a name; records may have further ones."""
    pass_rule: PassRule = "all"
    """Checks that an answer must pass."""
    graders: tuple[GraderPlan, ...] = ()
    """Several graders of every answer; then `judges` holds those that they ask, and none of them is a panel."""
    plugins: tuple[PluginPlan, ...] = ()
    """Plugins that the run uses."""
    redact: tuple[RedactRule, ...] = ()
    """Custom redaction rules."""
    batch: BatchSettings | None = None
    """Call the candidate through provider batches; None calls it record by record."""
    strict_parameters: bool = False
    """Stop when a provider rejects a parameter that the user set."""
    offered_tools: tuple[ToolDefinition, ...] = ()
    """Tools that records offer which have none of their own: from the run file, or inferred from recorded calls."""
    tool_outputs: ToolOutputs = "replay"
    """What answers the candidate's tool calls."""
    tool_calls: CallRules = CallRules()
    """Rules by which tool calls are compared."""

    @property
    def has_native_tools(self) -> bool:
        """Tell whether the candidate's provider takes definitions of tools."""
        kinds = (provider.kind for provider in self.providers if provider.name == self.candidate.provider)
        return any(PROVIDERS[kind].has_tools for kind in kinds)

    def models(self) -> tuple[ModelPlan, ...]:
        """Return the candidate, followed by the judges."""
        return (self.candidate, *self.judges)

    def takes_parameters(self, model: ModelPlan) -> bool:
        """Return whether a model is sent parameters; functions are not."""
        kinds = (provider.kind for provider in self.providers if provider.name == model.provider)
        return all(PROVIDERS[kind].has_parameters for kind in kinds)

    def policy(self) -> PluginPlan | None:
        """Return the run's custom policy for all records."""
        return next((plugin for plugin in self.plugins if plugin.kind == "policy" and not plugin.by_record), None)

    def record_policies(self) -> dict[str, PluginPlan]:
        """Return the custom policies that records name, by that name."""
        return {plugin.name: plugin for plugin in self.plugins if plugin.by_record}

    @property
    def has_panel(self) -> bool:
        """Return whether several judges decide together."""
        return len(self.judges) > 1 and not self.graders

    def grader(self) -> PluginPlan | None:
        """Return the run's only custom grader, which may be that of its policy; None where there are several graders."""
        return None if self.graders else next((plugin for plugin in self.plugins if plugin.grades), None)

    def grader_plugins(self) -> dict[str, PluginPlan]:
        """Return the plugins of a run with several graders, by name."""
        names = {grader.plugin for grader in self.graders}
        return {plugin.name: plugin for plugin in self.plugins if plugin.kind == "grader" and plugin.name in names}

    def called_graders(self) -> tuple[ModelPlan, ...]:
        """Return the custom graders that are called like a judge; those that ask judges themselves are driven instead."""
        # A grader that is a generator asks judges by name and cannot be called like a model: the engine drives it instead.
        plugins = (*filter(None, (self.grader(),)), *self.grader_plugins().values())
        return tuple(function_model(plugin, name=f"grader/{plugin.name}") for plugin in plugins if not plugin.asks_judges)


def function_model(plugin: PluginPlan, *, name: str = "") -> ModelPlan:
    """Describe a function as a model of the plan."""
    return ModelPlan(name=name or f"{FUNCTIONS}/{plugin.name}", provider=FUNCTIONS, model=plugin.name)


# A user may lower the concurrency after rate limits, or move the cache, and resume the same run.
_OPERATION = (
    "run_id", "concurrency", "generation", "judging", "suite", "project", "retention", "parent_run_id", "cache_dir",
    "responses_path", "default_gates", "redact",
)  # fmt: skip
"""May differ when a run is resumed: these settings change when and where things happen, not the results."""


_LATER = {
    "strict_parameters": False,
    "checks": [],
    "pass_rule": "all",
    "graders": [],
    "offered_tools": [],
    "tool_outputs": "replay",
    "tool_calls": {},
}
"""Settings that plans of earlier versions do not have, with the values that count as absent."""
_INCIDENTAL = {
    "providers": ("timeout", "requests_per_minute", "tokens_per_minute", "prices"),
    # The hash of the document covers its own description.
    "datasets": ("path", "file", "created_at", "metadata", "ignored_fields", "fields"),
    # The location of code does not change what it does.
    "plugins": ("reference", "folder"),
}
"""Members of the plan's sections that do not change results either."""


def plan_sha256(plan: Plan) -> str:
    """Hash everything in a plan that can change a result."""
    # From the encoded form: members that are UNSET or omitted do not count, so that a new one with a default changes no hash.
    settings = msgspec.to_builtins(plan)
    for name in _OPERATION:
        del settings[name]
    settings.pop("group", None)
    for section, names in _INCIDENTAL.items():
        settings[section] = [{name: value for name, value in part.items() if name not in names} for part in settings[section]]
    _keep_batch(settings)
    # Plans of earlier versions hash as they did.
    for name, default in _LATER.items():
        if settings[name] == default:
            del settings[name]
    # Compared runs are identified by the hash of their manifest; they may lie in another folder when the run is resumed.
    for run in (settings["comparison"] or {}).get("runs", ()):
        del run["path"]
    rows = {provider.name: PROVIDERS[provider.kind] for provider in plan.providers}
    for model in (settings["candidate"], *settings["judges"]):
        model.pop("price", None)
        row = rows.get(model["provider"])
        # The name of a recording counts, not the folder that it is in.
        if row and row.has_files:
            model["model"] = PurePath(model["model"]).name
        # Earlier versions stored parameters of functions, which never received them.
        if row and not row.has_parameters:
            del model["parameters"]
    return hashlib.sha256(canonical_json(settings)).hexdigest()


def _keep_batch(settings: dict[str, Any]) -> None:
    """Keep only the batch's fallback, which can change results; a plan without a batch hashes as in versions before batches."""
    batch = settings.pop("batch")
    if batch is not None:
        settings["batch"] = {"fallback": batch["fallback"]}


def read_plan(stored: bytes) -> Plan:
    """Decode a stored plan of this version or an earlier one; missing members have their defaults. Raises StoreUnavailable."""
    try:
        return msgspec.json.decode(stored, type=Plan)
    except msgspec.DecodeError as problem:
        raise StoreUnavailable(
            f"the stored plan cannot be read: {problem}", hint="use the version that started the run"
        ) from problem


def plan_for_display(members: Mapping[str, object]) -> Plan:
    """Read the redacted plan of a manifest; a member that only a later version can read has its default.

    Reports of a run need most of its plan, and a run of a later version must not be hidden for one value that no type here knows.
    What repeats or recomputes a run needs every member: `Manifest.settings` raises instead.
    """
    try:
        return msgspec.convert(members, Plan)
    # Member by member only after the whole has failed: lists of hundreds of runs read every plan.
    except msgspec.ValidationError:
        known: dict[str, Any] = {"run_id": "", "datasets": (), "candidate": ModelPlan(name="", provider="", model="")}
    for field in msgspec.structs.fields(Plan):
        with suppress(msgspec.ValidationError, KeyError):
            known[field.name] = msgspec.convert(members[field.encode_name], field.type)
    return Plan(**known)


def as_known_to(earlier: PluginPlan | None, plugin: PluginPlan) -> PluginPlan:
    """Return what an earlier version of assay would know of a plugin, where that version planned the run: no modules it imports."""
    if earlier is None or earlier.imports is not None or not plugin.reference:
        return plugin
    version = plugin.version if plugin.distribution else earlier.version
    return msgspec.structs.replace(plugin, imports=None, version=version)


def changed_settings(before: Plan, now: Plan) -> tuple[str, ...]:
    """List the members that make two plans give different results; empty when none does.

    Compares plans, not stored hashes: a plan that has gained a member since then hashes differently.
    """
    sha256 = plan_sha256(before)
    earlier = {(plugin.kind, plugin.name): plugin for plugin in before.plugins}
    plugins = tuple(as_known_to(earlier.get((plugin.kind, plugin.name)), plugin) for plugin in now.plugins)
    now = msgspec.structs.replace(now, plugins=plugins)
    if plan_sha256(now) == sha256:
        return ()
    # Each member is exchanged alone: a member whose exchange changes the hash is one that the error must name.
    taken = ((name, msgspec.structs.replace(before, **{name: getattr(now, name)})) for name in Plan.__struct_fields__)
    return tuple(name for name, changed in taken if plan_sha256(changed) != sha256) or ("providers",)


def retry_delay(policy: RetrySection, failed_round: int, *, chance: float, retry_after: float | None = None) -> float:
    """Compute the seconds to wait after a failed round; `chance` is uniform in 0..1. Delays are 2, 6, 14, 30 ... seconds."""
    # batch_v1 lists 2, 6 and 14 s, which is 2 * (2**n - 1); the third is needed only with more than three attempts.
    scheduled = policy.base_delay * ((1 << failed_round) - 1)
    jittered = scheduled * (1 - policy.jitter + 2 * policy.jitter * chance)
    # Retry-After may only lengthen the wait, and not without limit: a provider that says "tomorrow" must not hold the run.
    return max(jittered, min(retry_after or 0.0, policy.max_delay))
