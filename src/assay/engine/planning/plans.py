"""Requests into plans: everything that can be known before the first call is checked here, and reported at once."""

import hashlib
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, groupby
from operator import attrgetter
from pathlib import Path
from typing import Any

import msgspec

from assay.core.call_rules import rule_problem
from assay.core.canonical import JsonObject
from assay.core.case import Attachment
from assay.core.checks import named_checks
from assay.core.errors import SourceUnreadable, StoreUnavailable, UsageProblem
from assay.core.graders import GraderPlan
from assay.core.issue import Path as Steps
from assay.core.plan import GOLDEN_GATES, NO_PARAMETERS, DatasetPlan, ModelPlan, Plan, function_model
from assay.core.plugin import Plugin
from assay.core.provider import FUNCTIONS, HTTP_ENDPOINT, PROVIDERS
from assay.core.report import ValidationReport
from assay.core.retention import RetentionPolicy, longest_retention, retention_in
from assay.core.runs import RUNS_DIR
from assay.core.settings import (
    BatchSettings,
    Gates,
    MlflowSection,
    ModelEntry,
    ModelParameters,
    ProviderEntry,
    ResponseSource,
    RunFile,
    RunSection,
    TokenPrice,
    gate_limits,
    stated,
)
from assay.core.tools import ToolDefinition, infer_tools
from assay.datasets.parsing.checks import nearest
from assay.datasets.parsing.tool_definitions import load_tools
from assay.engine.planning.attachments import folder_of
from assay.engine.planning.dataset_inputs import (
    MAX_LISTED,
    DatasetInput,
    DatasetReading,
    first_problems,
    on_invalid,
    shown_path,
)
from assay.engine.planning.grader_plans import GraderPlanner
from assay.engine.planning.http_endpoints import entry_problems
from assay.engine.planning.plugins import RequestPlugins
from assay.engine.planning.providers import BadName, find_provider, is_set, model_plan, named_model, provider_kind, used_providers
from assay.engine.planning.record_checks import CheckRules, CheckSurvey
from assay.engine.planning.request import MergedSettings, PlanProblems, RunRequest
from assay.engine.planning.responses import ResponseFile, load_responses
from assay.engine.planning.selection import DatasetSurvey, HasAnswer, SelectionRules, rules_of, selected_ids, survey
from assay.engine.planning.trajectories import recorded_calls
from assay.engine.records.groups import NO_METADATA
from assay.engine.records.run_metrics import EVAL_RESULTS, why_no_eval_run
from assay.engine.storage.run_paths import MAX_RUN_ID, check_target_free, folders_of, run_suffix
from assay.grading.assignment import MethodKind
from assay.grading.judge_prompt import scale_shape
from assay.grading.methods import GRADING_METHODS
from assay.metrics.profiles import profile_of
from assay.models import budget_notes, check_models, has_known_price
from assay.models.record_values import sent_members

RECORDED = "recorded"
"""Name of the candidate of a recorded conversation when none is given."""


class PlannedRuns(msgspec.Struct, frozen=True, kw_only=True):
    """Planned runs of one request: one plan for each candidate, over the same datasets."""

    plans: tuple[Plan, ...]
    runs_dir: str
    inputs: tuple[DatasetInput, ...]
    """Validated datasets; `prepared_records` uses them instead of reading the files again."""
    valid_records: int
    invalid_records: int
    judged_records: int = 0
    """Valid records that a judge has to grade, with one call for each criterion."""
    plugins: tuple[Plugin, ...] = ()
    """Code of others that the runs use, loaded."""
    mlflow: MlflowSection | None = None
    """MLflow target of the run file, to which finished runs are pushed."""
    notes: tuple[str, ...] = ()
    """Notes that do not prevent a run, but that users should see."""

    @property
    def suite(self) -> str:
        """Id that groups the runs of several candidates; empty for one."""
        return self.plans[0].suite


def plan_runs(request: RunRequest, *, environ: Mapping[str, str], now: float, new_run_id: Callable[[], str]) -> PlannedRuns:
    """Return the runs of a request; raises PlanProblems with everything that is wrong, SourceUnreadable without a run file."""
    planner = _Planner(MergedSettings(request), environ)
    planner.read_datasets()
    planner.name_models()
    planner.load_responses()
    planner.name_tools()
    plans = planner.plans(suite_of(planner.candidates, now), new_run_id)
    surveyed = planner.survey(plans)
    plans = planner.with_record_policies(plans)
    # The checks of models come last, because they need the plan; all problems are reported in one attempt anyway.
    problems = [*planner.settings.problems, *(problem for plan in plans for problem in check_models(plan, environ=environ))]
    if problems or surveyed is None:
        # Candidates share most settings, so that the same problem is found once for each of them.
        raise PlanProblems(list(dict.fromkeys(problems)), refused=planner.refused)
    return PlannedRuns(
        plans=plans,
        runs_dir=str(planner.runs_dir),
        inputs=tuple(planner.inputs),
        valid_records=surveyed.valid,
        invalid_records=surveyed.broken,
        judged_records=planner.code.judged(surveyed.kinds),
        plugins=tuple(planner.code.plugins.values()),
        mlflow=planner.settings.value.mlflow,
        notes=(*planner.notes, *surveyed.notes, *budget_notes(plans, environ=environ)),
    )


