"""Probes of a run's models: one small request to each, with the run's own parameters, before thousands are sent.

A probe negotiates parameters as a run does, and keeps nothing of it: a run learns by itself, in its first calls.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime

import msgspec

from assay.core.case import Message
from assay.core.errors import UsageProblem
from assay.core.model_call import OMITTED, Adjustment, ModelFailure, ModelRequest, Reply
from assay.core.plan import ModelPlan, Plan, ProviderPlan
from assay.core.provider import FUNCTIONS, PROVIDERS
from assay.core.setup_checks import CheckStanding, ModelProbe, ProbeCheck, ProbeRole, ProbeSubject, ShownExchange
from assay.grading.five_point import TEMPLATE
from assay.grading.judge_call import CandidateAnswer, JudgeCall, JudgeCallOptions, JudgeQuestion
from assay.grading.verdict import FIVE_POINT, UnusableReply, read_verdict
from assay.models import PRICES_HINT, asked_models, load_provider
from assay.models.connectivity import REFUSED, ConnectivityResult, ask_for_models
from assay.models.endpoint import endpoint_problems, key_variables, provider_secrets, unencrypted_proxy
from assay.models.model_list import ListedModel, nearest_names
from assay.models.negotiation import MAX_TOKENS, REPLY_FORMAT, SYSTEM, Negotiator
from assay.models.prices import is_paid, tariff_of
from assay.models.provider_protocol import Model, ProviderContext, exchange_of, negotiator_of

PROBE_SECONDS = 60.0
"""Seconds for one model's answer; models that think take some for the smallest question."""
CONCURRENCY = 8
MAX_NEGOTIATIONS = 20
"""Requests with other parameters, as many as a run sends."""
SOON_DAYS = 90
"""Days before its retirement from which a model is marked."""
_PER_MILLION = 1_000_000
_MAX_VALUE, _MAX_REASON = 60, 200
_QUESTION = "What is 2 + 2? Answer with the number alone."
_ANSWER = "4"
_UNREACHED = ("timeout", "service_unavailable", "certificate_refused")
_REFUSED_KEY = ("unauthorized", "forbidden")
_FORMS = {
    "json_schema": "with its JSON Schema",
    "json_object": "as a JSON object",
    "tools": "as a tool call",
    "plain": "in the prompt alone",
}
"""How the reply of a judge is requested, in words."""


class _Subject(msgspec.Struct, frozen=True):
    """A model in one of its roles."""

    model: ModelPlan
    provider: ProviderPlan
    role: ProbeRole
    is_strict: bool
    system_prompt: str


class _ProbeReply(msgspec.Struct, frozen=True, kw_only=True):
    """What a model did with its request."""

    reply: Reply | None = None
    failure: ModelFailure | None = None
    negotiator: Negotiator | None = None
    exchange: ShownExchange | None = None


async def probe_models(plans: Sequence[Plan], *, environ: Mapping[str, str]) -> list[ModelProbe]:
    """Send each model that the plans call one small request, and each of their providers one for the list of its models."""
    # Several candidates share their judges, which are probed once.
    subjects = {(subject.model.name, subject.role): subject for plan in plans for subject in _subjects(plan)}
    called = {subject.provider.name: subject.provider for subject in subjects.values() if PROVIDERS[subject.provider.kind].vendor}
    # Free, and once per provider, however many of its models are probed.
    lists = await asyncio.gather(*(ask_for_models(provider, environ=environ) for provider in called.values()))
    by_provider = dict(zip(called, lists, strict=True))
    slots = asyncio.Semaphore(CONCURRENCY)

    async def probed(subject: _Subject) -> ModelProbe:
        async with slots:
            return await _probe(subject, by_provider.get(subject.provider.name), environ)

    candidates_first = sorted(subjects.values(), key=lambda subject: subject.role == "judge")
    return list(await asyncio.gather(*map(probed, candidates_first)))


def _subjects(plan: Plan) -> Iterator[_Subject]:
    providers = {provider.name: provider for provider in plan.providers}
    for model in asked_models(plan):
        role: ProbeRole = "judge" if model in plan.judges else "candidate"
        yield _Subject(model, providers[model.provider], role, plan.strict_parameters is True, plan.system_prompt)


