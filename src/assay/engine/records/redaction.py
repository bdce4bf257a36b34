"""Redaction of what a run stores: its plan, its rows and its parameters without secrets."""

import re
from collections.abc import Iterable, Mapping
from pathlib import PurePath
from typing import Any
from urllib.parse import urlsplit

import msgspec
from msgspec import UNSET

from assay.core.canonical import JsonObject
from assay.core.case import Attachment, Case, Choice, Criterion, Message, Turn
from assay.core.contract import CONTRACTS, ROW_MEMBERS
from assay.core.plan import ComparisonPlan, DatasetPlan, ImportPlan, ModelPlan, Plan, PluginPlan, TablePlan
from assay.core.provider import PROVIDERS
from assay.core.secrets import REDACTION_MARK, RedactRule
from assay.datasets import read
from assay.datasets.batch_v1.rules import check_head
from assay.datasets.parsing.config import ValidationConfig
from assay.datasets.parsing.source import open_source
from assay.engine.storage.run_paths import ACTIVE, GIVEN, UPLOAD
from assay.grading.judge_call import escape_call_id
from assay.models.endpoint import provider_secrets
from assay.store.redact import Redactor, StructureFields


def _form(*, names: str, terms: str, free: str = "metadata") -> StructureFields:
    given = frozenset(terms.split())
    return StructureFields(names=given | {*names.split(), *free.split()}, terms=given, free=frozenset(free.split()))


_STRUCTS = (Case, Message, Criterion, Choice, Attachment, Turn)

CASE = _form(
    names=" ".join(name for struct in _STRUCTS for name in struct.__struct_fields__),
    terms="id contract task role speaker correct_choice_ids policy_id sha256 record_sha256",
    free="metadata extra tool_input tool_output",
)

ROWS: Mapping[str, StructureFields] = {
    "legal_eval_v1": _form(
        names="dataset prompt messages content context reference_answers rubric title description weight choices text attachments"
        " path kind",
        terms="schema_version task_type role id correct_choice_ids",
    ),
    "batch_v1": _form(
        names="dataset_id records record_id input prompt reference answer tags expected max_latency_ms",
        terms="schema_version dataset_version created_at required_criteria",
    ),
    "golden_v1": _form(names="description cases user_prompt rubric context tags", terms="version id"),
    "conversation_v1": _form(
        names="turn_id message assistant_reply tool_used confidence_score",
        terms="speaker",
        free="metadata tool_input tool_output",
    ),
}
"""Members of each contract's rows and documents that may be stored; those of plugins are the user's."""

ISSUES = StructureFields(terms=frozenset(("code", "severity", "error_type", "name", "details")))
OWN_NAMES = StructureFields()
"""All names and numbers are the program's, and all texts may be the user's."""


_CALLS = 4096
"""Ids of calls that are remembered: those of a run repeat from record to record, unless each has criteria of its own."""
_replace = msgspec.structs.replace
_USERS = frozenset(("system_prompt", "responses_path", "records", "suite", "base_url", "headers", "body", "extra_body"))
"""Members of a plan that hold free text or objects of the user."""
_PLAN = StructureFields(
    terms=frozenset(Plan.__struct_fields__) - {"providers", "candidate", "judges"} - _USERS
    | {"name", "provider", "model", "kind", "key_variable", "reasoning_effort"},
    free=frozenset(("headers", "body", "extra_body")),
)


def is_uploaded(plan: Plan) -> bool:
    """Return True for a run over a dataset that a client has uploaded to a server."""
    return any(_is_in(dataset, plan, UPLOAD) for dataset in plan.datasets)


def is_given(plan: Plan) -> bool:
    """Return True for a run over a dataset that was given in memory."""
    return any(_is_in(dataset, plan, GIVEN) for dataset in plan.datasets)


def _is_in(dataset: DatasetPlan, plan: Plan, folder: str) -> bool:
    """Return True for a dataset in a folder of the run's working state."""
    return PurePath(dataset.path).parent.parts[-3:] == (ACTIVE, plan.run_id, folder)