class ListedRecord(msgspec.Struct, frozen=True):
    """A valid record that takes part in a run."""

    record_id: str
    sample: int | None = None
    """Number of the answer to the same request, from 0; None when the record is answered once."""


class ListedRecords(msgspec.Struct, frozen=True):
    """Selected records of a request, regardless of its models."""

    records: tuple[ListedRecord, ...]
    """In the order of the run."""
    gates: Gates
    """Those that the request itself sets, without the defaults of a contract."""


def list_records(request: RunRequest, *, environ: Mapping[str, str]) -> ListedRecords:
    """Return the valid records that a request selects, regardless of its models; raises PlanProblems, SourceUnreadable."""
    planner = _Planner(MergedSettings(request), environ)
    planner.read_datasets()
    if planner.settings.problems:
        raise PlanProblems(list(dict.fromkeys(planner.settings.problems)), refused=planner.refused)
    rules = planner.rules()
    samples = [None] if rules.repeat == 1 else range(rules.repeat)
    records = tuple(ListedRecord(found, sample) for found in selected_ids(rules, planner.inputs) for sample in samples)
    return ListedRecords(records, planner.settings.value.gates)


def suite_of(candidates: list[ModelPlan], now: float) -> str:
    """Return the id that groups the runs of several candidates; empty for one."""
    if len(candidates) < 2:
        return ""
    # Suites that begin in the same second are distinguished by their candidates.
    names = hashlib.sha256("\n".join(candidate.name for candidate in candidates).encode()).hexdigest()[:8]
    return time.strftime("suite_%Y%m%dT%H%M%SZ_", time.gmtime(now)) + names


