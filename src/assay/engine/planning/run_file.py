"""The run file: YAML or JSON that says which models answer which datasets, who judges, and within which limits."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from assay.core.issue import Issue
from assay.core.secrets import RedactRule
from assay.core.settings import CacheSection, ModelEntry, ProviderEntry, RetrySection, RunFile, RunSection, StageSection
from assay.core.strict_json import Document
from assay.datasets.parsing.checks import FindingList, check_flaws
from assay.datasets.parsing.formats import is_of_a_run, parse_yaml
from assay.datasets.parsing.issue_locator import RecordContext, locate_issue
from assay.datasets.parsing.source import open_source
from assay.engine.planning.settings import FieldAliases, Wordings, read_settings
from assay.store.redact import rule_problem

_NAME_IT = "keys do not belong in files: put it into an environment variable and name that in key_variable"
WORDINGS: Wordings = {
    RunFile: FieldAliases({"thresholds": "gates"}, {"budget": "write max_cost at the top of the file"}),
    ProviderEntry: FieldAliases(
        {"api_key_env": "key_variable", "rpm": "requests_per_minute", "tpm": "tokens_per_minute"},
        {
            **dict.fromkeys(("api_key", "apikey", "key", "secret", "token", "access_token", "password"), _NAME_IT),
            "region": "it is part of base_url, or for litellm of the model's extra_body (aws_region_name, vertex_location)",
            "project": "send it in headers (OpenAI-Project), or for litellm in the model's extra_body (vertex_project)",
        },
    ),
    ModelEntry: FieldAliases({}, dict.fromkeys(("api_key", "key"), _NAME_IT)),
    RunSection: FieldAliases({"root": "runs_dir", "workers": "concurrency", "responses_path": "responses"}),
    StageSection: FieldAliases({"workers": "concurrency", "rpm": "requests_per_minute"}),
    RetrySection: FieldAliases({"attempts": "max_attempts"}),
    CacheSection: FieldAliases({"dir": "folder"}),
}
"""Names that users of other tools write, and names that would put a secret into a file."""

_KEY_HEADERS = r"(?i)authorization|cookie|(api|access|secret|auth)[-_ ]?(key|token)|token|secret|password"
_KEY_VALUE = r"(sk|pk|key|ghp|xox[a-z]|AKIA|AIza|Bearer)[-_ ]?[A-Za-z0-9_-]{8,}"


class LoadedRunFile(msgspec.Struct, frozen=True):
    """The members of a run file that could be read, its problems, and its text to point at."""

    path: str
    document: Document
    members: dict[str, Any]
    findings: FindingList


def load_run_file(path: str | Path) -> LoadedRunFile:
    """The run file at a path; what is wrong with it is in `findings`. Raises SourceUnreadable where there is no file."""
    document = parse_yaml(bytes(open_source(path).buffer()))
    found = FindingList()
    members: dict[str, Any] = {}
    if document.is_readable:
        members = read_members({} if document.value is None else document.value, found)
    check_flaws(found, document, ())
    return LoadedRunFile(str(path), document, members, found)


def read_members(value: Any, found: FindingList) -> dict[str, Any]:
    """The members of a run file given as plain values; `found` gets every problem."""
    members = read_settings(value, RunFile, found=found, wordings=WORDINGS)
    _refuse_secrets(members, found)
    _check_redact_rules(members, found)
    return members


def _check_redact_rules(members: Mapping[str, Any], found: FindingList) -> None:
    names: set[str] = set()
    for index, entry in enumerate(members.get("redact", ())):
        if not isinstance(entry, Mapping) or not {"name", "pattern"} <= entry.keys():
            continue
        rule = RedactRule(**entry)
        problem = rule_problem(rule, earlier=names)
        names.add(rule.name)
        if problem is not None:
            found.add("value_out_of_range", ("redact", index, problem.member), problem.message, hint=problem.hint)


def _refuse_secrets(members: Mapping[str, Any], found: FindingList) -> None:
    """A key in a header or in the request's body is as much in the file as one that is called a key; `$NAME` is none."""
    for index, provider in enumerate(members.get("providers", ())):
        for name, text in (provider.get("headers", {}) if provider else {}).items():
            if not text.startswith("$") and (re.search(_KEY_HEADERS, name) or re.search(_KEY_VALUE, text)):
                path = ("providers", index, "headers", name)
                hint = "write $NAME, the environment variable that holds it, or name that in key_variable"
                found.add("unsupported_field", path, f"the header '{name}' seems to hold a key", hint=hint, on_key=True)
    for section in ("candidates", "judges"):
        for index, model in enumerate(members.get(section, ())):
            body = model.get("extra_body", {}) if isinstance(model, dict) else {}
            for name in body:
                if re.search(_KEY_HEADERS, name) and not name.endswith("tokens"):
                    path = (section, index, "extra_body", name)
                    found.add("unsupported_field", path, f"'{name}' seems to hold a key", hint=_NAME_IT, on_key=True)


def is_run_file(path: str | Path) -> bool:
    """True for a YAML or JSON mapping that names datasets, candidates, judges or a run, rather than records."""
    return is_of_a_run(open_source(path))


def issue_of(loaded: LoadedRunFile, finding: Any) -> Issue:
    """A finding with its line and column in the run file."""
    return locate_issue(finding, loaded.document, RecordContext())


def run_file_schema() -> dict[str, Any]:
    """JSON Schema of the run file; older names are in it as deprecated ones."""
    (ref,), components = msgspec.json.schema_components([RunFile])
    for component in components.values():
        # Sections that plans embed accept what a later version added to them; in a file an unknown key is an error.
        component["additionalProperties"] = False
        component["properties"] = {key: member for key, member in component["properties"].items() if not member.get("readOnly")}
        # The keys of a section have their own defaults.
        for member in component["properties"].values():
            if "$ref" in member and "default" in member:
                member["default"] = {}
    for kind, wording in WORDINGS.items():
        properties = components[kind.__name__]["properties"]
        for older, name in wording.older.items():
            kept = {key: value for key, value in properties[name].items() if key not in ("description", "default")}
            properties[older] = {**kept, "description": f"Older name of `{name}`.", "deprecated": True}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "assay run file", **ref, "$defs": components}
