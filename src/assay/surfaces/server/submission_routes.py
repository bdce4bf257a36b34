"""Validation of datasets and submission of runs, over HTTP and as pages."""

import asyncio
import hashlib
import re
import secrets
import time
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any

import msgspec
from litestar import Response, get, post
from litestar.params import FromPath

from assay import api
from assay.core.canonical import JsonObject
from assay.core.errors import RunNotFound
from assay.core.http_answers import RecordError, RecordSummary, SubmissionResponse, ValidationResponse
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
from assay.surfaces.server.errors import AnyRequest, HttpError, request_id_of
from assay.surfaces.server.keys import Caller
from assay.surfaces.server.queries import SUBMITTED, CheckQuery, SubmitQuery, read_query
from assay.surfaces.server.server import BytesResponse, Server, caller_of, json_response, page_response, read_choice, server_of
from assay.surfaces.server.settings import ModelOffer, offers_to, refuse_unoffered
from assay.surfaces.server.uploads import FORM_BYTES, FileForm, SpooledUpload, UploadDraft, ending_of, read_fields, spool_body

KEY_CHARACTERS = 255
ALL_INVALID = "all_records_invalid"
"""Code of the dataset error that the record errors explain."""
_INVALID = {
    False: "the dataset has invalid records; on_invalid=skip leaves them out",
    True: "the dataset has invalid records, and its contract takes all of them or none",
}
"""Message for a dataset, by whether it is rejected as a whole."""


@post("/v1/validate", status_code=200, query=CheckQuery, answer=ValidationResponse, errors=(400, 413, 415), takes_dataset=True)
async def validate_dataset(request: AnyRequest) -> BytesResponse:
    """Validate a dataset and report every problem, without starting a run."""
    server, query = server_of(request), read_query(request, CheckQuery)
    # A random name: what a client calls its file is never part of a path.
    path = server.submissions.temporary / f"upload-{secrets.token_hex(8)}{ending_of(request, query.contract)}"
    with server.uploads.of(caller_of(request).name):
        try:
            spooled = await spool_body(request, path, limit=server.settings.max_bytes)
            server.meters.uploaded.inc(spooled.size)
            check = partial(api.check_upload, allow_size=query.allow_size, null_as_absent=query.null_as_absent)
            # Validation of a large upload is CPU for seconds, so it goes to the pool and takes turns by caller.
            verdict = await server.validation_pool.run(caller_of(request).name, spooled.size, check, path, query.contract)
        finally:
            # Validated and forgotten: nothing is kept of a dataset that was only to be checked.
            path.unlink(missing_ok=True)
    return json_response(
        ValidationResponse(
            contract=verdict.contract,
            outcome=verdict.outcome,
            summary=_summary(verdict),
            dataset_errors=verdict.dataset_errors,
            dataset_errors_total=verdict.dataset_errors_total,
            record_errors=_errors(verdict),
            record_errors_total=verdict.record_errors_total,
            warnings=verdict.warnings,
            warnings_total=verdict.warnings_total,
            not_sent=verdict.fields.get("not_sent", {}),
            judge_only=verdict.fields.get("judge_only", {}),
            candidate_and_judge=verdict.fields.get("candidate_and_judge", {}),
            request_id=request_id_of(request),
        )
    )


@post("/v1/runs", status_code=202, query=SubmitQuery, answer=SubmissionResponse, errors=(400, 409, 413, 415), takes_dataset=True)
async def submit_run(request: AnyRequest) -> BytesResponse:
    """Take a dataset and start a run over it; the run is durable when this is answered."""
    server, query = server_of(request), read_query(request, SubmitQuery)
    check_settings(server, caller_of(request), query)
    ending, key = ending_of(request, query.contract), _idempotency_key(request)
    # A full queue refuses before the upload. A repeated key is let through, since its run exists and takes no
    # place.
    if not key or await asyncio.to_thread(server.submissions.under, caller_of(request).owner, key) is None:
        server.queue.check_room()
    with server.uploads.of(caller_of(request).name):
        upload = await asyncio.to_thread(server.submissions.new_upload)
        try:
            path = upload.folder / f"{query.name or 'dataset'}{ending}"
            spooled = await spool_body(request, path, limit=server.settings.max_bytes)
            server.meters.uploaded.inc(spooled.size)
            submission = PendingUpload(request, server, query=query, upload=upload, spooled=spooled)
            return await submission.answer(key)
        finally:
            # Does nothing once a run owns the upload.
            await asyncio.to_thread(server.submissions.discard, upload)