class _Planner:
    """Builder of the plans of one request, which collects all problems."""

    def __init__(self, settings: MergedSettings, environ: Mapping[str, str]) -> None:
        self.settings = settings
        self.inputs: list[DatasetInput] = []
        self.refused: list[ValidationReport] = []
        self.candidates: list[ModelPlan] = []
        self.judges: list[ModelPlan] = []
        self.graders: tuple[GraderPlan, ...] = ()
        self.code = RequestPlugins(settings)
        self.notes = self.code.notes()
        self._environ = environ
        self._declared = self._with_base_url(self._providers())
        self._priced_names: set[str] = set()
        self._responses: ResponseFile | None = None
        self.tools: tuple[ToolDefinition, ...] = ()
        self.profile = profile_of(settings.value.profile, is_compat=settings.value.compat)
        if settings.value.compat and self.profile is None and not settings.is_wrong(("profile",)):
            settings.add(("compat",), "compat says how a profile treats failures, and no profile is named")
        run = settings.value.run
        self.runs_dir = (
            (settings.folder(("run", "runs_dir")) / run.runs_dir).absolute() if run.runs_dir else Path(RUNS_DIR).absolute()
        )

    def _providers(self) -> dict[str, ProviderEntry]:
        providers = self.settings.value.providers
        self._check_unique("providers", [(("providers", index), entry.name) for index, entry in enumerate(providers)])
        for index, entry in enumerate(providers):
            for member, problem in entry_problems(entry, provider_kind(entry)):
                if not self.settings.is_wrong(("providers", index, *member[:1])) or not member:
                    self.settings.add(("providers", index, *member), problem)
        return {entry.name: entry for entry in providers}

    def _with_base_url(self, declared: dict[str, ProviderEntry]) -> dict[str, ProviderEntry]:
        """Return the providers, that of the candidates with the address of the request; no other model is called there."""
        url = self.settings.value.base_url
        if url is None:
            return declared
        names = {section: self._provider_names(section, declared) for section in ("candidates", "judges")}
        if len(names["candidates"]) > 1:
            listed = ", ".join(f"'{name}'" for name in names["candidates"])
            self.settings.add(("base_url",), f"one address for the providers {listed}; give each its own base_url in providers")
        for name in names["candidates"]:
            if name in names["judges"]:
                message = f"a judge is called at '{name}' too; call the candidate's server by another name, such as server/MODEL"
                self.settings.add(("base_url",), message)
            entry = declared.get(name, ProviderEntry(name=name))
            row = PROVIDERS[provider_kind(entry)]
            if row.is_described:
                self.settings.add(("base_url",), f"the HTTP endpoint '{name}' has its address in url; leave base_url out")
                continue
            if row.vendor is None and not row.price_list:
                self.settings.add(("base_url",), f"the provider '{name}' is not called over HTTP; leave base_url out")
            declared = {**declared, name: msgspec.structs.replace(entry, base_url=url)}
        return declared

    def _provider_names(self, section: str, declared: Mapping[str, ProviderEntry]) -> list[str]:
        """Return the providers that the models of a section name."""
        found: dict[str, None] = {}
        for _, entry in self.settings.models(section):
            # A name without a provider is reported where the models are resolved.
            with suppress(BadName):
                found[entry.provider or named_model(entry.model, declared).provider] = None
        return list(found)

    def _check_unique(self, section: str, names: Iterable[tuple[Steps, str]]) -> None:
        first: set[str] = set()
        for path, name in names:
            if name in first:
                self.settings.add(path, f"the name '{name}' is taken by an earlier entry of {section}")
            first.add(name)

    # Datasets

    def read_datasets(self) -> None:
        """Validate every dataset once."""
        entries = self.settings.datasets()
        if self.settings.data is not None and entries:
            self.settings.add(("datasets",), "a dataset in memory and files are given; give one of the two")
        if not entries and self.settings.data is None and not self.settings.is_wrong(("datasets",)):
            is_given = bool(self.settings.value.datasets)
            self.settings.add(("datasets",), "every dataset is disabled" if is_given else "no dataset is named")
        reading = DatasetReading(self.settings, self.code, runs_dir=self.runs_dir)
        reading.read(entries)
        if self.settings.data is not None:
            reading.read_given(self.settings.data, self.settings.data_name)
        self.inputs, self.refused = reading.inputs, reading.refused
        self.notes += reading.notes
        self._check_unique("datasets", [(("datasets",), dataset.plan.name) for dataset in self.inputs])
        if not self._is_golden and any(dataset.plan.contract == "golden_v1" for dataset in self.inputs):
            self.notes.append("the thresholds of golden_v1 are not used as gates, because the run has other datasets too")

    @property
    def _is_golden(self) -> bool:
        """All datasets are golden ones."""
        return {dataset.plan.contract for dataset in self.inputs} == {"golden_v1"}

    # Models

    def name_models(self) -> None:
        """Resolve candidates and judges by the names that the run file or the options give them."""
        self.candidates = self._models("candidates")
        self.judges = self._models("judges")
        self._check_panel()
        graders = GraderPlanner(self.settings, self.code, self._grader_judge)
        self.graders = graders.plans
        self.notes += graders.notes
        self.judges += [judge for judge in graders.judges if judge not in self.judges]
        self._check_prices()
        self._check_judge_names()
        self._warn_of_equal_answers()

    def _grader_judge(self, path: Steps, entry: ModelEntry) -> ModelPlan | None:
        """Return the judge of one of several graders; a name that cannot be resolved is noted."""
        try:
            return self._priced(self._model(path, entry), is_candidate=False)
        except BadName as problem:
            self.settings.add(path, str(problem))
            return None

    def _check_judge_names(self) -> None:
        for judge in self.judges:
            if any(judge.name == candidate.name and judge != candidate for candidate in self.candidates):
                self.settings.add(("judges",), f"a candidate with other parameters is called '{judge.name}' too; give one a name")
        if any(dataset.plan.contract == "golden_v1" for dataset in self.inputs):
            warm = [model.name for model in (*self.candidates, *self.judges) if model.parameters.temperature]
            self.notes += [f"golden_v1 wants temperature 0, which '{name}' does not have" for name in warm]

    def _models(self, section: str) -> list[ModelPlan]:
        named: list[tuple[Steps, ModelPlan]] = []
        for path, entry in self.settings.models(section):
            try:
                given = self._with_options(entry) if section == "candidates" else entry
                named.append((path, self._priced(self._model(path, given), is_candidate=section == "candidates")))
            except BadName as problem:
                self.settings.add((*path, "provider" if entry.provider else "model"), str(problem))
        self._check_unique(section, [(path, model.name) for path, model in named])
        return [model for _, model in named]

    def _with_options(self, entry: ModelEntry) -> ModelEntry:
        """Return a candidate with the parameters of the run: an option is for all candidates, a key for those without their own."""
        values = {name: getattr(self.settings.value, name) for name in ("temperature", "max_tokens")}
        taken = {
            name: value
            for name, value in values.items()
            if value is not None and (self.settings.is_option((name,)) or not is_set(entry, name))
        }
        return msgspec.structs.replace(entry, **taken)

    def _priced(self, model: ModelPlan, *, is_candidate: bool) -> ModelPlan:
        """Return a model with the price that the request sets for it: for itself, for candidates, or for its provider."""
        prices, text = self.settings.value.prices, self.settings.value.price
        declared = self._declared.get(model.provider)
        price: TokenPrice | msgspec.UnsetType = msgspec.UNSET if declared is None else declared.prices
        if text is not None and (is_candidate or any(model.name == candidate.name for candidate in self.candidates)):
            price = TokenPrice(**dict(zip(("input", "output"), map(float, text.split(",")), strict=True)))
        if model.name in prices and not (is_candidate and self.settings.is_option(("price",))):
            price = prices[model.name]
        self._priced_names.add(model.name)
        return model if price is msgspec.UNSET else msgspec.structs.replace(model, price=price)

    def _check_prices(self) -> None:
        """Note prices of models that the run does not call: a name may be misspelt."""
        for name in self.settings.value.prices:
            if (
                name not in self._priced_names
                and not self.settings.is_wrong(("candidates",))
                and not self.settings.is_wrong(("judges",))
            ):
                known = nearest(name, sorted(self._priced_names)) or f"the models are {', '.join(sorted(self._priced_names))}"
                self.settings.add(("prices", name), f"no model of the run is called '{name}'; {known}")

    def _model(self, path: Steps, entry: ModelEntry) -> ModelPlan:
        try:
            plan = model_plan(entry, self._declared, folder=self.settings.folder(path))
        except BadName:
            if not self.code.is_model(entry):
                raise
            plan = model_plan(msgspec.structs.replace(entry, provider=FUNCTIONS), self._declared, folder=Path())
        if provider_kind(find_provider(plan.provider, self._declared)) == FUNCTIONS:
            self.code.find("model", plan.model, path)
            if plan.parameters != ModelParameters():
                self.settings.add(path, f"'{plan.name}' is a function, which gets no parameters; leave them out")
            return msgspec.structs.replace(plan, parameters=NO_PARAMETERS)
        if provider_kind(find_provider(plan.provider, self._declared)) == HTTP_ENDPOINT:
            if plan.explicit or plan.parameters.extra_body:
                self.settings.add(path, f"'{plan.name}' is an HTTP endpoint, which gets what its body says; put parameters there")
            return msgspec.structs.replace(plan, parameters=NO_PARAMETERS)
        return plan

    def _check_panel(self) -> None:
        panel, judges = self.settings.value.panel, len(self.judges)
        if panel.quorum is not None and panel.quorum > max(judges, 1):
            self.settings.add(("panel", "quorum"), f"{panel.quorum} judges must vote, but the run has {judges}")
        if panel.escalate and judges < 2:
            self.settings.add(("panel", "escalate"), "there is no judge to escalate to; name at least two judges")

    def _warn_of_equal_answers(self) -> None:
        """Note that repeating a model that does not sample gives the same answer each time."""
        if self.settings.value.repeat == 1 or self._source != "sampled":
            return
        for model in self.candidates:
            steady = "temperature 0" if model.parameters.temperature == 0 else "a fixed seed" if model.parameters.seed else ""
            if steady:
                self.notes.append(
                    f"'{model.name}' is asked {self.settings.value.repeat} times with {steady}: its answers may all be equal"
                )

    # Answers

    @property
    def _source(self) -> ResponseSource:
        run = self.settings.value.run
        contracts = {dataset.plan.contract for dataset in self.inputs}
        is_recorded = contracts == {"conversation_v1"} and not self.settings.value.candidates
        return run.response_source or ("prefilled" if run.responses else "part_of_conversation" if is_recorded else "sampled")

    @property
    def _may_be_recorded(self) -> bool:
        """No dataset is known to need a candidate; those that could not be used may be conversations with recorded replies."""
        read = {dataset.plan.contract for dataset in self.inputs} | {report.contract for report in self.refused}
        return bool(self.settings.datasets()) and read <= {"conversation_v1", None}

    def load_responses(self) -> None:
        """Load the given answers, if any, and the candidates that they name."""
        run, source = self.settings.value.run, self._source
        if source == "sampled" and run.responses:
            self.settings.add(("run", "response_source"), "responses are given, but the response source is 'sampled'")
        elif source == "prefilled" and not run.responses:
            self.settings.add(("run", "response_source"), "the response source 'prefilled' needs a file: responses (--responses)")
        elif source != "sampled" and run.responses:
            self._load_file(run.responses)
        elif source == "part_of_conversation":
            self._take_recorded()
        is_known_wrong = self.settings.is_wrong(("candidates",)) or self.settings.value.candidates
        if not self.candidates and not is_known_wrong and source == "sampled" and not self._may_be_recorded:
            self.settings.add(("candidates",), "no candidate is named; add candidates (--model provider/model)")

    def _load_file(self, path: str) -> None:
        place: Steps = ("run", "responses")
        try:
            self._responses = load_responses((self.settings.folder(place) / path).absolute())
        except SourceUnreadable as problem:
            self.settings.add(place, problem.message)
            return
        self.settings.problems += first_problems(self._responses.problems)
        names = list(self._responses.by_candidate)
        if names == [""] and len(self.candidates) > 1:
            self.settings.add(place, "an object of record id and text answers for one candidate, and the run has several")
        elif self.candidates or self.settings.value.candidates:
            self._name_strangers(names)
        else:
            # Published files hold the answers of several models: each of them becomes a run.
            self.candidates = [_given(name or Path(path).stem) for name in names]

    def _name_strangers(self, names: list[str]) -> None:
        """Note answers under a name that no candidate has: a name may be misspelt."""
        missing = [model.name for model in self.candidates if model.name not in names and names != [""]]
        if missing and names:
            known = ", ".join(f"'{name}'" for name in names)
            self.settings.add(("run", "responses"), f"the file has no answers of '{missing[0]}', but of {known}")

    def _take_recorded(self) -> None:
        if any(dataset.plan.contract != "conversation_v1" for dataset in self.inputs):
            self.settings.add(("run", "response_source"), "only conversation_v1 has recorded replies; name a file of responses")
        if self.settings.value.repeat > 1:
            self.settings.add(("repeat",), "recorded replies were given once; name a candidate to ask it several times")
        self.candidates = self.candidates or [_given(RECORDED)]

    # Tools

    def name_tools(self) -> None:
        """Read the tools of the run file, or infer them from the recorded calls of its conversations."""
        for tool, rules in self.settings.value.tool_calls.rules.items():
            for argument, rule in rules.items():
                problem = rule_problem(rule)
                if problem:
                    self.settings.add(("tool_calls", "rules", tool, argument), problem)
        place, given = ("tools",), self.settings.value.tools
        if given:
            try:
                self.tools, problems = load_tools((self.settings.folder(place) / given).absolute())
            except SourceUnreadable as unreadable:
                problems = [unreadable.message]
            for problem in problems:
                self.settings.add(place, problem)
            return
        if self._source == "sampled":
            calls = chain.from_iterable(map(_expected_inputs, self.inputs))
            self.tools, contradictions = infer_tools(calls)
            self.notes += first_problems([f"recorded calls contradict each other: {one}" for one in contradictions])

    # Plans

    def plans(self, suite: str, new_run_id: Callable[[], str]) -> tuple[Plan, ...]:
        """Return one plan for each candidate."""
        run = self.settings.value.run
        ids, group = named_runs(run.id or "", self.candidates, new_run_id=new_run_id)
        group = run.group or group
        self._check_places(ids)
        self._check_group(group, ids)
        plans = tuple(
            self._plan(run_id, candidate, suite=suite, group=group) for run_id, candidate in zip(ids, self.candidates, strict=True)
        )
        reason = why_no_eval_run(plans[0]) if plans else ""
        self.notes += [f"no {EVAL_RESULTS}: {reason}"] if reason else []
        return plans

    def _gates(self) -> tuple[Gates, tuple[str, ...]]:
        """Return the gates, and the names of those that the contract sets: only gates on the contract's own score."""
        given = msgspec.structs.asdict(self.settings.value.gates)
        own = gate_limits(GOLDEN_GATES) if self._is_golden else {}
        # Without a judge, checks grade on a scale of their own.
        has_other_scale = bool(self.graders) or (bool(self.settings.value.checks) and not self.settings.value.judges)
        if self.profile is not None or self.code.grader is not None or has_other_scale:
            own.pop("min_score", None)
        taken = tuple(name for name in own if given[name] is None)
        return Gates(**{**given, **{name: own[name] for name in taken}}), taken

    def _check_places(self, ids: list[str]) -> None:
        """Refuse the request when one candidate's run could not be stored, before any call is made."""
        for run_id in ids:
            try:
                check_target_free(folders_of(self.runs_dir, run_id))
            except (UsageProblem, StoreUnavailable) as problem:
                self.settings.add(("run", "id"), f"{problem.message}; {problem.hint}")

    def _check_group(self, group: str, ids: Sequence[str]) -> None:
        """Note a run that has the name of the group: commands take that run for the name."""
        if not group:
            return
        with suppress(UsageProblem, StoreUnavailable):
            if group in ids:
                self.settings.add(("run", "group"), f"a run is called '{group}' too; choose another name for the group")
            elif folders_of(self.runs_dir, group).exists:
                self.notes.append(f"a run is called '{group}' too, so that the name is not that of the group of these runs")

    def _plan(self, run_id: str, candidate: ModelPlan, *, suite: str, group: str) -> Plan:
        value = self.settings.value
        gates, default_gates = self._gates()
        models = (candidate, *self.judges)
        custom = {grader.plugin for grader in self.graders}
        plugins = [plugin.plan for key, plugin in self.code.plugins.items() if key[0] == "grader" and key[1] in custom]
        graders = [function_model(plugin) for plugin in (*plugins, *([self.code.grader.plan] if self.code.grader else []))]
        skips = any(
            on_invalid(value.on_invalid, dataset.plan.contract, is_table=dataset.is_table) == "skip" for dataset in self.inputs
        )
        providers = used_providers((*models, *graders), self._declared, environ=self._environ)
        sent = tuple(member for provider in providers if provider.name == candidate.provider for member in sent_members(provider))
        # Settings of the same name are copied at the end; these have another name, source or form in a plan.
        found: dict[str, Any] = {
            "run_id": run_id,
            "datasets": tuple(_without_sent(self._stored(dataset, run_id), sent) for dataset in self.inputs),
            "candidate": candidate,
            "judges": tuple(self.judges),
            "panel": stated(value.panel),
            "providers": providers,
            "response_source": self._source,
            "responses_path": self._responses.path if self._responses else "",
            "responses_sha256": self._responses.sha256 if self._responses else "",
            "strict_parameters": value.strict_parameters,
            "offered_tools": self.tools,
            "tool_outputs": value.run.tools,
            "gates": gates,
            "default_gates": default_gates,
            "checks": named_checks(value.checks),
            "graders": self.graders,
            "criteria": tuple(dict.fromkeys(value.run.criteria)),
            "on_invalid": "skip" if skips else "reject",
            "records": tuple(dict.fromkeys(value.records)),
            "redact": (*value.redact, *self.settings.redact),
            "batch": self._batch(),
            "cache_dir": self._cache_dir(),
            "suite": suite,
            "group": group or msgspec.UNSET,
            "project": self.settings.project,
            "retention": self._retention(),
            "plugins": self.code.used_by(models),
        }
        return Plan(**{**_same_settings(value.run), **_same_settings(value), **found})

    def _stored(self, dataset: DatasetInput, run_id: str) -> DatasetPlan:
        """Return the plan of a dataset; one in memory is read from the run's own folder."""
        if not dataset.is_given:
            return dataset.plan
        with suppress(UsageProblem):
            path = folders_of(self.runs_dir, run_id).given / dataset.plan.source_file
            return msgspec.structs.replace(dataset.plan, path=str(path))
        # An id that is no name of a folder was reported with the places of the runs.
        return dataset.plan

    def _retention(self) -> RetentionPolicy:
        try:
            return longest_retention(self.settings.value.retention, self.settings.retention, retention_in(self._environ))
        except UsageProblem as problem:
            self.settings.add(("retention",), f"{problem.message} ({problem.hint})")
            return RetentionPolicy()

    def with_record_policies(self, plans: tuple[Plan, ...]) -> tuple[Plan, ...]:
        """Return the plans with the policies of installed packages that records name."""
        if not self.code.record_policies:
            return plans
        return tuple(msgspec.structs.replace(plan, plugins=self.code.used_by(plan.models())) for plan in plans)

    def _batch(self) -> BatchSettings | None:
        batch = self.settings.value.batch
        if batch is None or not batch.enabled:
            return None
        return BatchSettings(**{name: getattr(batch, name) for name in BatchSettings.__struct_fields__})

    def _cache_dir(self) -> str:
        cache = self.settings.value.cache
        if cache is None or not cache.enabled:
            return ""
        return str((self.settings.folder(("cache",)) / cache.folder).absolute() if cache.folder else self.runs_dir / ".cache")

    # Records

    def rules(self) -> SelectionRules:
        """Return the rules that select records, regardless of the models."""
        value = self.settings.value
        is_recorded = self._source == "part_of_conversation" and not value.run.responses
        datasets = tuple(dataset.plan for dataset in self.inputs)
        return SelectionRules(datasets, value.limit, value.sample, value.seed, is_recorded, value.repeat, frozenset(value.records))

    def survey(self, plans: tuple[Plan, ...]) -> DatasetSurvey | None:
        """Survey the selected records; None when the datasets cannot be read."""
        if not self.inputs:
            return None
        rules = rules_of(plans[0]) if plans else SelectionRules(tuple(dataset.plan for dataset in self.inputs))
        checks = CheckSurvey(
            CheckRules(
                checks=named_checks(self.settings.value.checks),
                graders=self.graders,
                criteria=self.settings.value.run.criteria,
                # A judge that cannot be used is a problem of its own.
                has_judges=bool(self.settings.value.judges),
                has_grader=bool(self.settings.value.grader) or self.code.grader is not None,
                calls=self.settings.value.tool_calls,
            )
        )
        surveyed = survey(
            rules,
            self.inputs,
            answers=self._answers(),
            profile=self.profile,
            has_policy=self.code.policy is not None,
            is_custom=self.code.is_chosen,
            wanted=self._wanted_members(),
            checks=checks,
        )
        self.settings.problems += surveyed.problems
        self.notes += self._unknown_amounts(checks, plans)
        self._check_named_gates(checks.names)
        self._check_members(surveyed)
        self._check_scale({"plugin"} if self.code.grader else surveyed.kinds)
        if surveyed.benchmarked and self.settings.value.run.system_prompt:
            self.notes.append(f"{surveyed.benchmarked:,} record(s) have a policy without a system prompt, so that they get none")
        # Where checks or graders could not be read, nothing is known of the judges that are needed.
        is_wrong = checks.has_problems or any(self.settings.is_wrong((name,)) for name in ("checks", "graders"))
        needs_judge = not self.settings.value.graders and not is_wrong and self.code.needs_judge(surveyed.kinds)
        if needs_judge and not self.judges and not self.settings.is_wrong(("judges",)) and not self.settings.value.judges:
            some, more = self.inputs[:MAX_LISTED], len(self.inputs) - MAX_LISTED
            names = ", ".join(f"'{dataset.plan.name}' ({dataset.plan.contract})" for dataset in some)
            names += f" and {more:,} more" if more > 0 else ""
            self.settings.add(("judges",), f"{names} cannot be graded without a judge; add judges (--judge provider/model)")
        for number, uses in groupby(surveyed.attachments, key=attrgetter("dataset")):
            self._check_attachments(self.inputs[number], [use.attachment for use in uses])
        return surveyed

    def _check_named_gates(self, checks: Collection[str]) -> None:
        """Refuse gates on checks and graders that the run does not have: such a gate could never be met."""
        graders = [grader.name for grader in self.graders]
        for member, known, word in (("checks", checks, "check"), ("graders", graders, "grader")):
            for name in getattr(self.settings.value.gates, member):
                # A custom grader of the whole run may give scores of its own, which make it one by name.
                if name not in known and not (member == "graders" and self.code.grader is not None):
                    listed = f"the {word}s are {', '.join(known)}" if known else f"it has no {word}s"
                    self.settings.add(("gates", member, name), f"the run has no {word} '{name}'; {nearest(name, known) or listed}")

    def _unknown_amounts(self, checks: CheckSurvey, plans: Iterable[Plan]) -> Iterator[str]:
        """Yield notes about checks of what is not known of any answer."""
        if checks.has_latency and self._source != "sampled":
            yield "the answers are given, so that their latency is not known: checks of it have no result"
        if checks.has_cost and self._source != "sampled":
            yield "the answers are given, so that their cost is not known: checks of it have no result"
        elif checks.has_cost:
            for plan in plans:
                if not has_known_price(plan, plan.candidate, environ=self._environ):
                    yield f"the price of '{plan.candidate.name}' is not known: checks of the cost have no result; set --price"

    def _check_attachments(self, dataset: DatasetInput, used: list[Attachment]) -> None:
        """Read every attachment before any call; when invalid records are skipped, an unreadable one costs only its own record."""
        if dataset.is_given and used:
            what = f"'{dataset.plan.name}' is in memory, where '{used[0].path}' cannot be found next to it"
            self.settings.problems.append(f"{what}; write the dataset to a file in the folder of its attachments")
            return
        skips = on_invalid(self.settings.value.on_invalid, dataset.plan.contract, is_table=dataset.is_table) == "skip"
        found = dataset.attachments.check(folder_of(dataset.plan), used)
        path = shown_path(dataset.plan.path)
        refused = [f"{path}: {one.sentence}" for one in found if not (skips and one.is_fault_of_file)]
        self.settings.problems += first_problems(refused)
        self.notes += first_problems(
            [f"{path}: {one.sentence}; its records end in an error" for one in found if skips and one.is_fault_of_file]
        )

    def _wanted_members(self) -> list[str]:
        """Return the metadata members that clusters and slices are made from."""
        value = self.settings.value
        slices = [name.removeprefix("metadata.") for name in value.slices if name not in NO_METADATA]
        return [*([value.cluster_key] if value.cluster_key else []), *slices]

    def _check_members(self, surveyed: DatasetSurvey) -> None:
        """Refuse a missing cluster key, which would silently make intervals too narrow, and note a missing slice."""
        if not surveyed.valid:
            return
        value = self.settings.value
        if value.cluster_key in surveyed.unmet:
            hint = nearest(value.cluster_key.removeprefix("metadata."), surveyed.members)
            missing = f"no selected record has '{value.cluster_key}' in its metadata{f' ({hint})' if hint else ''}"
            self.settings.add(("cluster_key",), missing)
        for name in value.slices:
            if name not in NO_METADATA and name.removeprefix("metadata.") in surveyed.unmet:
                hint = nearest(name, (*NO_METADATA, *surveyed.members))
                self.notes.append(f"no selected record has a value for the slice '{name}'{f' ({hint})' if hint else ''}")

    def _check_scale(self, kinds: Iterable[MethodKind | None]) -> None:
        """Refuse a gate on the mean score outside the scale of the selected records, or of the profile."""
        score = self.settings.value.gates.min_score
        # All or nothing, 0/1, has its mean on 0-1.
        own = {self._scale_of(kind).replace("/", "-") for kind in kinds if kind is not None}
        scales = own if self.profile is None else {self.profile.scale}
        if score is None or not scales:
            return
        if len(scales) > 1:
            both = " and ".join(sorted(scales))
            self.settings.add(("gates", "min_score"), f"the datasets have different scales ({both}), so that no mean score is one")
            return
        (scale,) = scales
        low, high = map(float, scale.split("-"))
        if not low <= score <= high:
            whose = "the datasets" if self.profile is None else f"the profile '{self.profile.id}'"
            self.settings.add(("gates", "min_score"), f"{score:g} is not on the scale {scale} of {whose}")

    def _scale_of(self, kind: MethodKind) -> str:
        """Return the scale of a method; that of a prompt is its grader's."""
        prompts = [grader for grader in self.graders if grader.is_primary and grader.prompt]
        return scale_shape(prompts[0].scale).scale if kind == "prompt" and prompts else GRADING_METHODS[kind].scale

    def _answers(self) -> dict[str, HasAnswer]:
        """Return a check for the answers of each candidate; recorded replies always have one."""
        responses = self._responses
        return (
            {model.name: responses.of(model.name).has for model in self.candidates} if responses and responses.by_candidate else {}
        )