async def _probe(subject: _Subject, listed: ConnectivityResult | None, environ: Mapping[str, str]) -> ModelProbe:
    row = PROVIDERS[subject.provider.kind]
    if row.is_repeatable or subject.provider.kind == FUNCTIONS:
        # Rules, recordings and functions answer inside the process: there is no server to ask, and the user's code is not run.
        return _result(subject, _ProbeReply(), [ProbeCheck(subject="reachable", says="answers without a network; not called")])
    problems = endpoint_problems(subject.provider, environ) if row.is_remote else []
    if problems:
        return _result(subject, _ProbeReply(), [_check("key", "problem", problems[0], "set it, or correct the run file")])
    answer = await _ask(subject, environ)
    return _result(subject, answer, list(_checks(subject, answer, listed, environ)))


def _result(subject: _Subject, answer: _ProbeReply, checks: Sequence[ProbeCheck]) -> ModelProbe:
    return ModelProbe(
        name=subject.model.name,
        provider=subject.model.provider,
        model=subject.model.model,
        role=subject.role,
        checks=tuple(checks),
        adjustments=answer.negotiator.adjustments if answer.negotiator else (),
        exchange=answer.exchange,
    )


async def _ask(subject: _Subject, environ: Mapping[str, str]) -> _ProbeReply:
    """Send the request, again with other parameters as long as the provider names one that it refuses."""
    context = ProviderContext(provider=subject.provider, environ=environ)
    try:
        async with load_provider(subject.provider.kind).open_provider(context) as maker:
            model = maker(subject.model)
            negotiator = negotiator_of(model)
            if negotiator is not None:
                # As in a run, which stops at a refused setting instead of going on without it.
                negotiator.is_strict = subject.is_strict
            reply, failure = await _answered(model, _request(subject), subject.provider.name)
            return _ProbeReply(reply=reply, failure=failure, negotiator=negotiator, exchange=exchange_of(model))
    except UsageProblem as problem:
        # A missing extra, or a local model that does not start.
        return _ProbeReply(failure=ModelFailure("internal_error", problem.message))


async def _answered(model: Model, request: ModelRequest, provider: str) -> tuple[Reply | None, ModelFailure | None]:
    try:
        async with asyncio.timeout(PROBE_SECONDS):
            return await _negotiated(model, request), None
    except ModelFailure as failure:
        return None, failure
    except TimeoutError:
        return None, ModelFailure("timeout", f"'{provider}' gave no answer in {PROBE_SECONDS:g} s")


async def _negotiated(model: Model, request: ModelRequest) -> Reply:
    for _ in range(MAX_NEGOTIATIONS):
        try:
            return await model.reply(request)
        except ModelFailure as failure:
            # Each refusal taught the negotiator something, so that the next request differs.
            if failure.is_refused_setting or not failure.is_negotiable:
                raise
    return await model.reply(request)


def _request(subject: _Subject) -> ModelRequest:
    """Build the request: a question to a candidate, and to a judge the prompt and the schema of a run."""
    if subject.role == "candidate":
        # The role of instructions may be rejected as a parameter may.
        system = (Message("system", subject.system_prompt),) if subject.system_prompt else ()
        messages = (*system, Message("user", _QUESTION))
        return ModelRequest(stage="candidate", call_id="candidate", model=subject.model.name, messages=messages)
    blocks = {"task": _QUESTION, "context": "", "rubric": "Is the answer right?", "reference": _ANSWER}
    question = JudgeQuestion(criterion="overall", template_id=TEMPLATE, blocks=blocks, shape=FIVE_POINT)
    answer = CandidateAnswer(_ANSWER, record_sha256="")
    return JudgeCall(question, subject.model.name, answer=answer, options=JudgeCallOptions()).ask()


def _check(subject: ProbeSubject, standing: CheckStanding, says: str, hint: str = "") -> ProbeCheck:
    return ProbeCheck(subject=subject, standing=standing, says=says, hint=hint)


def _checks(
    subject: _Subject, answer: _ProbeReply, listed: ConnectivityResult | None, environ: Mapping[str, str]
) -> Iterator[ProbeCheck]:
    """Describe what the answer and the list of models show, in the order in which a user has to fix it."""
    failure = answer.failure
    yield _reachable(answer, listed)
    if failure is not None and failure.http_status is None and failure.code in _UNREACHED:
        return
    # Everything below needs an answer, of any status.
    yield _key(subject, answer, listed, environ)
    if failure is None or failure.code not in _REFUSED_KEY:
        # An endpoint of the user's own knows neither models nor parameters.
        if not PROVIDERS[subject.provider.kind].is_described:
            yield _model(subject, answer, listed)
            yield from _parameters(answer)
        if failure is None and subject.role == "judge":
            yield _schema(answer)
        shown = () if PROVIDERS[subject.provider.kind].is_described else ("not_found", "invalid_request", "parameter_refused")
        if failure is not None and failure.code not in shown:
            yield _check("reply", "problem", failure.message, _advice(failure))
    if answer.exchange is not None and answer.exchange.usage_problem:
        yield _check(
            "tokens", "problem", f"the reply {answer.exchange.usage_problem}", "correct the paths of usage, or leave them out"
        )
    elif answer.reply is not None:
        yield _tokens(answer.reply)
    yield _price(subject, environ)
    yield from _retirement(subject, listed.models if listed else ())