def check_settings(server: Server, caller: Caller, query: SubmitQuery) -> None:
    """Raise HttpError for settings that the operator does not allow."""
    candidates = (query.model,) if query.model else ()
    refuse_unoffered(caller, server.settings, candidates=candidates, judges=query.judge)
    if query.concurrency and query.concurrency > server.settings.max_concurrency:
        raise HttpError(403, f"the concurrency is at most {server.settings.max_concurrency} here")


def _idempotency_key(request: AnyRequest) -> str:
    key = request.headers.get("idempotency-key", "")
    is_given = "idempotency-key" in request.headers
    # Printable ASCII, since the key is stored and logged as it was sent.
    if is_given and not (len(key) <= KEY_CHARACTERS and key.isascii() and key.isprintable() and key.strip()):
        raise HttpError(400, f"the Idempotency-Key must have 1 to {KEY_CHARACTERS} printable characters of ASCII")
    return key


class _KeyTaken(Exception):
    """Another server has made a run under the same key at this very moment."""


class PendingUpload:
    """One upload on its way to a run."""

    def __init__(
        self, request: AnyRequest, server: Server, *, query: SubmitQuery, upload: api.UploadTarget, spooled: SpooledUpload
    ) -> None:
        self._request_id = request_id_of(request)
        self._caller = caller_of(request)
        self._owner = self._caller.owner
        self._server = server
        self._query = query
        self._upload = upload
        self._spooled = spooled

    async def answer(self, key: str) -> BytesResponse:
        """Return the answer of the contract; for an idempotency key with a run, that run's answer."""
        if not key:
            return await self._accepted("")
        # Requests under one key wait for each other; other servers are excluded by the unique index in the
        # ledger.
        async with self._server.locks.of(f"{self._owner} {key}"):
            earlier = await asyncio.to_thread(self._server.submissions.under, self._owner, key)
            if earlier is None:
                # The other server's transaction was faster, and its run is the answer.
                with suppress(_KeyTaken):
                    return await self._accepted(key)
                earlier = await asyncio.to_thread(self._server.submissions.under, self._owner, key)
        assert earlier is not None
        if earlier.fingerprint != self._fingerprint():
            message = "the Idempotency-Key was used with another body or other settings"
            # The id tells a client that lost its answer which run it has.
            raise HttpError(409, message, details={"run_id": earlier.run_id})
        again = await asyncio.to_thread(self._again, msgspec.json.decode(earlier.answer, type=SubmissionResponse))
        # 202 as the first time, so that a client need not tell a repetition from the original.
        return json_response(again, status=202, headers={"Location": f"/v1/runs/{earlier.run_id}", "Idempotent-Replayed": "true"})

    def _again(self, first: SubmissionResponse) -> SubmissionResponse:
        """Repeat the first answer; its errors come from the run, which has redacted them after reading its input."""
        try:
            found = self._server.read_run(
                # As many as the first answer had: a client must not see more for repeating.
                first.run_id,
                self._caller,
                lambda run: list(islice(api.record_errors(run), api.MAX_ERRORS)),
            )
        except RunNotFound:
            # Its artifacts are on another machine.
            return msgspec.structs.replace(
                first, record_errors_truncated=bool(first.record_errors_total), request_id=self._request_id
            )
        listed = tuple(RecordError(**error) for error in found)
        # Without truncation the number is that of the list, and the first answer had none.
        total = first.record_errors_total if first.record_errors_truncated else None
        return msgspec.structs.replace(first, record_errors=listed, record_errors_total=total, request_id=self._request_id)

    async def _accepted(self, key: str) -> BytesResponse:
        verdict = await self._server.validation_pool.run(self._owner, self._spooled.size, api.prepare_run, self.request())
        if not verdict.plan:
            raise refusal_for(verdict, self._server)
        most = self._server.settings.max_evaluations
        # Records times answers is what costs time and money; a limit on records alone would miss `repeat`.
        if verdict.evaluations > most:
            message = f"the run would ask for {verdict.evaluations:,} answers, and {most:,} are the most here"
            raise HttpError(400, message, details={"hint": "repeat less, or take a part of the records with limit or sample"})
        accepted = self._answer_for(verdict)
        row = api.SubmissionRow(
            run_id=self._upload.run_id,
            owner=self._owner,
            key=key,
            fingerprint=self._fingerprint(),
            # The stored answer has no errors of records: they quote the upload, and are read back from the
            # redacted run.
            answer=msgspec.json.encode(
                msgspec.structs.replace(accepted, record_errors=(), record_errors_total=verdict.record_errors_total)
            ),
            at=time.time(),
        )
        # A complete upload takes the place in the queue, not one that is still arriving.
        with self._server.queue.reserve():
            await self._keep(verdict, row)
        return json_response(accepted, status=202, headers={"Location": f"/v1/runs/{row.run_id}"})

    async def _keep(self, verdict: api.UploadVerdict, row: api.SubmissionRow) -> None:
        server = self._server
        if server.shared is None:
            # Shielded from a disconnect of the client: a run that exists but is not queued would never start.
            await asyncio.to_thread(self._keep_here, verdict, row)
            return
        await asyncio.to_thread(self._note, row)
        # As it was validated: a large upload in another process.
        where = partial(api.accept_records, runs_dir=server.runs_dir, placement=server.placement)
        if not await server.validation_pool.run(self._owner, self._spooled.size, where, verdict.plan, row):
            raise _KeyTaken
        server.meters.submitted.inc()
        # If the client is gone by now, recovery finds the run, which has no driver.
        await asyncio.to_thread(server.queue.add, row.run_id, self._owner)

    def _keep_here(self, verdict: api.UploadVerdict, row: api.SubmissionRow) -> None:
        self._note(row)
        self._server.submissions.accept(verdict, row)
        self._server.meters.submitted.inc()
        self._server.queue.add(row.run_id, self._owner)

    def _note(self, row: api.SubmissionRow) -> None:
        # Noted first: a run that could not be noted must not exist, or the retry that a 503 asks for would make another.
        self._server.submissions.note(
            "run_submitted",
            by=self._caller.name,
            run_id=row.run_id,
            dataset_sha256=self._spooled.sha256,
            request_id=self._request_id,
        )

    def request(self) -> api.RunRequest:
        """Build the request for the run."""
        query, server = self._query, self._server
        contract = None if query.contract == "auto" else query.contract
        # An absolute path: the run may be resumed by a process in another folder.
        dataset = api.DatasetEntry(path=str(self._spooled.path.absolute()), name=query.name or "", contract=contract)
        return api.RunRequest(
            run_file=server.settings.run_file,
            datasets=(dataset,),
            runs_dir=str(server.runs_dir.absolute()),
            run_id=self._upload.run_id,
            project=self._caller.project,
            interface="http",
            retention=server.settings.retention,
            redact=server.settings.redact,
            # A caller who may send datasets must not choose what code this process runs, unless the operator offers it.
            code=server.settings.offered_code(),
            **query.settings(),
        )

    def _fingerprint(self) -> str:
        settings = msgspec.to_builtins(self._query)
        for setting in SUBMITTED:
            # Left out where it is not given, so that idempotency keys of the first version keep their meaning.
            if setting.parameter and setting.parameter.is_later and settings[setting.parameter_name] is None:
                del settings[setting.parameter_name]
        # Body and settings together: the same dataset with another model is another request.
        return hashlib.sha256(self._spooled.sha256.encode() + msgspec.json.encode(settings)).hexdigest()

    def _answer_for(self, verdict: api.UploadVerdict) -> SubmissionResponse:
        run_id, errors = self._upload.run_id, _errors(verdict)
        accepted = SubmissionResponse(
            run_id=run_id,
            # The two words of the contract for an accepted submission.
            status="accepted_with_record_errors" if errors else "accepted",
            summary=_summary(verdict),
            record_errors=errors,
            request_id=self._request_id,
        )
        if verdict.record_errors_total == len(errors):
            return accepted
        return msgspec.structs.replace(
            accepted,
            record_errors_truncated=True,
            record_errors_total=verdict.record_errors_total,
            record_errors_url=f"/v1/runs/{run_id}/errors",
        )