def _expected_inputs(dataset: DatasetInput) -> Iterator[tuple[str, JsonObject]]:
    """Yield the name and input of every call that is expected in records without tools of their own."""
    if dataset.plan.contract == "conversation_v1":
        yield from recorded_calls(dataset.report.cases)
    # Other datasets are read only where the validation has seen expected calls.
    elif "reference.tool_calls" in dataset.report.fields.get("not_sent", {}):
        for case in dataset.report.cases:
            if case.tools is msgspec.UNSET and case.expected_calls is not msgspec.UNSET:
                yield from ((call.name, call.arguments) for call in case.expected_calls)


def _same_settings(section: RunFile | RunSection) -> dict[str, object]:
    """Return the settings of a section that a plan stores under the same name and takes unchanged."""
    return {name: getattr(section, name) for name in section.__struct_fields__ if name in Plan.__struct_fields__}


def _given(name: str) -> ModelPlan:
    """Return the plan of a candidate whose answers are given; it is not called, so it has no provider."""
    return ModelPlan(name=name, provider="", model=name)


def named_runs(wanted: str, candidates: Sequence[ModelPlan], *, new_run_id: Callable[[], str]) -> tuple[list[str], str]:
    """Return the ids of the runs of a request, and the name of their group: their common beginning, or empty for one run."""
    if len(candidates) == 1:
        return [wanted or new_run_id()], ""
    group = wanted or new_run_id()
    # A name that was given is never shortened: a script that repeats it relies on the ids.
    return candidate_run_ids(group, candidates, limit=None if wanted else MAX_RUN_ID), group


