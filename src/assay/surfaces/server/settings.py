"""Settings of a service from a YAML file, and the models that they offer to a caller."""

import os
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from assay import api
from assay.core.errors import SourceUnreadable, UsageProblem
from assay.core.retention import RetentionSettings, longest_retention, retention_in
from assay.core.secrets import RedactRule
from assay.surfaces.server.errors import HttpError
from assay.surfaces.server.keys import Caller

Count = Annotated[int, Meta(ge=1)]
PAYLOAD_BYTES = 100 << 20
"""Largest payload of batch_v1."""


def _says(description: str) -> Meta:
    return Meta(description=description)


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of a service, made by its operator."""

    run_file: Annotated[
        str, _says("Run file, relative to this file, whose providers, candidates, judges and limits every run starts from.")
    ] = ""
    models: Annotated[
        tuple[str, ...] | None,
        _says(
            "Candidates that a request may name besides those of the run file; `*` stands for any part of a name. Without this "
            "list an admin key may name any model, as may every client where no key is needed; other keys may name no others."
        ),
    ] = None
    judges: Annotated[tuple[str, ...] | None, _says("Judges that a request may name, in the same way.")] = None
    hosts: Annotated[
        tuple[str, ...],
        _says("Host names of this service, in addition to `localhost`, this machine's name and IP addresses."),
    ] = ()
    redact: Annotated[
        tuple[RedactRule, ...],
        _says("Custom redaction rules (`name`, `pattern` in RE2) for every run, in addition to those of its run file."),
    ] = ()
    max_runs: Annotated[Count, _says("Runs that are worked on at the same time.")] = 2
    max_queue: Annotated[Count, _says("Runs that may wait for their turn; more are answered with 503.")] = 100
    max_uploads: Annotated[Count, _says("Uploads of one key at the same time; more are answered with 429.")] = 20
    max_streams: Annotated[Count, _says("Streams that one key follows at the same time; more are answered with 429.")] = 100
    max_concurrency: Annotated[Count, _says("Maximum `concurrency` of a request.")] = 64
    max_evaluations: Annotated[Count, _says("Maximum answers per run: its records times `repeat`.")] = 1_000_000
    requests_per_minute: Annotated[Count, _says("Requests of one key per minute.")] = 600
    max_connections: Annotated[Count, _says("Connections at the same time; more take the place of those that only wait.")] = 1000
    idle_seconds: Annotated[
        Annotated[float, Meta(gt=0)], _says("Time for the head of a request, and between two pieces of its body.")
    ] = 20.0
    log_requests: Annotated[
        bool, _says("Log a line for every request: method, route, status, milliseconds, name of the key and request id.")
    ] = False
    grace_seconds: Annotated[
        Annotated[float, Meta(ge=0)],
        _says("Time for calls in flight to finish when the service stops; the runs continue at the next start."),
    ] = 10.0
    max_bytes: Annotated[
        Annotated[int, Meta(ge=1, le=PAYLOAD_BYTES)], _says("Largest upload in bytes, also after it is unpacked.")
    ] = PAYLOAD_BYTES

    retention: Annotated[
        RetentionSettings,
        _says("Retention of the artifacts of runs submitted here: `{raw_days: 90, aggregate_days: 365}`."),
    ] = RetentionSettings()

    def offered_code(self) -> tuple[str, ...]:
        """List the functions that a request may name as models: those offered by their whole names."""
        # Patterns do not count: only whole names offer code.
        offered = (name.partition("function/") for name in (*(self.models or ()), *(self.judges or ())))
        return tuple(rest for before, mark, rest in offered if mark and not before and "*" not in rest)


class ServerSettingsRefused(UsageProblem):
    """The run file of the settings cannot be used for any run."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("; ".join(problems), hint="nothing was started; fix these and start again")
        self.problems = problems


