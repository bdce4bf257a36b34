"""Plans: everything that decides how a run goes, frozen before the first call and hashed."""

import hashlib
from pathlib import PurePath
from typing import Any, Literal

import msgspec

from assay.core.canonical import canonical_json
from assay.core.errors import StoreUnavailable
from assay.core.provider import FUNCTIONS, PROVIDERS, ProviderKind
from assay.core.redact_rule import RedactRule
from assay.core.retention import RetentionPolicy

ResponseSource = Literal["sampled", "prefilled", "part_of_conversation"]
OnInvalid = Literal["reject", "skip"]
Fallback = Literal["live", "fail"]
RubricMode = Literal["per_criterion", "one_call"]
McqMode = Literal["exact", "any"]
CriterionName = Literal["accuracy", "clarity", "reasoning", "factuality", "overall"]
"""batch_v1: `expected.required_criteria`."""
ProfileId = Literal[
    "prbench", "prbench_normalized", "healthbench", "apex_v1", "lexam_open", "lexam_mcq", "judge_1_5", "weighted_mean"
]
"""How a benchmark scores."""
PluginKind = Literal["grader", "model", "policy", "converter", "contract"]


class Parameters(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Sampling parameters; None leaves a value to the provider."""

    temperature: float | None = 0.0
    top_p: float | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    reasoning_effort: str | None = None
    thinking_budget: int | None = None
    extra_body: dict[str, Any] = {}
    """Members that are sent as they are."""


NO_PARAMETERS = Parameters(temperature=None)
"""Those of a model that is sent none."""


class ProviderPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Where a model is reached and how often it may be called."""

    name: str
    kind: ProviderKind
    base_url: str = ""
    key_variable: str = ""
    """Name of the environment variable that holds the key; the key itself is in no plan."""
    timeout: float = 120.0
    """Seconds for one attempt as a whole, not only between two bytes."""
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    headers: dict[str, str] = {}
    """Extra headers such as a project or region."""


class ModelPlan(msgspec.Struct, frozen=True, kw_only=True):
    """One model of a run: the candidate, or a judge."""

    name: str
    provider: str
    """Name of one of the plan's providers."""
    model: str
    """Exact identifier as the provider knows it."""
    parameters: Parameters = Parameters()


class RetryPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Three attempts, 2 s and 6 s between them, 20 % more or less."""

    max_attempts: int = 3
    jitter: float = 0.2
    base_delay: float = 2.0
    max_delay: float = 60.0
    """The longest wait that a provider's Retry-After may cause."""


class Gates(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a run must reach to pass; None is no gate. All thresholds are inclusive."""

    pass_rate: float | None = None
    min_score: float | None = None
    """Mean score on the scale that the records are graded on; with a profile, its headline."""
    max_error_rate: float | None = None


class PanelPlan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How several judges decide together."""

    quorum: int | None = None
    """Judges who must vote on a question, or the record has no grade; None is all who are asked."""
    escalate: bool = False
    """The first judge is asked alone, and the others where it is unsure."""
    min_confidence: float = 0.7
    """A judge who is asked alone and says that it is less sure than this, is unsure."""


GOLDEN_GATES = Gates(pass_rate=0.8, min_score=3.5, max_error_rate=0.0)
"""Gates of a run over golden datasets alone, where the request sets no others."""


class StageLimits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Limits on all calls of one stage, beside those of the providers; None is no limit."""

    concurrency: int | None = None
    requests_per_minute: float | None = None


class DatasetPlan(msgspec.Struct, frozen=True, kw_only=True):
    """One dataset of a run, as it was read."""

    path: str
    contract: str
    dataset_id: str
    dataset_version: str
    schema_version: str
    sha256: str
    """Of the file's bytes, unpacked."""
    name: str = ""
    file: str = ""
    """The name of the file: where a run is repeated from its input, that of the file which the first run was made from."""
    split_field: str = ""
    split_value: str = ""
    limit: int | None = None
    validation: dict[str, Any] = {}
    """Settings of the validation that are not the default ones."""
    created_at: str = ""
    """As the document says; empty where its contract knows no such time."""
    metadata: dict[str, Any] = {}
    """Of the document as a whole."""
    ignored_fields: tuple[str, ...] = ()
    """Members of the document that its contract does not know; they were accepted and have no effect."""
    fields: dict[str, dict[str, int]] = {}
    """By audience, how many records have each field that the contract leaves open or that no model is sent."""


class ComparedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A finished run whose answers are compared with those of others."""

    run_id: str
    name: str
    """Its candidate; with the id of the run where several runs have the same."""
    path: str
    """Its folder."""
    manifest_sha256: str


class ComparisonPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Whose answers are compared, two at a time."""

    runs: tuple[ComparedRun, ...]
    notes: tuple[str, ...] = ()
    """Records that cannot be compared, in words."""


class PluginPlan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One piece of code that a run uses, as its manifest names it."""

    kind: PluginKind
    name: str
    """As the run calls it: the name of an entry point, or `module:function`."""
    reference: str = ""
    """Where any process finds it, `module:function` or `file.py:function`; empty where it must be given again."""
    folder: str = ""
    """Where its module was looked for beside what is installed."""
    distribution: str = ""
    version: str = ""
    source_sha256: str = ""
    """Of the module that it stands in; of its own source and all that it holds where it was given in Python; empty where there is
    none to read."""
    unknown: tuple[str, ...] = ()
    """What of it nobody can compare with what another process has, such as `client: a Client`."""
    token: str = ""
    """What the process that planned the run calls the unknown; nobody else has the same. Empty where all is known."""
    grades: bool = False
    """A grader, or a policy that says how answers are graded too."""
    asks_judges: bool = False
    """Its grading is a generator: it is not called for a grade, but driven from ask to ask."""
    by_record: bool = False
    """A policy that only the records use whose `metadata.policy_id` has its name."""


class ImportedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of another tool that a run was made from."""

    name: str
    sha256: str
    """Of the file's bytes, unpacked where it was a gzip file."""


class ImportPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Where a run comes from that was made by another tool: nobody was asked here, and nobody graded here."""

    tool: str
    version: str
    """Of the tool; empty where its files do not say it."""
    scorer: str
    """Whose scores are the grades of the run."""
    scale: str
    other_scorers: tuple[str, ...] = ()
    """Whose scores are beside the grades, with no weight."""
    files: tuple[ImportedFile, ...] = ()
    evaluated_at: str = ""
    """When the tool made its run, in its own words."""
    left_out: dict[str, int] = {}
    """What the files have and the run has not, by name, and how often."""
    incomplete: tuple[str, ...] = ()
    """Which files hold less than the other tool was to evaluate, in words."""


class BatchPlan(msgspec.Struct, frozen=True, kw_only=True):
    """How the candidate's answers are had from its provider's batches, for half the price."""

    fallback: Fallback = "live"
    """What becomes of a request without an answer: it is asked by itself, or its record fails."""
    max_requests: int | None = None
    """In one batch; None is what the provider takes."""
    max_bytes: int | None = None
    """Of one batch; None is what the provider takes."""
    poll_seconds: float = 30.0
    """How long the first wait between two looks at the batches is; later ones are up to four times as long."""


DEFAULT_PROJECT = "default"
"""The project of API keys that name no other, and of runs that no key with another one has made."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of one run: one candidate, its judges, its data, its limits."""

    run_id: str
    datasets: tuple[DatasetPlan, ...]
    candidate: ModelPlan
    judges: tuple[ModelPlan, ...] = ()
    panel: PanelPlan = PanelPlan()
    providers: tuple[ProviderPlan, ...] = ()
    response_source: ResponseSource = "sampled"
    responses_path: str = ""
    responses_sha256: str = ""
    system_prompt: str = ""
    """Sent to the candidate under the default policy, where the case has none of its own."""
    retry: RetryPlan = RetryPlan()
    concurrency: int = 32
    """Calls in flight at most."""
    generation: StageLimits = StageLimits()
    judging: StageLimits = StageLimits()
    max_cost: float | None = None
    """US dollars after which no new call is made."""
    gates: Gates = Gates()
    default_gates: tuple[str, ...] = ()
    """Names of those gates that are the contract's, because the request sets none."""
    profile: ProfileId | None = None
    """The benchmark whose score is computed beside our own figures."""
    compat: bool = False
    """The profile treats failures as the benchmark does; otherwise they have no score."""
    slices: tuple[str, ...] = ("tags", "dataset")
    cluster_key: str = ""
    pass_threshold: float = 0.7
    """A normalised score from which a case passes, where its contract has no scale of its own."""
    case_pass_score: int = 4
    """A 1-5 score from which a case passes."""
    rubric_mode: RubricMode = "per_criterion"
    """One judge call for each criterion of a rubric, or one call for all of them."""
    mcq_mode: McqMode = "exact"
    """Multiple choice with several correct choices: all of them and none besides, or any of them."""
    criteria: tuple[CriterionName, ...] = ()
    """What records of batch_v1 are judged by that name no criteria themselves; empty stands for `overall`."""
    on_invalid: OnInvalid = "reject"
    records: tuple[str, ...] = ()
    """Ids of the records that take part; empty for all."""
    limit: int | None = None
    sample: int | None = None
    seed: int = 0
    """Of the sample and of resampled intervals."""
    repeat: int = 1
    """How often every record is asked; each answer is evaluated on its own."""
    keep_raw: bool = False
    """Keep the providers' whole replies in the attempt log, redacted."""
    cache_dir: str = ""
    suite: str = ""
    """Groups the runs of several candidates."""
    project: str = DEFAULT_PROJECT
    """The API keys of this project may see the run."""
    retention: RetentionPolicy = RetentionPolicy()
    """For how many days the artifacts are kept."""
    parent_run_id: str = ""
    """The run whose failed records this one repeats."""
    comparison: ComparisonPlan | None = None
    """The runs whose answers are compared; nobody is asked for one."""
    imported: ImportPlan | None = None
    """Where answers and grades come from, when another tool made them."""

    plugins: tuple[PluginPlan, ...] = ()
    """Code of others that the run uses."""
    redact: tuple[RedactRule, ...] = ()
    """Custom redaction rules."""
    batch: BatchPlan | None = None
    """The candidate is asked in batches of its provider; None asks it record by record."""

    def models(self) -> tuple[ModelPlan, ...]:
        """The candidate, then the judges."""
        return (self.candidate, *self.judges)

    def takes_parameters(self, model: ModelPlan) -> bool:
        """False for a model that is sent no parameters: a function."""
        kinds = (provider.kind for provider in self.providers if provider.name == model.provider)
        return all(PROVIDERS[kind].has_parameters for kind in kinds)

    def policy(self) -> PluginPlan | None:
        """The run's own policy, which all records are asked by."""
        return next((plugin for plugin in self.plugins if plugin.kind == "policy" and not plugin.by_record), None)

    def record_policies(self) -> dict[str, PluginPlan]:
        """The custom policies that records choose, by the name that they choose them by."""
        return {plugin.name: plugin for plugin in self.plugins if plugin.by_record}

    def grader(self) -> PluginPlan | None:
        """The run's own grader, which may be that of its policy."""
        return next((plugin for plugin in self.plugins if plugin.grades), None)

    def called_grader(self) -> ModelPlan | None:
        """The run's own grader, where it is called like a judge; one that asks judges itself is called by nobody else."""
        grader = self.grader()
        return None if grader is None or grader.asks_judges else function_model(grader, name=f"grader/{grader.name}")


def function_model(plugin: PluginPlan, *, name: str = "") -> ModelPlan:
    """How a plan names a function among its models."""
    return ModelPlan(name=name or f"{FUNCTIONS}/{plugin.name}", provider=FUNCTIONS, model=plugin.name)


_OPERATION = (
    "run_id", "concurrency", "generation", "judging", "suite", "project", "retention", "parent_run_id", "cache_dir",
    "responses_path", "default_gates", "redact",
)  # fmt: skip
"""What may differ between the start of a run and its resumption: it changes when and where things happen, not what."""


_INCIDENTAL = {
    "providers": ("timeout", "requests_per_minute", "tokens_per_minute"),
    # What the document says of itself is covered by its hash.
    "datasets": ("path", "file", "created_at", "metadata", "ignored_fields", "fields"),
    # Where code lies does not change what it does.
    "plugins": ("reference", "folder"),
}
"""The same of the parts of a plan."""


def plan_sha256(plan: Plan) -> str:
    """The hash of everything in a plan that can change a result."""
    settings = msgspec.to_builtins(plan)
    for name in _OPERATION:
        del settings[name]
    for section, names in _INCIDENTAL.items():
        settings[section] = [{name: value for name, value in part.items() if name not in names} for part in settings[section]]
    _keep_batch(settings)
    for run in (settings["comparison"] or {}).get("runs", ()):
        del run["path"]
    rows = {provider.name: PROVIDERS[provider.kind] for provider in plan.providers}
    for model in (settings["candidate"], *settings["judges"]):
        row = rows.get(model["provider"])
        # Of a recording the name counts, not the folder that it happens to be in.
        if row and row.has_files:
            model["model"] = PurePath(model["model"]).name
        # Earlier versions stated parameters of functions, which never got them.
        if row and not row.has_parameters:
            del model["parameters"]
    return hashlib.sha256(canonical_json(settings)).hexdigest()


def _keep_batch(settings: dict[str, Any]) -> None:
    """Of a batch only what becomes of the unanswered can change a result; a plan without one hashes as plans always did."""
    batch = settings.pop("batch")
    if batch is not None:
        settings["batch"] = {"fallback": batch["fallback"]}


def read_plan(stored: bytes) -> Plan:
    """A plan as it was stored, by this version or an earlier one: what it does not say has its default. Raises StoreUnavailable."""
    try:
        return msgspec.json.decode(stored, type=Plan)
    except msgspec.DecodeError as problem:
        raise StoreUnavailable(
            f"the stored plan cannot be read: {problem}", hint="use the version that started the run"
        ) from problem


def changed_settings(before: Plan, now: Plan) -> tuple[str, ...]:
    """The members that make two plans give different results; empty when they differ in nothing that matters.

    Plans are compared, not the hashes that were stored with them: a plan that has gained a member since then hashes differently.
    """
    sha256 = plan_sha256(before)
    if plan_sha256(now) == sha256:
        return ()
    taken = ((name, msgspec.structs.replace(before, **{name: getattr(now, name)})) for name in Plan.__struct_fields__)
    return tuple(name for name, changed in taken if plan_sha256(changed) != sha256) or ("providers",)


def retry_delay(policy: RetryPlan, failed_round: int, *, chance: float, retry_after: float | None = None) -> float:
    """Seconds to wait after a failed round; `chance` is uniform in 0..1. Delays are 2, 6, 14, 30 ... seconds."""
    scheduled = policy.base_delay * ((1 << failed_round) - 1)
    jittered = scheduled * (1 - policy.jitter + 2 * policy.jitter * chance)
    return max(jittered, min(retry_after or 0.0, policy.max_delay))