def refusal_for(verdict: api.UploadVerdict, server: Server) -> HttpError:
    """Build the error for an upload that cannot become a run, with the contract's own message if it has one."""
    if verdict.problems:
        problems = [server.redact_paths(problem) for problem in verdict.problems]
        return HttpError(400, "the run cannot be started with these settings", details={"errors": problems})
    # The first dataset error is the reason of the refusal; all of them are in the details.
    first: JsonObject = verdict.dataset_errors[0] if verdict.dataset_errors else {}
    message = first.get("message") or _INVALID[verdict.outcome == "rejected"]
    details: JsonObject = dict(first.get("details") or {})
    if verdict.record_errors:
        details |= {
            "rejected_records": verdict.counts.rejected_records,
            "accepted_records": verdict.counts.accepted_records,
            "record_errors": [msgspec.to_builtins(error) for error in _errors(verdict)],
        }
        if verdict.record_errors_total > len(verdict.record_errors):
            details |= {"record_errors_truncated": True, "record_errors_total": verdict.record_errors_total}
    # `all_records_invalid` repeats what the record errors say.
    listed = [error for error in verdict.dataset_errors if error["code"] != ALL_INVALID or "record_errors" not in details]
    if listed:
        details["errors"] = [
            {name: error.get(name) for name in ("code", "message", "path", "line", "column", "hint")}
            | ({"parameter": error["parameter"]} if "parameter" in error else {})
            for error in listed
        ]
        if verdict.dataset_errors_total > len(verdict.dataset_errors):
            details["errors_total"] = verdict.dataset_errors_total
    # The contract decides the status of its own refusals: 413 for size, otherwise 400.
    return HttpError(int(first.get("http_status", 400)), message, details=details)