def candidate_run_ids(wanted: str, candidates: Sequence[ModelPlan], *, limit: int | None = None) -> list[str]:
    """Return the run's id; several candidates share it as a prefix, and each id is distinct."""
    if len(candidates) == 1:
        return [wanted]
    names = [run_suffix(candidate.name) for candidate in candidates]
    # Cut where an id has no room for the names, which are then numbered.
    room = None if limit is None else limit - len(wanted) - len(f"-{len(names)}-")
    is_cut = room is not None and any(len(name) > room for name in names)
    is_numbered = is_cut or not all(names) or len({name.lower() for name in names}) < len(names)
    return [
        "-".join(filter(None, (wanted, str(number) if is_numbered else "", name[:room]))) for number, name in enumerate(names, 1)
    ]


def _without_sent(dataset: DatasetPlan, sent: Collection[str]) -> DatasetPlan:
    """Leave out of the fields that are not sent those that this candidate's requests contain."""
    unsent = dataset.fields.get("not_sent", {})
    if not unsent.keys() & set(sent):
        return dataset
    rest = {name: count for name, count in unsent.items() if name not in sent}
    fields = {audience: counts for audience, counts in {**dataset.fields, "not_sent": rest}.items() if counts}
    return msgspec.structs.replace(dataset, fields=fields)
