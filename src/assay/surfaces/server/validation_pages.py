"""Pages that take a dataset, say what is wrong with it, and make a run of it."""

import asyncio
import re
import time
from functools import partial
from typing import Any

import msgspec
from litestar import Response, get, post
from litestar.params import FromPath

from assay import api
from assay.core.errors import RunNotFound
from assay.presentation import words
from assay.surfaces.pages.validation_page import (
    DraftPage,
    EstimateResult,
    ModelChoices,
    RunFormQuery,
    ValidateChoice,
    estimate_view,
    examine,
    validate_page,
    with_report,
)
from assay.surfaces.server.errors import HttpError
from assay.surfaces.server.forms import FORM_BYTES, FileForm, read_fields
from assay.surfaces.server.offers import Offer, offers_to
from assay.surfaces.server.page_responses import paged, read_choice
from assay.surfaces.server.queries import AnyRequest, CheckQuery, SubmitQuery
from assay.surfaces.server.server import Answer, Server, caller_of, server_of
from assay.surfaces.server.submission_routes import PendingUpload, check_settings
from assay.surfaces.server.uploads import UploadDraft

_REFUSED = "{:,} invalid records: leave them out (see “Invalid records”), or fix them first"
_TOO_LARGE = "Split the file, or validate it where it is: assay validate FILE"


@get("/validate")
async def validate_form(request: AnyRequest) -> Answer:
    """The form that takes a dataset."""
    choice = read_choice(request, ValidateChoice)
    return paged(request, "validate.html", validate_page(choice.contract, server_of(request).settings.max_bytes))


@post("/validate", status_code=303)
async def take_upload(request: AnyRequest) -> Answer:
    """Keep an upload for a while, and lead to the report on it."""
    server = server_of(request)
    try:
        draft = await _kept(request, server)
    except HttpError as refusal:
        hint = _TOO_LARGE if refusal.status == 413 else ""
        page = validate_page("auto", server.settings.max_bytes, problem=refusal.message, hint=hint)
        return paged(request, "validate.html", page, status=refusal.status)
    return _led(_address(draft))


async def _kept(request: AnyRequest, server: Server) -> UploadDraft:
    """The upload as a draft; raises HttpError, and then nothing is left of it."""
    with server.uploads.of(caller_of(request).name):
        return await _spooled(request, server)


async def _spooled(request: AnyRequest, server: Server) -> UploadDraft:
    form = FileForm(request)
    await form.open_file()
    upload = await asyncio.to_thread(server.submissions.new_upload)
    is_kept = False
    try:
        spooled = await form.spool(upload.folder / f"dataset{form.ending}", limit=server.settings.max_bytes)
        server.meters.uploaded.inc(spooled.size)
        draft = UploadDraft(
            upload=upload,
            owner=caller_of(request).owner,
            file_name=form.file_name[:200],
            name=form.stem,
            contract=_contract(form.fields.get("contract", "auto")),
            spooled=spooled,
            at=time.time(),
            allow_size=form.fields.get("allow_size") == "true",
        )
        await asyncio.to_thread(server.drafts.keep, draft)
        is_kept = True
    finally:
        if not is_kept:
            await asyncio.to_thread(server.submissions.discard, upload)
    return draft


def _contract(name: str) -> Any:
    try:
        return msgspec.convert({"contract": name}, CheckQuery).contract
    except msgspec.ValidationError as problem:
        raise HttpError(400, f"the contract '{name[:64]}' is not known") from problem


@get("/validate/{draft_id:str}")
async def show_draft(request: AnyRequest, draft_id: FromPath[str]) -> Answer:
    """What validation says of an upload, and what a run of it would cost."""
    server = server_of(request)
    draft = server.drafts.of(draft_id, caller_of(request).owner)
    choice = read_choice(request, RunFormQuery)
    page = await _page(request, server, draft=draft, choice=choice)
    return await asyncio.to_thread(paged, request, "draft.html", page)


@post("/validate/{draft_id:str}/run", status_code=303, request_max_body_size=FORM_BYTES)
async def start_run(request: AnyRequest, draft_id: FromPath[str]) -> Answer:
    """Make a run of an upload, and redirect to it; a repeated request is redirected to the same run."""
    server, owner = server_of(request), caller_of(request).owner
    choice = await read_fields(request, RunFormQuery)
    async with server.turns.of(f"draft {draft_id}"):
        try:
            draft = server.drafts.of(draft_id, owner)
        except RunNotFound:
            started = await asyncio.to_thread(server.submissions.of, draft_id)
            if started is None or started.owner != owner:
                raise
            return _led(f"/runs/{draft_id}")
        return await _started(request, server, draft=draft, choice=choice)


async def _started(request: AnyRequest, server: Server, *, draft: UploadDraft, choice: RunFormQuery) -> Answer:
    try:
        query = _query(draft, choice)
        check_settings(server, caller_of(request), query)
        await PendingUpload(request, server, query=query, upload=draft.upload, spooled=draft.spooled).answer("")
    except HttpError as refusal:
        page = await _page(request, server, draft=draft, choice=choice, problems=_problems(refusal))
        return paged(request, "draft.html", page, status=refusal.status)
    await asyncio.to_thread(server.drafts.drop, draft)
    return _led(f"/runs/{draft.id}")


