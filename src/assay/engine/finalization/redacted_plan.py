"""A plan as it may be shown: its names, paths and parameters without what must not be kept."""

from collections.abc import Iterable, Mapping
from pathlib import PurePath
from urllib.parse import urlsplit

import msgspec

from assay.core.canonical import JsonObject
from assay.core.plan import ComparisonPlan, DatasetPlan, ImportPlan, ModelPlan, Plan, PluginPlan
from assay.core.provider import PROVIDERS
from assay.core.redact_rule import RedactRule
from assay.engine.finalization.forms import OWN_NAMES
from assay.engine.storage.run_paths import ACTIVE, UPLOAD
from assay.grading.judge_call import quoted
from assay.models.endpoint import provider_secrets
from assay.store.redact import Redactor, StructureFields

_CALLS = 4096
"""Ids of calls that are remembered: those of a run repeat from record to record, unless each has criteria of its own."""
_replace = msgspec.structs.replace
_USERS = frozenset(("system_prompt", "responses_path", "records", "suite", "base_url", "headers", "extra_body"))
"""Members of a plan that hold free text or objects of the user."""
_PLAN = StructureFields(
    terms=frozenset(Plan.__struct_fields__) - {"providers", "candidate", "judges"} - _USERS
    | {"name", "provider", "model", "kind", "key_variable", "reasoning_effort"},
    free=frozenset(("headers", "extra_body")),
)


def is_uploaded(plan: Plan) -> bool:
    """True for a run over what a client has sent to a server."""
    return any(PurePath(dataset.path).parent.parts[-3:] == (ACTIVE, plan.run_id, UPLOAD) for dataset in plan.datasets)


def without_folders(plan: Plan) -> Plan:
    """The plan of a submitted run without the folders of the server, which are nobody else's business."""
    files = {provider.name for provider in plan.providers if PROVIDERS[provider.kind].has_files}

    def model(named: ModelPlan) -> ModelPlan:
        return _replace(named, model=PurePath(named.model).name) if named.provider in files else named

    return _replace(
        plan,
        datasets=tuple(_replace(dataset, path=PurePath(dataset.path).name) for dataset in plan.datasets),
        candidate=model(plan.candidate),
        judges=tuple(map(model, plan.judges)),
        responses_path=PurePath(plan.responses_path).name,
        cache_dir=PurePath(plan.cache_dir).name,
        plugins=tuple(_replace(one, folder="", reference=PurePath(one.reference).name) for one in plan.plugins),
    )


def custom_policies(plan: Plan) -> dict[str, str]:
    """The hashes of the run's own policies by name; one whose source cannot be read has none."""
    return {plugin.name: plugin.source_sha256 for plugin in plan.plugins if plugin.kind == "policy" and plugin.source_sha256}


class RedactedPlan:
    """A plan beside its redacted names; one for all records of a run, so that each name is looked at once."""

    def __init__(self, plan: Plan, redactor: Redactor) -> None:
        plan = without_folders(plan) if is_uploaded(plan) else plan
        self.plan = plan
        self.redactor = redactor
        self.candidate = _model(plan.candidate, redactor)
        self.judges = tuple(_model(judge, redactor) for judge in plan.judges)
        self.datasets = tuple(_dataset(dataset, redactor) for dataset in plan.datasets)
        self.plugins = tuple(_plugin(plugin, redactor) for plugin in plan.plugins)
        self.comparison = plan.comparison and _comparison(plan.comparison, redactor)
        models = zip(plan.models(), (self.candidate, *self.judges), strict=True)
        self._names = {model.name: shown.name for model, shown in models}
        self.has_redacted_names = any(name != shown for name, shown in self._names.items())
        self.policy_hashes = custom_policies(plan)
        self._applied: dict[str, tuple[JsonObject, JsonObject]] = {}
        self._judges = frozenset(quoted(judge.name) for judge in plan.judges)
        self._kept_calls: set[str] = set()

    def name(self, name: str) -> str:
        """The name of one of the plan's models."""
        shown = self._names.get(name)
        if shown is None:
            shown = self._names[name] = self.redactor.term(name)
        return shown

    def call(self, call_id: str) -> str:
        """The id of a call; one of the plan's judges after the @ makes no address of e-mail of it: `rubric@house.strict`."""
        if call_id in self._kept_calls:
            return call_id
        about, _, asked = call_id.partition("@")
        parts = (about, asked) if asked.partition(":")[0] in self._judges else (call_id,)
        shown = "@".join(map(self.redactor.term, parts))
        if shown == call_id and len(self._kept_calls) < _CALLS:
            self._kept_calls.add(call_id)
        return shown

    def applied(self, model: str, applied: JsonObject) -> JsonObject:
        """Parameters as they were sent, which are nearly always those of the model's last call."""
        last = self._applied.get(model)
        if last is None or last[0] != applied:
            last = self._applied[model] = (applied, self.redactor.structure(applied, OWN_NAMES))
        return last[1]

    def members(self) -> JsonObject:
        """The whole plan as JSON-like values; hashes stay, though one of many digits may look like the number of a card."""
        plan = self.plan
        imported = plan.imported and _imported(plan.imported, self.redactor)
        bare = _replace(plan, datasets=(), responses_sha256="", comparison=None, imported=None, plugins=())
        hashless = _replace(bare, candidate=self.candidate, judges=self.judges)
        shown: JsonObject = self.redactor.structure(msgspec.to_builtins(hashless), _PLAN)
        shown["redact"] = [{"name": rule.name, "pattern": self._pattern(rule)} for rule in plan.redact]
        hashed = {"datasets": self.datasets, "comparison": self.comparison, "imported": imported, "plugins": self.plugins}
        # Whose run it is decides who may see it, so that it is never changed.
        kept = {**hashed, "responses_sha256": plan.responses_sha256, "project": plan.project}
        return {**shown, **msgspec.to_builtins(kept)}

    def _pattern(self, rule: RedactRule) -> str:
        """The pattern of a custom rule; one in which a rule finds something, perhaps itself, is not shown."""
        return rule.pattern if self.redactor.text(rule.pattern) == rule.pattern else f"[REDACTED:{rule.name}]"