def without_folders(plan: Plan) -> Plan:
    """Return the plan of a submitted run without the server's folders, which are not for clients."""
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


def _without_given_folder(plan: Plan) -> Plan:
    """Return the plan of a run over data in memory without the folder that keeps them until its end."""
    return _replace(plan, datasets=tuple(_replace(dataset, path=PurePath(dataset.path).name) for dataset in plan.datasets))


def custom_policies(plan: Plan) -> dict[str, str]:
    """Return the hashes of the run's custom policies by name; those without a readable source are left out."""
    return {plugin.name: plugin.source_sha256 for plugin in plan.plugins if plugin.kind == "policy" and plugin.source_sha256}


class RedactedPlan:
    """A plan with its redacted names; one for all records of a run, so that each name is redacted once."""

    def __init__(self, plan: Plan, redactor: Redactor) -> None:
        # Paths of the server are for no client, and redaction alone would keep them.
        plan = without_folders(plan) if is_uploaded(plan) else _without_given_folder(plan) if is_given(plan) else plan
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
        self._judges = frozenset(escape_call_id(judge.name) for judge in plan.judges)
        self._kept_calls: set[str] = set()

    def name(self, name: str) -> str:
        """Return the name of one of the plan's models."""
        shown = self._names.get(name)
        if shown is None:
            shown = self._names[name] = self.redactor.term(name)
        return shown

    def call(self, call_id: str) -> str:
        """Return the shown id of a call; a judge's name after the @ must not look like an e-mail address: `rubric@house.strict`."""
        if call_id in self._kept_calls:
            return call_id
        # In two parts: `rubric@house.strict` would match the rule for e-mail addresses.
        about, _, asked = call_id.partition("@")
        parts = (about, asked) if asked.partition(":")[0] in self._judges else (call_id,)
        shown = "@".join(map(self.redactor.term, parts))
        # Only ids that stay as they are: redaction counts each hit, and a remembered one would not be counted.
        if shown == call_id and len(self._kept_calls) < _CALLS:
            self._kept_calls.add(call_id)
        return shown

    def applied(self, model: str, applied: JsonObject) -> dict[str, object]:
        """Return the sent parameters, which are nearly always those of the model's last call."""
        last = self._applied.get(model)
        # Redacting the same parameters for each of a million attempts would be most of the work.
        if last is None or last[0] != applied:
            last = self._applied[model] = (applied, self.redactor.structure(applied, OWN_NAMES))
        return last[1]

    def members(self) -> dict[str, object]:
        """Return the plan as JSON-like values; hashes are exempt, since many digits can look like a card number."""
        plan = self.plan
        imported = plan.imported and _imported(plan.imported, self.redactor)
        # Taken out before redaction and put back after it, each redacted by its own function.
        bare = _replace(plan, datasets=(), responses_sha256="", comparison=None, imported=None, plugins=())
        graders = tuple(_replace(one, prompt=one.prompt and _replace(one.prompt, sha256="")) for one in plan.graders)
        hashless = _replace(bare, candidate=self.candidate, judges=self.judges, graders=graders)
        shown: JsonObject = self.redactor.structure(msgspec.to_builtins(hashless), _PLAN)
        for grader, members in zip(plan.graders, shown["graders"], strict=True):
            if grader.prompt is not None:
                members["prompt"]["sha256"] = grader.prompt.sha256
        shown["redact"] = [{"name": rule.name, "pattern": self._pattern(rule)} for rule in plan.redact]
        hashed = {"datasets": self.datasets, "comparison": self.comparison, "imported": imported, "plugins": self.plugins}
        # Whose run it is decides who may see it, so that it is never changed.
        kept = {**hashed, "responses_sha256": plan.responses_sha256, "project": plan.project}
        return {**shown, **msgspec.to_builtins(kept)}

    def _pattern(self, rule: RedactRule) -> str:
        """Return the pattern of a custom rule; one that itself matches a rule is not shown."""
        return rule.pattern if self.redactor.text(rule.pattern) == rule.pattern else f"[REDACTED:{rule.name}]"


