"""The operator's settings of the service, from a YAML file."""

import os
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from assay import api
from assay.core.errors import SourceUnreadable, UsageProblem
from assay.core.retention import RetentionSettings, longest_retention, retention_in
from assay.core.secrets import RedactRule

Count = Annotated[int, Meta(ge=1)]
PAYLOAD_BYTES = 100 << 20
"""The largest payload of batch_v1."""


def _says(description: str) -> Meta:
    return Meta(description=description)


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the operator of a service decides."""

    run_file: Annotated[
        str, _says("Run file, relative to this file, whose providers, candidates, judges and limits every run starts from.")
    ] = ""
    models: Annotated[
        tuple[str, ...] | None,
        _says(
            "Candidates that a request may name besides those of the run file; `*` stands for any part of a name. Without this "
            "list an admin key may name any model, and so may everybody where no key is needed; other keys may name no others."
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
        """Functions that a request may name as models: those that are offered by their whole names."""
        offered = (name.partition("function/") for name in (*(self.models or ()), *(self.judges or ())))
        return tuple(rest for before, mark, rest in offered if mark and not before and "*" not in rest)


class ServerSettingsRefused(UsageProblem):
    """Check that some run of the service could be made with the run file."""

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
    problems = api.redact_rule_problems(settings.redact)
    if problems:
        raise UsageProblem(f"'{path}': {'; '.join(problems)}", hint="nothing was started; fix these and start again")
    run_file = str((Path(path).parent / settings.run_file).absolute()) if settings.run_file else ""
    if run_file and not Path(run_file).is_file():
        raise SourceUnreadable(f"there is no run file '{run_file}', which '{path}' names", hint="its path is relative to that file")
    if run_file and (wrong := api.run_file_problems(run_file)):
        raise ServerSettingsRefused(wrong)
    return msgspec.structs.replace(settings, run_file=run_file)