def own_secrets(plan: Plan, environ: Mapping[str, str]) -> tuple[str, ...]:
    """What a plan's providers are called with and nobody may read: it is redacted wherever it turns up."""
    return tuple(secret for provider in plan.providers for secret in provider_secrets(provider, environ))


def redactor_of(plan: Plan, environ: Mapping[str, str]) -> Redactor:
    """Make a redactor with a plan's own keys and custom rules."""
    return plan_redactor(plan, own_secrets(plan, environ))


def plan_redactor(plan: Plan, secrets: Iterable[str]) -> Redactor:
    """Make a redactor with these keys and a plan's custom rules, which keeps the hosts of the plan's providers."""
    hosts = (urlsplit(provider.base_url).hostname or "" for provider in plan.providers)
    return Redactor(secrets, plan.redact, known_hosts=hosts)


def _model(model: ModelPlan, redactor: Redactor) -> ModelPlan:
    parameters = _replace(model.parameters, extra_body=redactor.value(model.parameters.extra_body))
    texts = {name: redactor.term(getattr(model, name)) for name in ("name", "provider", "model")}
    return _replace(model, parameters=parameters, **texts)


def _dataset(dataset: DatasetPlan, redactor: Redactor) -> DatasetPlan:
    is_own_version = dataset.dataset_version == f"sha256:{dataset.sha256[:12]}"
    return _replace(
        dataset,
        path=redactor.text(dataset.path),
        dataset_id=redactor.text(dataset.dataset_id),
        dataset_version=dataset.dataset_version if is_own_version else redactor.term(dataset.dataset_version),
        name=redactor.text(dataset.name),
        file=redactor.text(dataset.file),
        split_field=redactor.term(dataset.split_field),
        split_value=redactor.text(dataset.split_value),
        metadata=redactor.value(dataset.metadata),
        ignored_fields=tuple(map(redactor.text, dataset.ignored_fields)),
        fields={
            audience: {redactor.text(name): count for name, count in counts.items()} for audience, counts in dataset.fields.items()
        },
    )


def _plugin(plugin: PluginPlan, redactor: Redactor) -> PluginPlan:
    texts = {name: redactor.term(getattr(plugin, name)) for name in ("name", "reference", "folder")}
    imports = plugin.imports and {redactor.term(name): sha256 for name, sha256 in plugin.imports.items()}
    return _replace(plugin, imports=imports, **texts)


def _comparison(comparison: ComparisonPlan, redactor: Redactor) -> ComparisonPlan:
    runs = (
        _replace(run, **{name: redactor.term(getattr(run, name)) for name in ("run_id", "name", "path")}) for run in comparison.runs
    )
    return ComparisonPlan(runs=tuple(runs), notes=tuple(map(redactor.text, comparison.notes)))


def _imported(imported: ImportPlan, redactor: Redactor) -> ImportPlan:
    files = tuple(_replace(file, name=redactor.text(file.name)) for file in imported.files)
    texts = {name: redactor.text(getattr(imported, name)) for name in ("tool", "version", "scorer", "evaluated_at")}
    others = tuple(map(redactor.text, imported.other_scorers))
    left_out = {redactor.text(name): times for name, times in imported.left_out.items()}
    incomplete = tuple(map(redactor.text, imported.incomplete))
    return _replace(imported, files=files, other_scorers=others, left_out=left_out, incomplete=incomplete, **texts)