def own_secrets(plan: Plan, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the secrets with which a plan's providers are called, to be redacted wherever they appear."""
    return tuple(secret for provider in plan.providers for secret in provider_secrets(provider, environ))


def redactor_of(plan: Plan, environ: Mapping[str, str]) -> Redactor:
    """Make a redactor with a plan's own keys and custom rules."""
    return plan_redactor(plan, own_secrets(plan, environ))


def plan_redactor(plan: Plan, secrets: Iterable[str]) -> Redactor:
    """Make a redactor with these keys and a plan's custom rules, which keeps the hosts of the plan's providers."""
    # A server may be named by its IP address, which a built-in rule would replace, and the plan must say what was called.
    hosts = (urlsplit(provider.base_url).hostname or "" for provider in plan.providers)
    return Redactor(secrets, plan.redact, known_hosts=hosts)


def _model(model: ModelPlan, redactor: Redactor) -> ModelPlan:
    parameters = _replace(model.parameters, extra_body=redactor.value(model.parameters.extra_body))
    texts = {name: redactor.term(getattr(model, name)) for name in ("name", "provider", "model")}
    return _replace(model, parameters=parameters, **texts)


def _dataset(dataset: DatasetPlan, redactor: Redactor) -> DatasetPlan:
    # Twelve hexadecimal digits may all be decimal, and then look like a card or telephone number.
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
        table=UNSET if dataset.table is UNSET else _table(dataset.table, redactor),
    )


def _table(table: TablePlan, redactor: Redactor) -> TablePlan:
    """Redact what a table says: names of columns may be anything, and so may the evidence that repeats them."""
    return msgspec.convert(redactor.value(msgspec.to_builtins(table)), TablePlan)


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


_SHORT_MARKS = ("[R]", "*")
_NOT_IN_DATASET_ID = re.compile(r"[^A-Za-z0-9_.-]+")
_NOT_IN_CASE_ID = re.compile(r"[^a-z0-9-]+")
_SURELY_SHORT = 32
"""No contract has a limit for ids that is less than this."""
_decode, _encode = msgspec.json.decode, msgspec.json.encode


class RowRedactor:
    """Redacts the rows of one dataset.

    A mark may be longer than what it replaces. Where a row would break a limit of its contract that way, its marks become short.
    """

    def __init__(self, redactor: Redactor, contract: str, validation: Mapping[str, object]) -> None:
        self._redactor = redactor
        self._contract = contract
        settings = msgspec.convert(validation, ValidationConfig)
        # One row is checked at a time, so limits on the number of records do not apply.
        self._config = msgspec.structs.replace(settings, allow_size=True, lint=False)

    def row(self, text: bytes, given_id: str | None, shown_id: str | None) -> bytes:
        """Return a row's JSON as it may be stored; `shown_id` is the id that artifacts show for `given_id`."""
        given = _decode(text)
        if self._contract not in CONTRACTS:
            return _encode(self._value(given))
        row = self._with_ids(given, self._value(given), shown_id, is_redacted=shown_id != given_id)
        # The cheap test first: validating every row again would be slow.
        if not _has_grown(given, row) or self._is_valid(row):
            return _encode(row)
        short_id = _short_id(given_id, shown_id) if given_id and shown_id and shown_id != given_id else shown_id
        short = _no_longer(given, self._value(given))
        return _encode(self._with_ids(given, short, short_id, is_redacted=shown_id != given_id))

    def head(self, given: Mapping[str, object]) -> dict[str, object]:
        """Return the members of a document around its rows."""
        members: JsonObject = self._redactor.structure(given, ROWS.get(self._contract) or OWN_NAMES)
        if (
            self._contract == "batch_v1"
            and check_head({**_with_dataset_id(given, members), "records": []}, self._config).has_errors
        ):
            members = _no_longer(given, members)
        return _with_dataset_id(given, members)

    def _value(self, given: object) -> object:
        form = ROWS.get(self._contract)
        return self._redactor.value(given) if form is None else self._redactor.structure(given, form)

    def _with_ids(self, given: Any, row: Any, record_id: str | None, *, is_redacted: bool) -> object:
        """Return the row with ids in the form that its contract requires; redacted ids stay distinct."""
        name = CONTRACTS[self._contract].record_id
        if name:
            row[name] = record_id
        if self._contract == "golden_v1" and is_redacted:
            # Case ids of golden_v1 take no brackets, which every mark has.
            row[name] = _NOT_IN_CASE_ID.sub("-", (record_id or "").lower()).strip("-")
        if self._contract == "legal_eval_v1":
            _number_ids(given, row)
        return row

    def _is_valid(self, row: object) -> bool:
        """Return True when the contract accepts a dataset of this one row."""
        member = ROW_MEMBERS.get(self._contract) or CONTRACTS[self._contract].member
        document = {**_HEADS.get(self._contract, {"schema_version": self._contract}), member: [row]}
        return read(open_source(_encode(document)), self._contract, config=self._config).is_valid