def _led(address: str) -> Answer:
    return Response(b"", status_code=303, headers={"Location": address})


def _address(draft: UploadDraft) -> str:
    return f"/validate/{draft.id}"


def _problems(refusal: HttpError) -> tuple[str, ...]:
    errors = refusal.details.get("errors")
    listed = tuple(error if isinstance(error, str) else str(error.get("message", "")) for error in errors or ())
    return listed or (refusal.message,)


async def _page(
    request: AnyRequest, server: Server, *, draft: UploadDraft, choice: RunFormQuery, problems: tuple[str, ...] = ()
) -> DraftPage:
    page = DraftPage(
        address=_address(draft),
        file_name=draft.file_name,
        size=words.size(draft.spooled.size),
        kept="It is stored here for an hour and visible only to you.",
        choice=choice,
    )
    work = partial(examine, allow_size=draft.allow_size)
    examined = await _found(server, draft, "report", work=work, arguments=(draft.spooled.path, draft.contract))
    if examined is None:
        return msgspec.structs.replace(page, is_pending=True)
    page = msgspec.structs.replace(with_report(page, examined), problems=problems, **await asyncio.to_thread(_offers, request))
    if problems or not page.can_run or not (choice.model or (page.models and page.models.default)):
        return page
    return await _with_estimate(request, server, page=page, draft=draft)


async def _with_estimate(request: AnyRequest, server: Server, *, page: DraftPage, draft: UploadDraft) -> DraftPage:
    query = _query(draft, page.choice)
    try:
        check_settings(server, caller_of(request), query)
    except HttpError as refusal:
        return msgspec.structs.replace(page, problems=_problems(refusal))
    asked = PendingUpload(request, server, query=query, upload=draft.upload, spooled=draft.spooled).request()
    found = await _found(server, draft, f"cost {page.choice.query()}", work=estimated, arguments=(asked,))
    if found is None:
        return msgspec.structs.replace(page, is_estimating=True)
    problems, notes = (tuple(map(server.told, _named(texts, draft))) for texts in (found.problems, found.notes))
    found = msgspec.structs.replace(found, problems=problems, notes=notes)
    return msgspec.structs.replace(page, problems=found.problems, estimate=estimate_view(found))


def _named(texts: tuple[str, ...], draft: UploadDraft) -> tuple[str, ...]:
    """The same with the name that the reader gave the file, in place of where this server keeps it."""
    kept = re.compile(rf"[^\s'\"]*{re.escape(f'{draft.id}/{draft.spooled.path.parent.name}/{draft.spooled.path.name}')}")
    return tuple(kept.sub(lambda _: draft.file_name, text) for text in texts)


async def _found(server: Server, draft: UploadDraft, what: str, *, work: Any, arguments: tuple[Any, ...]) -> Any:
    """What a piece of work says of a draft, found out once; None while it is under way."""
    if server.drafts.result(draft, what) is None:

        async def find_out() -> None:
            server.drafts.keep_result(draft, what, await server.workshop.run(draft.owner, draft.spooled.size, work, *arguments))

        if not await server.pending.is_ready(f"{draft.id} {what}", find_out):
            return None
    return server.drafts.result(draft, what)


def estimated(request: api.RunRequest) -> EstimateResult:
    """What the run of a request would cost, or everything that keeps it from being one."""
    try:
        planned = api.plan_runs(request)
    except api.PlanProblems as found:
        if found.refused:
            return EstimateResult(problems=(_REFUSED.format(found.refused[0].counts.rejected_records),))
        return EstimateResult(problems=tuple(found.problems))
    return EstimateResult(notes=planned.notes, estimate=api.estimate_cost(planned))


def _query(draft: UploadDraft, choice: RunFormQuery) -> SubmitQuery:
    return SubmitQuery(
        contract=draft.contract,
        name=draft.name,
        model=choice.model or None,
        judge=choice.judges,
        allow_size=draft.allow_size or None,
        **choice.settings(),
    )


def _offers(request: AnyRequest) -> dict[str, ModelChoices]:
    offers = offers_to(caller_of(request), server_of(request).settings)
    judges = _offered(offers.judges, default=", ".join(offers.judges.default))
    # Of several candidates one must be chosen, because an upload becomes one run.
    default = offers.candidates.default
    return {"models": _offered(offers.candidates, default=default[0] if len(default) == 1 else ""), "judges": judges}


def _offered(offer: Offer, *, default: str) -> ModelChoices:
    """The operator's list, whole names first; those of the run file are taken where none is chosen."""
    patterns = tuple(name for name in offer.patterns if any(mark in name for mark in "*?["))
    whole = tuple(name for name in offer.names if name not in patterns)
    return ModelChoices(names=whole, patterns=patterns, default=default)


HANDLERS = (validate_form, take_upload, show_draft, start_run)
