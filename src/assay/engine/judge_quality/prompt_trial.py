"""A judge's prompt tried on one record: what is sent, what came back, and what was read from it."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from assay.core.canonical import canonical_json, sha256_hex
from assay.core.case import Case, Criterion, Message
from assay.core.errors import RunNotFound, UsageProblem
from assay.core.graders import NOT_ASSESSED, CategoryScale, GraderPlan, Scale
from assay.core.model_call import Reply
from assay.core.outcome import Attempt, FailedOutcome, Grade, GradedOutcome, GraderStatus
from assay.core.plan import ModelPlan, Plan
from assay.core.runs import RUNS_DIR
from assay.core.settings import GraderEntry, ModelEntry, ProviderEntry
from assay.datasets.parsing.checks import nearest
from assay.engine.execution.run_context import RunEnvironment
from assay.engine.judge_quality.temporary_runs import evaluate_cases
from assay.engine.planning.dataset_inputs import DatasetInput, cases_of, dataset_plan, read_dataset
from assay.engine.planning.grader_plans import read_problems, read_prompt
from assay.engine.planning.providers import BadName, model_plan, used_providers
from assay.engine.planning.request import MergedSettings, PlanProblems, RunRequest
from assay.engine.records.redaction import redactor_of
from assay.engine.storage.run_paths import find_run, intact_run
from assay.grading import settings_of, start
from assay.grading.judge_prompt import NOT_ASSESSED_CODE
from assay.models import check_models
from assay.store.published_run import PublishedRun
from assay.store.redact import Redactor

GRADER = "tried"
"""Name of the grader while its prompt is tried."""
_CANDIDATE = ModelPlan(name="given", provider="", model="given")
_NO_JUDGE = ModelPlan(name="judge", provider="", model="judge")
"""Stands for a judge where nothing is sent."""
_MAX_KNOWN = 1_000
"""Ids that are compared with one that a dataset does not have."""
LATEST = "latest"


class PromptTrialRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The options of `assay judge try`."""

    prompt: str
    record: str
    """A record's id, or a JSON file with `question`, `answer` and the like."""
    run: str = ""
    dataset: str = ""
    runs_dir: str = RUNS_DIR
    run_file: str = ""
    """Its providers, and its grader with this prompt."""
    judge: str = ""
    scale: str = ""
    """Such as `1-5`, or categories as in `good=1,poor=0.3`."""
    answer: str | None = None
    """Judged in place of the record's answer."""
    is_dry: bool = False
    """Send nothing."""


class JudgeMessages(msgspec.Struct, frozen=True, kw_only=True):
    """One request to the judge."""

    criterion: str
    """Criterion that it is about; empty where the prompt has no place for one."""
    messages: tuple[Message, ...]


class JudgeReply(msgspec.Struct, frozen=True, kw_only=True):
    """One reply of the judge, or why there is none."""

    text: str
    error: str = ""
    latency_ms: float
    cost: float | None