def _summary(verdict: api.UploadVerdict) -> RecordSummary:
    return RecordSummary(**msgspec.to_builtins(verdict.counts))


def _errors(verdict: api.UploadVerdict) -> tuple[RecordError, ...]:
    return tuple(RecordError(**error) for error in verdict.record_errors)


_REFUSED = "{:,} invalid records: leave them out (see “Invalid records”), or fix them first"
_TOO_LARGE = "Split the file, or validate it where it is: assay validate FILE"


@get("/validate")
async def validate_form(request: AnyRequest) -> BytesResponse:
    """Show the form for a dataset."""
    choice = read_choice(request, ValidateChoice)
    return page_response(request, "validate.html", validate_page(choice.contract, server_of(request).settings.max_bytes))


@post("/validate", status_code=303)
async def take_upload(request: AnyRequest) -> BytesResponse:
    """Store an upload for an hour, and redirect to its report."""
    server = server_of(request)
    try:
        draft = await _kept(request, server)
    except HttpError as refusal:
        # In a form the same refusal gets a hint for people.
        hint = _TOO_LARGE if refusal.status == 413 else ""
        page = validate_page("auto", server.settings.max_bytes, problem=refusal.message, hint=hint)
        return page_response(request, "validate.html", page, status=refusal.status)
    return _redirect(_address(draft))


async def _kept(request: AnyRequest, server: Server) -> UploadDraft:
    """Store the upload as a draft; raises HttpError, and then nothing is left of it."""
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
            # Checked against the type of the query, so that a form cannot name what the address could not.
            contract=_contract(form.fields.get("contract", "auto")),
            spooled=spooled,
            at=time.time(),
            allow_size=form.fields.get("allow_size") == "true",
        )
        await asyncio.to_thread(server.drafts.keep, draft)
        is_kept = True
    finally:
        # The draft has not taken the upload over, so its folder goes.
        if not is_kept:
            await asyncio.to_thread(server.submissions.discard, upload)
    return draft


def _contract(name: str) -> Any:
    try:
        return msgspec.convert({"contract": name}, CheckQuery).contract
    except msgspec.ValidationError as problem:
        raise HttpError(400, f"the contract '{name[:64]}' is not known") from problem


@get("/validate/{draft_id:str}")
async def show_draft(request: AnyRequest, draft_id: FromPath[str]) -> BytesResponse:
    """Show the validation of an upload, and the estimated cost of a run."""
    server = server_of(request)
    draft = server.drafts.of(draft_id, caller_of(request).owner)
    choice = read_choice(request, RunFormQuery)
    page = await _page(request, server, draft=draft, choice=choice)
    return await asyncio.to_thread(page_response, request, "draft.html", page)