def read_server_settings(path: str) -> ServerSettings:
    """Read the settings in a file; raises SourceUnreadable and UsageProblem."""
    if not path:
        return ServerSettings()
    try:
        settings = msgspec.yaml.decode(Path(path).read_bytes(), type=ServerSettings)
    except OSError as problem:
        raise SourceUnreadable(f"cannot read '{path}': {(problem.strerror or str(problem)).lower()}") from problem
    except msgspec.DecodeError as problem:
        raise UsageProblem(f"'{path}': {problem}", hint="docs/how-to/operate-a-server.md lists the settings") from problem
    # Too few days are refused at the start, not at the first run.
    longest_retention(settings.retention, retention_in(os.environ))
    problems = api.rule_problems(settings.redact)
    if problems:
        raise UsageProblem(f"'{path}': {'; '.join(problems)}", hint="nothing was started; fix these and start again")
    # Made absolute here: the process may be started in another folder than the settings are in.
    run_file = str((Path(path).parent / settings.run_file).absolute()) if settings.run_file else ""
    if run_file and not Path(run_file).is_file():
        raise SourceUnreadable(f"there is no run file '{run_file}', which '{path}' names", hint="its path is relative to that file")
    # At the start, not at the first run: an operator is there to read it.
    if run_file and (wrong := api.run_file_problems(run_file)):
        raise ServerSettingsRefused(wrong)
    return msgspec.structs.replace(settings, run_file=run_file)


ANY = ("*",)
MAX_NAMED = 20
"""Maximum models listed in a message; `details` has all of them."""


class ModelOffer(msgspec.Struct, frozen=True, kw_only=True):
    """Candidates or the judges that a caller may name."""

    setting: str
    """Setting with the operator's list."""
    patterns: tuple[str, ...]
    """Operator's entries; `*` stands for any part of a name."""
    in_run_file: tuple[str, ...] = ()
    default: tuple[str, ...] = ()
    """Defaults for a request that names none."""

    @property
    def names(self) -> tuple[str, ...]:
        """Describe all entries, as the operator wrote them."""
        return tuple(dict.fromkeys((*self.patterns, *self.in_run_file)))

    def check(self, name: str, *, is_file: bool) -> None:
        """Raise HttpError for a model that is not listed; one that is a file or a function must be listed by its whole name."""
        # A pattern such as * must not offer files and code of the server.
        is_listed = name in self.patterns if is_file else any(fnmatchcase(name, pattern) for pattern in self.patterns)
        if is_listed or name in self.in_run_file:
            return
        if is_file and any(fnmatchcase(name, pattern) for pattern in self.patterns):
            message = f"the model '{name[:200]}' is a file or a function of the server, which no pattern such as * allows"
            # 403 with the list: the request is understood, and the operator can change it.
            hint = f"the operator can offer it by listing its whole name under `{self.setting}` in the settings of the server"
            raise HttpError(403, message, details={"offered": list(self.names), "hint": hint})
        shown = ", ".join(self.names[:MAX_NAMED]) + (" …" if len(self.names) > MAX_NAMED else "")
        allowed = f"allowed are: {shown}" if self.names else "no model is allowed yet"
        hint = (
            f"the operator allows a model by listing it under `{self.setting}` in the settings of the server (assay serve --config)"
        )
        message = f"the model '{name[:200]}' is not offered here; {allowed}"
        raise HttpError(403, message, details={"offered": list(self.names), "hint": hint})


class ModelOffers(msgspec.Struct, frozen=True):
    """Models that one caller may name."""

    candidates: ModelOffer
    judges: ModelOffer


def offers_to(caller: Caller, settings: ServerSettings) -> ModelOffers:
    """Return what a caller may name; without a list, an admin key may name any model and other keys those of the run file."""
    found = api.run_file_models(settings.run_file) if settings.run_file else api.NamedModels()
    unlisted = ANY if caller.sees_all else ()
    return ModelOffers(
        ModelOffer(
            setting="models",
            patterns=unlisted if settings.models is None else settings.models,
            in_run_file=found.candidate_ids,
            default=found.candidates,
        ),
        ModelOffer(
            setting="judges",
            patterns=unlisted if settings.judges is None else settings.judges,
            in_run_file=found.judge_ids,
            default=found.judges,
        ),
    )


def refuse_unoffered(
    caller: Caller, settings: ServerSettings, *, candidates: tuple[str, ...] = (), judges: tuple[str, ...] = ()
) -> None:
    """Raise HttpError for a model that the caller may not name."""
    if not candidates and not judges:
        return
    for name in (*candidates, *judges):
        # A name goes into messages and logs, where control characters could forge a line.
        if not name.isprintable():
            hint = "send provider/model without line feeds and control characters"
            raise HttpError(400, f"{name[:200]!r} is not a model name", details={"hint": hint})
    offers, files = offers_to(caller, settings), api.file_models((*candidates, *judges), settings.run_file)
    for offer, names in ((offers.candidates, candidates), (offers.judges, judges)):
        for name in names:
            offer.check(name, is_file=name in files)