class PromptTrial(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a trial showed."""

    prompt: str
    """Name and version of the prompt."""
    scale: Scale
    judge: str
    record_id: str
    answer: str
    sent: tuple[JudgeMessages, ...]
    replies: tuple[JudgeReply, ...] = ()
    status: GraderStatus | None = None
    """None where nothing was sent."""
    passed: bool | None = None
    raw_score: float | None = None
    score_scale: str = ""
    reason: str = ""

    def to_dict(self) -> dict[str, object]:
        """Return the trial as JSON documents hold it."""
        found: dict[str, object] = msgspec.to_builtins(self)
        return found


def try_prompt(request: PromptTrialRequest, *, environ: Mapping[str, str], clock: Callable[[], float]) -> PromptTrial:
    """Try a judge's prompt on one record; raises UsageProblem or PlanProblems before any call."""
    settings = MergedSettings(RunRequest(run_file=request.run_file)) if request.run_file else None
    if settings is not None and settings.problems:
        raise PlanProblems(settings.problems)
    file = Path(request.prompt)
    problems = list(read_problems(file))
    if problems:
        raise PlanProblems(problems)
    case, given, run = _record(request)
    grader = _grader_of(settings, file)
    plan = _plan(request, settings=settings, grader=grader, run=run, environ=environ, file=file)
    answer = _answer(request, case, given)
    redactor = redactor_of(plan, environ)
    sent = _requests(case, plan, answer)
    trial = PromptTrial(
        prompt=plan.graders[0].prompt.id if plan.graders[0].prompt else "",
        scale=plan.graders[0].scale,
        judge=plan.judges[0].name,
        record_id=case.id,
        answer=redactor.text(answer),
        sent=tuple(_redacted(one, redactor) for one in sent),
    )
    if request.is_dry:
        return trial
    environment = RunEnvironment(
        environ=environ, clock=clock, answers=lambda _id, _sample: Reply(text=answer, flags=("prefilled",))
    )
    (finished,) = evaluate_cases(plan, (case,), environment)
    asked = [attempt for attempt in finished.attempts if attempt.stage == "judge"]
    replies = tuple(_reply(attempt, redactor) for attempt in asked)
    return _with_outcome(msgspec.structs.replace(trial, replies=replies), finished.outcome, redactor)


def _with_outcome(trial: PromptTrial, outcome: object, redactor: Redactor) -> PromptTrial:
    if isinstance(outcome, GradedOutcome):
        grade: Grade = outcome.grade
        return msgspec.structs.replace(
            trial,
            status="graded",
            passed=grade.passed,
            raw_score=grade.raw_score,
            score_scale=grade.scale,
            reason=redactor.text(grade.justification),
        )
    code = outcome.code if isinstance(outcome, FailedOutcome) else ""
    message = outcome.message if isinstance(outcome, FailedOutcome) else "the judge was not called"
    status: GraderStatus = "not_assessed" if code == NOT_ASSESSED_CODE else "error"
    return msgspec.structs.replace(trial, status=status, reason=redactor.text(message))


def _reply(attempt: Attempt, redactor: Redactor) -> JudgeReply:
    return JudgeReply(
        text=redactor.text(attempt.reply.text) if attempt.reply else "",
        error=redactor.text(f"{attempt.error_code}: {attempt.error_message}") if attempt.error_code else "",
        latency_ms=attempt.latency_ms,
        cost=attempt.cost,
    )


def _redacted(sent: JudgeMessages, redactor: Redactor) -> JudgeMessages:
    messages = tuple(Message(message.role, redactor.text(message.content)) for message in sent.messages)
    return msgspec.structs.replace(sent, messages=messages)


def _requests(case: Case, plan: Plan, answer: str) -> tuple[JudgeMessages, ...]:
    """Return the requests that the judge is sent at first."""
    flow = start(case, settings_of(plan))
    next(flow)
    requests = flow.send((Reply(text=answer),))
    flow.close()
    names = [request.call_id.removeprefix("judge:") for request in requests]
    return tuple(
        JudgeMessages(criterion="" if name == GRADER else name, messages=request.messages)
        for name, request in zip(names, requests, strict=True)
    )


# The record


def _record(request: PromptTrialRequest) -> tuple[Case, str | None, PublishedRun | None]:
    """Return the record, the answer that its source has, and the run that it is from; raises UsageProblem."""
    file = Path(request.record)
    if not request.run and not request.dataset and file.suffix == ".json":
        return *_from_file(file), None
    if request.dataset:
        return _from_dataset(request), None, None
    found = find_run(Path(request.runs_dir), request.run or LATEST)
    if not found.is_sealed:
        raise UsageProblem(f"run '{found.run_id}' is unfinished", hint="name a finished run, or a dataset with --dataset")
    run = intact_run(found)
    return *_from_run(run, request.record), run


class _Answer(msgspec.Struct):
    """Members of a prediction that a trial needs."""

    record_id: str
    model_response: str | None = None
    sample: int = 0


def _from_run(run: PublishedRun, record_id: str) -> tuple[Case, str | None]:
    known: list[str] = []
    for entry, line in zip(run.records(), run.typed_lines("predictions.jsonl", _Answer), strict=True):
        if entry.record_id == record_id and not line.sample:
            return run.case_of(entry), line.model_response
        known += [entry.record_id] if len(known) < _MAX_KNOWN else []
    raise RunNotFound(
        f"run '{run.path.name}' has no valid record '{record_id}'", hint=nearest(record_id, known) or "name a record of the run"
    )


def _from_dataset(request: PromptTrialRequest) -> Case:
    source, report = read_dataset(Path(request.dataset))
    if report.contract is None or report.outcome == "rejected":
        raise UsageProblem(f"'{request.dataset}' is not a dataset that can be run", hint=f"assay validate {request.dataset}")
    dataset = DatasetInput(dataset_plan(source, report, name=Path(request.dataset).stem), source, report)
    known: list[str] = []
    for case in cases_of(dataset, is_recorded=False):
        if case.id == request.record:
            return case
        known += [case.id] if len(known) < _MAX_KNOWN else []
    raise UsageProblem(
        f"'{request.dataset}' has no valid record '{request.record}'",
        hint=nearest(request.record, known) or "name one of its records",
    )


class _RecordFile(msgspec.Struct, forbid_unknown_fields=True):
    """A record that is written for a trial."""

    question: str
    answer: str | None = None
    reference: str | tuple[str, ...] = ()
    context: str = ""
    rubric: str = ""
    metadata: dict[str, Any] = {}


def _from_file(file: Path) -> tuple[Case, str | None]:
    try:
        found = msgspec.json.decode(file.read_bytes(), type=_RecordFile)
    except OSError as problem:
        raise UsageProblem(
            f"'{file}' cannot be read: {problem.strerror or problem}", hint="name a JSON file, or a record with --run or --dataset"
        ) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        members = ", ".join(_RecordFile.__struct_fields__)
        raise UsageProblem(f"'{file}' is not a record: {problem}", hint=f"write an object with {members}") from None
    references = (found.reference,) if isinstance(found.reference, str) else found.reference
    return Case(
        id=file.stem,
        index=0,
        contract="batch_v1",
        task="open",
        dataset=file.name,
        prompt=found.question,
        model_context=found.context,
        references=references,
        criteria=(Criterion("rubric", found.rubric),) if found.rubric else (),
        metadata=found.metadata,
        record_sha256=sha256_hex(canonical_json(msgspec.to_builtins(found))),
    ), found.answer


def _answer(request: PromptTrialRequest, case: Case, given: str | None) -> str:
    """Return the answer to judge: that of the options, of the run, or the record's reference; raises UsageProblem."""
    if request.answer is not None:
        return request.answer
    answer = given if given is not None else next(iter(case.references), None)
    if answer is None:
        raise UsageProblem(f"the record '{case.id}' has no answer", hint="give one with --answer")
    return answer


# The judge


def _grader_of(settings: MergedSettings | None, file: Path) -> GraderEntry | None:
    """Return the grader of a run file that has this prompt."""
    if settings is None:
        return None
    folder = settings.folder(("graders",))
    entries = [entry for entry in settings.value.graders if entry.prompt]
    return next((entry for entry in entries if (folder / entry.prompt).resolve() == file.resolve()), None)


def _plan(
    request: PromptTrialRequest,
    *,
    settings: MergedSettings | None,
    grader: GraderEntry | None,
    run: PublishedRun | None,
    environ: Mapping[str, str],
    file: Path,
) -> Plan:
    """Return the plan of a run of one record, whose answer is given."""
    declared = {} if settings is None else {entry.name: entry for entry in settings.value.providers}
    earlier = None if run is None else run.manifest.settings
    scale = _scale(request, grader)
    judge = _judge(request, grader, declared, settings, earlier)
    if judge is None and not request.is_dry:
        raise UsageProblem(
            "no judge is named", hint="name one with --judge provider/model, or show the prompt alone with --dry-run"
        )
    judge = judge or _NO_JUDGE
    known = {provider.name: provider for provider in earlier.providers} if earlier is not None else {}
    is_known = judge.provider in known and judge.provider not in declared
    providers = (known[judge.provider],) if is_known else used_providers((judge,), declared, environ=environ)
    at_least = None if grader is None or grader.at_least is msgspec.UNSET else grader.at_least
    plan = Plan(
        run_id="trial",
        datasets=(),
        candidate=_CANDIDATE,
        judges=(judge,),
        providers=providers,
        response_source="prefilled",
        graders=(
            GraderPlan(
                name=GRADER,
                kind="judge",
                is_primary=True,
                judge=judge.name,
                prompt=read_prompt(file),
                scale=scale,
                at_least=at_least,
            ),
        ),
    )
    problems = [] if request.is_dry else check_models(plan, environ=environ)
    if problems:
        raise PlanProblems(problems)
    return plan


def _judge(
    request: PromptTrialRequest,
    grader: GraderEntry | None,
    declared: Mapping[str, ProviderEntry],
    settings: MergedSettings | None,
    earlier: Plan | None,
) -> ModelPlan | None:
    """Return the judge of the options, of the run file's grader, or of the run; None where none names one."""
    named: ModelEntry | str = request.judge
    folder = Path()
    if not named and grader is not None and grader.judge is not msgspec.UNSET and settings is not None:
        named, folder = grader.judge, settings.folder(("graders",))
    if named:
        entry = named if isinstance(named, ModelEntry) else ModelEntry(model=named)
        try:
            return model_plan(entry, declared, folder=folder)
        except BadName as problem:
            raise UsageProblem(f"--judge: {problem}") from problem
    return None if earlier is None else next(iter(earlier.judges), None)


def _scale(request: PromptTrialRequest, grader: GraderEntry | None) -> Scale:
    """Return the scale of the options, or of the run file's grader; raises UsageProblem."""
    text = request.scale
    if not text:
        return "pass_fail" if grader is None or grader.scale is msgspec.UNSET else grader.scale
    if text in ("pass_fail", "1-5", "0-1"):
        return text  # type: ignore[return-value]  # one of the words
    categories: dict[str, float] = {}
    for part in text.split(","):
        name, _, number = part.rpartition("=")
        try:
            categories[name.strip()] = float(number)
        except ValueError:
            categories = {}
            break
    if len(categories) < 2 or not all(name and name != NOT_ASSESSED and 0 <= value <= 1 for name, value in categories.items()):
        raise UsageProblem(f"'{text}' is not a scale", hint="write pass_fail, 1-5, 0-1, or categories as in good=1,poor=0.3")
    return CategoryScale(categories=categories)