_HEADS = {
    "batch_v1": {"dataset_id": "d", "dataset_version": "1", "schema_version": "1.0", "created_at": "2026-01-01T00:00:00Z"},
    "golden_v1": {"version": "1.0.0"},
}


def _with_dataset_id(given: Mapping[str, object], members: JsonObject) -> dict[str, object]:
    name = members.get("dataset_id")
    return members if name == given.get("dataset_id") else {**members, "dataset_id": _NOT_IN_DATASET_ID.sub("_", str(name))}


def _number_ids(given: JsonObject, row: JsonObject) -> None:
    """Give the redacted ids of criteria and choices their number; answers name a choice as it is called then."""
    for member in ("rubric", "choices"):
        names: dict[str, str] = {}
        for number, (before, after) in enumerate(zip(given.get(member) or (), row.get(member) or (), strict=True), 1):
            if before["id"] != after["id"]:
                after["id"] = names[before["id"]] = f"{after['id']}#{number}"
        if member == "choices" and row.get("correct_choice_ids"):
            row["correct_choice_ids"] = [names.get(name, name) for name in given["correct_choice_ids"]]


def _short_id(given: str, shown: str) -> str:
    """Return an id that is not longer than the given one, unless that is short anyway; a hash at its end keeps ids distinct."""
    text, _, digest = shown.rpartition("#")
    most = max(len(given), _SURELY_SHORT) - len(digest) - 1
    return f"{REDACTION_MARK.sub(_SHORT_MARKS[0], text)[:most]}#{digest}"


def _has_grown(given: Any, redacted: object) -> bool:
    """Return True when a text or a name is longer than the given one."""
    if isinstance(redacted, dict):
        pairs = zip(given.items(), redacted.items(), strict=True)
        return any(len(after) > len(before) or _has_grown(old, new) for (before, old), (after, new) in pairs)
    if isinstance(redacted, list):
        return any(map(_has_grown, given, redacted))
    return isinstance(redacted, str) and len(redacted) > len(str(given))


def _no_longer(given: Any, redacted: object) -> Any:
    """Return the redacted value with no text longer than in the given one, by shorter marks."""
    if isinstance(redacted, dict):
        members: JsonObject = {}
        for (before, old), (after, new) in zip(given.items(), redacted.items(), strict=True):
            name = _no_longer(before, after)
            # Two names of which the same is left stay apart.
            members[f"{name}#{len(members)}" if name in members else name] = _no_longer(old, new)
        return members
    if isinstance(redacted, list):
        return list(map(_no_longer, given, redacted))
    if not isinstance(redacted, str):
        return redacted
    # The shortest mark may still be longer than a value of one character; then the limit is exceeded, not the secret shown.
    texts = (redacted, *(REDACTION_MARK.sub(mark, redacted) for mark in _SHORT_MARKS))
    return next((text for text in texts if len(text) <= len(str(given))), texts[-1])