def _reachable(answer: _ProbeReply, listed: ConnectivityResult | None) -> ProbeCheck:
    failure = answer.failure
    if failure is not None and failure.http_status is None and failure.code in _UNREACHED:
        hint = listed.hint if listed is not None and listed.hint else "check the network, the address and the proxy settings"
        return _check("reachable", "problem", failure.message, hint)
    if listed is None or not listed.status:
        return _check("reachable", "ok", "it answers")
    if failure is not None and failure.code not in _REFUSED_KEY and listed.problem and listed.status not in REFUSED:
        # A page of HTML, a redirect, a proxy: its own words say more than that the answer cannot be read.
        return _check("reachable", "problem", f"{listed.host}: {listed.problem}", listed.hint)
    return _check("reachable", "ok", f"{listed.host} answers in {listed.seconds * 1000:,.0f} ms")


def _key(subject: _Subject, answer: _ProbeReply, listed: ConnectivityResult | None, environ: Mapping[str, str]) -> ProbeCheck:
    """Check whether the key is accepted: the model's own request decides, since some keys may use models but not list them."""
    failure = answer.failure
    if failure is not None and failure.code in _REFUSED_KEY:
        variables = " or ".join(key_variables(subject.provider)) if PROVIDERS[subject.provider.kind].is_remote else ""
        hint = f"make a new key, or set {variables or 'its key'} to the right one"
        return _check("key", "problem", failure.message, hint if provider_secrets(subject.provider, environ) else "")
    if PROVIDERS[subject.provider.kind].is_remote and not provider_secrets(subject.provider, environ):
        return _check("key", "note", "none is sent")
    if failure is None or (listed is not None and listed.status and not listed.problem):
        proxy = unencrypted_proxy(subject.provider, environ)
        if proxy and PROVIDERS[subject.provider.kind].is_remote:
            return _check("key", "note", f"accepted; the proxy {proxy} can read it", "use https, or add the host to NO_PROXY")
        return _check("key", "ok", "accepted")
    return _check("key", "note", "not known: the request failed for another reason")


def _model(subject: _Subject, answer: _ProbeReply, listed: ConnectivityResult | None) -> ProbeCheck:
    wanted = subject.model.model
    models = listed.models if listed else ()
    # Names are compared here because the provider's own suggestion, if any, is only in its words.
    near = nearest_names(wanted, models)
    if answer.reply is not None:
        answered = answer.reply.model
        return _check("model", "ok", f"known; it answers as {answered}" if answered not in ("", wanted) else "known")
    failure = answer.failure
    if failure is not None and failure.code == "not_found":
        hint = f"nearest names: {', '.join(near)}" if near else "correct its name, or the provider's base_url"
        return _check("model", "problem", failure.message, hint)
    if any(model.id == wanted for model in models):
        return _check("model", "ok", "known: the provider lists it")
    if models:
        says = f"not among the {len(models):,} models that the provider lists"
        return _check("model", "note", says, f"nearest names: {', '.join(near)}" if near else "")
    return _check("model", "note", "not known: the request failed for another reason")


def _parameters(answer: _ProbeReply) -> Iterator[ProbeCheck]:
    """Describe what was sent, and then what was refused and how it is sent instead."""
    negotiator, failure = answer.negotiator, answer.failure
    if failure is not None and failure.is_refused_setting:
        names = " and ".join(f"'{each.parameter}'" for each in failure.adjustments if each.is_explicit and each.is_loss)
        says = f"it refuses {names}, which is set, and the run's parameters are strict: {failure.message}"
        yield _check("parameters", "problem", says, "remove it, or run without strict_parameters")
        return
    if failure is not None and failure.code in ("invalid_request", "parameter_refused"):
        yield _check("parameters", "problem", failure.message, "remove or correct what it names")
        return
    if failure is not None:
        return
    if negotiator is None:
        yield _check("parameters", "ok", "accepted")
        return
    sent = [f"{negotiator.sent.names[name]} {_shown(value)}" for name, value in negotiator.sent.parameters.items()]
    yield _check("parameters", "ok", f"accepted: {', '.join(sent)}" if sent else "none are sent besides the messages")
    for adjustment in negotiator.adjustments:
        if adjustment.parameter != REPLY_FORMAT:
            hint = "the run file sets it: remove it there, or stop such runs with strict_parameters"
            is_set = adjustment.is_explicit and adjustment.is_loss
            yield _check("parameters", "note", _refused(adjustment), hint if is_set else "")