@post("/validate/{draft_id:str}/run", status_code=303, request_max_body_size=FORM_BYTES)
async def start_run(request: AnyRequest, draft_id: FromPath[str]) -> BytesResponse:
    """Start a run of an upload and redirect to it; a repeated request is redirected to the same run."""
    server, owner = server_of(request), caller_of(request).owner
    choice = await read_fields(request, RunFormQuery)
    # A double click sends the form twice; the second request waits and finds the run of the first.
    async with server.locks.of(f"draft {draft_id}"):
        try:
            draft = server.drafts.of(draft_id, owner)
        # The draft is gone because a run was made of it, under the same id.
        except RunNotFound:
            started = await asyncio.to_thread(server.submissions.of, draft_id)
            if started is None or started.owner != owner:
                raise
            return _redirect(f"/runs/{draft_id}")
        return await _started(request, server, draft=draft, choice=choice)


async def _started(request: AnyRequest, server: Server, *, draft: UploadDraft, choice: RunFormQuery) -> BytesResponse:
    try:
        query = _query(draft, choice)
        check_settings(server, caller_of(request), query)
        # Without an idempotency key: the id of the draft already makes it one run.
        await PendingUpload(request, server, query=query, upload=draft.upload, spooled=draft.spooled).answer("")
    except HttpError as refusal:
        page = await _page(request, server, draft=draft, choice=choice, problems=_problems(refusal))
        return page_response(request, "draft.html", page, status=refusal.status)
    await asyncio.to_thread(server.drafts.drop, draft)
    return _redirect(f"/runs/{draft.id}")


def _redirect(address: str) -> BytesResponse:
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
    # With problems, or without a model, an estimate would be of a run that cannot be started.
    if problems or not page.can_run or not (choice.model or (page.models and page.models.default)):
        return page
    return await _with_estimate(request, server, page=page, draft=draft)


async def _with_estimate(request: AnyRequest, server: Server, *, page: DraftPage, draft: UploadDraft) -> DraftPage:
    query = _query(draft, page.choice)
    try:
        check_settings(server, caller_of(request), query)
    except HttpError as refusal:
        return msgspec.structs.replace(page, problems=_problems(refusal))
    # Estimate exactly the request that would be submitted.
    asked = PendingUpload(request, server, query=query, upload=draft.upload, spooled=draft.spooled).request()
    found = await _found(server, draft, f"cost {page.choice.query()}", work=estimated, arguments=(asked,))
    if found is None:
        return msgspec.structs.replace(page, is_estimating=True)
    problems, notes = (tuple(map(server.redact_paths, _named(texts, draft))) for texts in (found.problems, found.notes))
    found = msgspec.structs.replace(found, problems=problems, notes=notes)
    return msgspec.structs.replace(page, problems=found.problems, estimate=estimate_view(found))


def _named(texts: tuple[str, ...], draft: UploadDraft) -> tuple[str, ...]:
    """Replace the path of the stored upload in texts by the name that the viewer gave the file."""
    # The folder's name is random, so the pattern finds exactly this upload, however its path is written.
    kept = re.compile(rf"[^\s'\"]*{re.escape(f'{draft.id}/{draft.spooled.path.parent.name}/{draft.spooled.path.name}')}")
    return tuple(kept.sub(lambda _: draft.file_name, text) for text in texts)


async def _found(server: Server, draft: UploadDraft, what: str, *, work: Any, arguments: tuple[object, ...]) -> Any:
    """Return the result of work on a draft, computed once; None while it is in progress."""
    # Stored with the draft, since a page that is loaded again asks for the same.
    if server.drafts.result(draft, what) is None:

        async def find_out() -> None:
            server.drafts.keep_result(
                draft, what, await server.validation_pool.run(draft.owner, draft.spooled.size, work, *arguments)
            )

        if not await server.background.is_ready(f"{draft.id} {what}", find_out):
            return None
    return server.drafts.result(draft, what)


def estimated(request: api.RunRequest) -> EstimateResult:
    """Estimate the cost of a requested run, or list its problems."""
    try:
        planned = api.plan_runs(request)
    except api.PlanProblems as found:
        if found.refused:
            # Its only problem may be invalid records, for which the form has a setting.
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


def _offered(offer: ModelOffer, *, default: str) -> ModelChoices:
    """Return the operator's list, whole names first; without a choice the models of the run file are used."""
    # The marks of `fnmatch`.
    patterns = tuple(name for name in offer.patterns if any(mark in name for mark in "*?["))
    whole = tuple(name for name in offer.names if name not in patterns)
    return ModelChoices(names=whole, patterns=patterns, default=default)


HANDLERS = (validate_dataset, submit_run, validate_form, take_upload, show_draft, start_run)
