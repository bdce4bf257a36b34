"""The manifest of a finished run: the type of `run_manifest.json`, written at its end and read by everything that shows a run.

The struct is encoded as canonical JSON, so that the order of its members does not matter. What earlier versions did not write has a
default here, and `read_manifest` is the only reader; members of later versions are ignored, and stay in `PublishedRun.members`.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import Literal

import msgspec

from assay.core.canonical import JsonObject
from assay.core.errors import RunDamaged
from assay.core.model_call import Adjustment
from assay.core.plan import ModelPlan, Plan, plan_for_display
from assay.core.retention import RetentionPolicy
from assay.core.runs import RunCounts, State
from assay.core.summary import GateResult

MANIFEST_VERSION = "1"
OWN_HASH = "manifest_sha256"
"""Member of the manifest: SHA-256 of its canonical JSON without this member."""


class ArtifactHash(msgspec.Struct, frozen=True):
    """Hash and size of one file, as the manifest lists them."""

    sha256: str
    bytes: int
    lines: int
    """Newline characters."""


class StateEntry(msgspec.Struct, frozen=True):
    """A state that the run was in, and since when."""

    state: State
    entered_at: str


class IgnoredFields(msgspec.Struct, frozen=True):
    """Members of a dataset's document that its contract does not know; they were accepted and had no effect."""

    dataset_id: str
    fields: tuple[str, ...]


class UnsentFields(msgspec.Struct, frozen=True):
    """Fields of a dataset's records that no model was sent, with the number of records that have them."""

    dataset_id: str
    fields: dict[str, int]


class ScoringProfile(msgspec.Struct, frozen=True):
    """The benchmark by whose rules the run is scored."""

    id: str
    version: str
    sha256: str
    compat: bool

    @property
    def name(self) -> str:
        """`prbench` or `prbench (compat)`."""
        return f"{self.id} (compat)" if self.compat else self.id


class RescoredRun(msgspec.Struct, frozen=True):
    """The run whose answers and grades a rescored run has."""

    run_id: str
    manifest_sha256: str
    completed_at: str
    """When its answers were graded, however often they were rescored since."""


class PastFailure(msgspec.Struct, frozen=True):
    """A failure of the run as a whole, after which it was resumed."""

    code: str
    message: str
    failed_at: str
    resumed_at: str | None


class BatchEntry(msgspec.Struct, frozen=True):
    """Final state of one batch of requests to a provider."""

    number: int
    batch_id: str | None
    status: str
    submitted_at: str
    requests: int
    bytes: int
    input_sha256: str
    answered: int
    errors: dict[str, int]
    asked_live: int
    duplicates: int
    unknown: int
    malformed: int
    problems: tuple[str, ...] = ()


LimitOrigin = Literal["user", "provider", "model"]
"""Who set an output limit: the user, the provider by its rejection of a higher one, or the model itself."""


class NegotiatedModel(msgspec.Struct, frozen=True):
    """Differences of a model's parameters from the plan, which its provider rejected, and its output limit."""

    model: str
    adjustments: tuple[Adjustment, ...] = ()
    output_limit: int | None = None
    """Tokens of the longest answer; None where no limit was sent, which is the model's own maximum."""
    output_limit_origin: LimitOrigin = "model"
    reply_format: str = ""
    """Of a judge, how its replies were requested: `json_schema`, `json_object`, `tools` or `plain`; empty where nothing is sent
    besides the prompt by the plan itself, and for models that are not called over HTTP."""