def _shown(value: object) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= _MAX_VALUE else f"{text[:_MAX_VALUE]}…"


def _refused(adjustment: Adjustment) -> str:
    name, value = adjustment.parameter, adjustment.value
    if value == OMITTED:
        instead = f"{name} is refused and left out"
    elif name == SYSTEM:
        where = "in the first question" if value == "user" else f"in the role '{value}'"
        instead = f"the role of the instructions is refused: they are sent {where}"
    elif name == MAX_TOKENS and value.isdecimal():
        instead = f"max_tokens is sent as {int(value):,}, the most that is accepted"
    else:
        instead = f"{name} is refused: it is sent as {value}"
    reason = adjustment.reason.strip()
    return f"{instead} ('{reason[:_MAX_REASON]}')" if reason else instead


def _schema(answer: _ProbeReply) -> ProbeCheck:
    """Describe how the reply of a judge was requested, and whether a verdict could be read from it."""
    assert answer.reply is not None
    form = answer.negotiator.sent.reply_format if answer.negotiator else "plain"
    # A provider may accept a schema and ignore it: only a verdict that can be read shows that judging works.
    verdict = read_verdict(answer.reply.text, FIVE_POINT, answer=_ANSWER)
    if isinstance(verdict, UnusableReply):
        hint = "another judge, or a larger max_tokens: a reply that thinking has used up is cut off"
        return _check("schema", "problem", f"requested {_FORMS[form]}; the reply is not a verdict: {verdict.reason}", hint)
    refused = answer.negotiator is not None and any(each.parameter == REPLY_FORMAT for each in answer.negotiator.adjustments)
    if refused:
        return _check("schema", "note", f"the JSON Schema is refused; the reply is requested {_FORMS[form]}, and a verdict is read")
    return _check("schema", "ok", f"accepted: the reply is requested {_FORMS[form]}, and a verdict is read")


def _advice(failure: ModelFailure) -> str:
    if failure.is_exhausted or failure.code == "payment_required":
        return "add credit to the account, or use another key"
    if failure.retry_after is not None:
        return f"try again in {failure.retry_after:g} s"
    # What is no answer with the status of one is explained by the message itself.
    return "try again later" if failure.is_transient and failure.http_status != 200 else ""


def _tokens(reply: Reply) -> ProbeCheck:
    usage = reply.usage
    if usage.input_tokens is None or usage.output_tokens is None:
        return _check("tokens", "note", "not counted: costs are unknown, and no limit of tokens per minute can be kept")
    return _check("tokens", "ok", f"counted: {usage.input_tokens:,} of input, {usage.output_tokens:,} of output")


def _price(subject: _Subject, environ: Mapping[str, str]) -> ProbeCheck:
    if not is_paid(subject.provider):
        return _check("price", "ok", "free")
    tariff = tariff_of(subject.provider, subject.model, environ=environ, at=datetime.now(UTC))
    if tariff is None:
        return _check("price", "note", "not known, so that no cost is reported", PRICES_HINT)
    # The last rate is that of short requests; others begin above a number of tokens.
    usual = tariff.rates[-1]
    costs = (f"${rate * _PER_MILLION:,.10g}" for rate in (usual.input, usual.output))
    origin = "" if subject.model.price is msgspec.UNSET else ", as set"
    return _check("price", "ok", "{} per million tokens of input, {} of output".format(*costs) + origin)


def _retirement(subject: _Subject, models: Sequence[ListedModel]) -> Iterator[ProbeCheck]:
    """Describe when the provider retires the model; nothing where its list has no date."""
    # Only the exact name: an alias may outlive the version that it points to.
    found = next((model for model in models if model.id == subject.model.model), None)
    if found is None or found.retires is None:
        return
    days = (found.retires - _today()).days
    hint = f"replacement by the provider: {found.replacement}" if found.replacement else ""
    if days <= 0:
        yield _check("retirement", "problem", f"retired on {found.retires}", hint or "choose another model")
    else:
        yield _check("retirement", "note" if days <= SOON_DAYS else "ok", f"on {found.retires}, in {days:,} days", hint)


def _today() -> date:
    return datetime.now(UTC).date()