# dict=True gives cached_property a place to store the plan; nothing else is ever added to a manifest.
class Manifest(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """`run_manifest.json`: what a run was, how it ended, and the hashes of all its files."""

    manifest_version: str = MANIFEST_VERSION
    assay_version: str = ""
    """The version that wrote it."""
    run_id: str
    status: State
    created_at: str
    started_at: str | None = None
    completed_at: str | None = None
    """None only of a run that has not ended."""
    states: tuple[StateEntry, ...] = ()
    contract: str = ""
    """Of the first dataset, as are the three below."""
    dataset_id: str
    dataset_version: str
    schema_version: str = ""
    counts: RunCounts
    gate: GateResult
    model: str = ""
    """Of the candidate, at its provider."""
    # Sampling parameters stand here again although the plan has them: batch_v1 names them as members of the manifest.
    temperature: int | float | None = None
    """As it was written: reports show 0, not 0.0."""
    top_p: int | float | None = None
    max_new_tokens: int | None = None
    seed: int | None = None
    candidate: ModelPlan
    judges: tuple[ModelPlan, ...] = ()
    ignored_fields: tuple[IgnoredFields, ...] = ()
    not_sent: tuple[UnsentFields, ...] = ()
    evaluator_version: str = ""
    """Product that graded: assay, or the tool that the run was imported from."""
    policies: dict[str, str] = {}
    """Hashes of the policies by name."""
    templates: dict[str, str] = {}
    """Hashes of the prompt templates by id and version."""
    profile: ScoringProfile | None = None
    rescored_from: RescoredRun | None = None
    retention: RetentionPolicy = RetentionPolicy()
    # Kept as JSON: decoding and encoding the plan again could drop a member of a later version, or write 0 as 0.0.
    plan_members: JsonObject = msgspec.field(name="plan")
    """The settings, redacted and exactly as they were written; everything but JSON output reads `plan`."""
    plan_sha256: str = ""
    """Of the plan before redaction."""
    blocked: str | None = None
    """Reason why a provider accepted no more calls."""
    failures: tuple[PastFailure, ...] | msgspec.UnsetType = msgspec.UNSET
    """Only of a run that was resumed after one."""
    batches: tuple[BatchEntry, ...] = ()
    negotiated: tuple[NegotiatedModel, ...] = ()
    """What each model was sent instead of the plan's parameters; empty in runs of earlier versions."""
    redactions: dict[str, int] = {}
    """Number of redactions by rule."""
    records_merkle_root: str = ""
    """Of the hashes of all records, in the order of predictions.jsonl."""
    attempt_chain_sha256: str = ""
    """End of the hash chain of attempt_logs.jsonl."""
    environment: dict[str, str] = {}
    artifacts: dict[str, ArtifactHash] | msgspec.UnsetType = msgspec.UNSET
    """Added when the run is sealed, as is the last member."""
    # The hash covers everything but itself; `assay verify` removes this one member and computes it again.
    manifest_sha256: str | msgspec.UnsetType = msgspec.UNSET
    """Of the canonical JSON of the members above."""

    @cached_property
    def plan(self) -> Plan:
        """Return the settings for lists and reports; members that only a later version can read have their defaults."""
        # Lenient: a value that only a later version knows must not hide the run from lists and reports.
        return plan_for_display(self.plan_members)

    @cached_property
    def settings(self) -> Plan:
        """Return the settings for repeating or recomputing the run; raises RunDamaged if this version cannot read them all."""
        try:
            # Strict: repeating a run with a default in the place of a setting would give other results under the same name.
            return msgspec.convert(self.plan_members, Plan)
        except msgspec.ValidationError as problem:
            raise RunDamaged(f"the plan in the manifest of run '{self.run_id}' cannot be read: {problem}") from problem

    @property
    def files(self) -> dict[str, ArtifactHash]:
        """Return the hashes of all other files by name; empty before the run is sealed."""
        return {} if self.artifacts is msgspec.UNSET else self.artifacts

    @property
    def own_hash(self) -> str:
        """Return the manifest's own hash; empty before the run is sealed."""
        return "" if self.manifest_sha256 is msgspec.UNSET else self.manifest_sha256


def read_manifest(document: Mapping[str, object]) -> Manifest:
    """Read the manifest of any version; raises msgspec.ValidationError for a document that is not one."""
    return msgspec.convert(document, Manifest)
