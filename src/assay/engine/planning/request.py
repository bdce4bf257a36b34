"""Settings of a run: a run file and options into one typed value, with the location of everything that is wrong."""

import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import msgspec
from msgspec import inspect

from assay.core.checks import Check, CheckType, named_checks
from assay.core.errors import UsageProblem, in_one_line
from assay.core.exposure import FIXED, ExposedSetting, settings_struct
from assay.core.issue import Finding, Issue
from assay.core.issue import Path as Steps
from assay.core.plan import DEFAULT_PROJECT, PluginKind
from assay.core.plugin import Plugin, given_plugin
from assay.core.provider import FUNCTIONS
from assay.core.report import ValidationReport
from assay.core.retention import RetentionSettings
from assay.core.secrets import RedactRule
from assay.core.settings import (
    BUDGET_HINT,
    CacheSection,
    DatasetEntry,
    ModelEntry,
    ProviderEntry,
    RetrySection,
    RunFile,
    RunSection,
    StageSection,
    named_rates,
    run_settings,
)
from assay.core.strict_json import ParsedDocument
from assay.datasets.parsing.checks import (
    FindingList,
    array_at,
    check_flaws,
    hint_of,
    name_of,
    nearest,
    object_at,
    retype_hint,
    short,
    type_name,
    word_at,
)
from assay.datasets.parsing.config import Interface
from assay.datasets.parsing.formats import is_of_a_run, parse_yaml, table_kind
from assay.datasets.parsing.issue_locator import RecordContext, locate_issue
from assay.datasets.parsing.source import open_source
from assay.engine.planning.check_entries import usable_checks, usable_graders
from assay.engine.planning.http_endpoints import is_secret, literal_secrets
from assay.store.redact import rule_problem, rule_problems

_BAD: Any = object()
"""Placeholder for a value with a finding; the settings are built without it."""
_KINDS: dict[type[inspect.Type], str] = {
    inspect.StrType: "a string",
    inspect.IntType: "an integer",
    inspect.FloatType: "a number",
}
"""Names of the plain types in hints."""
_PLAIN_TYPES: dict[type[inspect.Type], tuple[type, ...]] = {
    inspect.StrType: (str,),
    inspect.BoolType: (bool,),
    inspect.IntType: (int,),
    inspect.FloatType: (float, int),
    inspect.LiteralType: (str,),
    inspect.StructType: (dict,),
    inspect.DictType: (dict,),
    inspect.VarTupleType: (list,),
    inspect.NoneType: (type(None),),
}
"""Types of plain values that may become a value of each type."""


class FieldAliases(msgspec.Struct, frozen=True):
    """Other names that people write for the members of one type."""

    older: Mapping[str, str] = {}
    """Accepted names, each with the one that it stands for."""
    refused: Mapping[str, str] = {}
    """Names that are never right, each with what to do instead."""


Wordings = Mapping[type, FieldAliases]


def read_settings(value: object, kind: type, *, found: FindingList, wordings: Wordings, path: Steps = ()) -> dict[str, object]:
    """Return the members of `value` that fit the struct type `kind`, under their own names; all others become findings."""
    read = _SettingsReader(found, wordings).read(value, inspect.type_info(kind), path)
    return {} if read is _BAD else read


class _SettingsReader:
    """One walk along a value and its type."""

    def __init__(self, found: FindingList, wordings: Wordings) -> None:
        self._found = found
        self._wordings = wordings

    def read(self, value: Any, expected: inspect.Type, path: Steps) -> Any:
        match _bare(expected):
            case inspect.UnionType(types=options):
                tags = {
                    option.tag: option for option in map(_bare, options) if isinstance(option, inspect.StructType) and option.tag
                }
                return self._tagged(value, tags, path) if tags else self.read(value, _option(value, options), path)
            case inspect.StructType() as struct:
                return self._struct(value, struct, path)
            case inspect.VarTupleType(item_type=item):
                return self._list(value, item, path)
            case inspect.DictType(value_type=member):
                return self._mapping(value, member, path)
            case inspect.LiteralType(values=words):
                word = word_at(self._found, value, path, words=[str(word) for word in words])
                return _BAD if word is None else word
            case inspect.AnyType() | inspect.NoneType():
                return value
            case plain:
                return self._plain(value, plain, path, must=_title(expected) or _described(plain))

    def _struct(self, value: object, expected: inspect.StructType, path: Steps) -> Any:
        members = object_at(self._found, value, path)
        if members is None:
            return _BAD
        fields = {field.encode_name: field for field in expected.fields if not _is_fixed(field.type)}
        wording = self._wordings.get(expected.cls, FieldAliases())
        read: dict[str, Any] = {}
        for name, member in members.items():
            known = wording.older.get(name, name)
            if known not in fields:
                self._unknown((*path, name), fields, wording)
            elif known != name and known in members:
                self._found.add(
                    "unsupported_field", (*path, name), f"'{name}' is the older name of '{known}'; keep one", on_key=True
                )
            else:
                item = self.read(member, fields[known].type, (*path, name))
                read |= {} if item is _BAD else {known: item}
        given = {wording.older.get(name, name) for name in members}
        required = [name for name, field in fields.items() if field.required]
        for name in required:
            if name not in given:
                self._found.missing((*path, name))
        return _BAD if any(name not in read for name in required) else read

    def _tagged(self, value: object, tags: Mapping[Any, inspect.StructType], path: Steps) -> object:
        """Read a struct whose type is named by one of its members."""
        members = object_at(self._found, value, path)
        if members is None:
            return _BAD
        member = str(next(iter(tags.values())).tag_field)
        if member not in members:
            self._found.missing((*path, member), hint=f"known are {', '.join(map(str, tags))}")
            return _BAD
        tag = word_at(self._found, members[member], (*path, member), words=[*map(str, tags)])
        if tag is None:
            return _BAD
        read = self._struct({name: item for name, item in members.items() if name != member}, tags[tag], path)
        return _BAD if read is _BAD else {member: tag, **read}

    def _unknown(self, path: Steps, fields: Collection[str], wording: FieldAliases) -> None:
        name = str(path[-1])
        if name in wording.refused:
            self._found.add("unsupported_field", path, f"'{name}' cannot be set here", hint=wording.refused[name], on_key=True)
            return
        hint = nearest(name, (*fields, *wording.older)) or f"known are {', '.join(sorted(fields))}"
        self._found.add("unsupported_field", path, f"unknown key {short(name)}", hint=hint, on_key=True)

    def _list(self, value: object, item: inspect.Type, path: Steps) -> Any:
        items = array_at(self._found, value, path)
        if items is None:
            return _BAD
        read = [self.read(member, item, (*path, index)) for index, member in enumerate(items)]
        # A wrong entry keeps its place, so that indexes stay those of the file.
        return ["" if member is _BAD else member for member in read]

    def _mapping(self, value: object, member: inspect.Type, path: Steps) -> object:
        members = object_at(self._found, value, path)
        if members is None:
            return _BAD
        read = {name: self.read(item, member, (*path, name)) for name, item in members.items()}
        return {name: item for name, item in read.items() if item is not _BAD}

    def _plain(self, value: object, expected: inspect.Type, path: Steps, *, must: str) -> object:
        if type(value) not in _PLAIN_TYPES[type(expected)]:
            message = f"{name_of(path)} must be {must}, not {type_name(value)}"
            self._found.add("invalid_field_type", path, message, hint=retype_hint(_KINDS.get(type(expected), ""), value))
            return _BAD
        if not _is_within(value, expected):
            # A wrong text is not repeated: it may be a key in the place of its variable.
            shown = "" if type(value) is str else f", not {str(value)[:40]}"
            self._found.add("value_out_of_range", path, f"{name_of(path)} must be {must}{shown}")
            return _BAD
        return value


def _bare(expected: inspect.Type) -> inspect.Type:
    """Return the type without its description."""
    return _bare(expected.type) if isinstance(expected, inspect.Metadata) else expected


def _title(expected: inspect.Type) -> str:
    """Return the type's own name for its values, if it has one."""
    described = (expected.extra_json_schema if isinstance(expected, inspect.Metadata) else None) or {}
    return str(described.get("title", ""))


def _is_fixed(expected: inspect.Type) -> bool:
    return isinstance(expected, inspect.Metadata) and (expected.extra_json_schema or {}) == FIXED.extra_json_schema


def _option(value: object, options: Collection[inspect.Type]) -> inspect.Type:
    """Return the first option that the value may be converted to, or else the first one, whose problem is reported."""
    fitting = (option for option in options if type(value) in _PLAIN_TYPES.get(type(_bare(option)), ()))
    return next(fitting, next(option for option in options if not isinstance(_bare(option), inspect.NoneType)))


def _is_within(value: Any, expected: inspect.Type) -> bool:
    if isinstance(expected, inspect.StrType):
        return len(value) >= (expected.min_length or 0) and (expected.pattern is None or bool(re.search(expected.pattern, value)))
    if isinstance(expected, inspect.IntType | inspect.FloatType):
        low, above, high = expected.ge, expected.gt, expected.le
        return not (
            (low is not None and value < low) or (above is not None and value <= above) or (high is not None and value > high)
        )
    return True


def _described(expected: inspect.Type) -> str:
    """Describe what a value must be: `a number from 0 to 2`."""
    match expected:
        case inspect.StrType(min_length=low):
            return "a text that is not empty" if low else "a text"
        case inspect.IntType() | inspect.FloatType():
            return ("an integer" if isinstance(expected, inspect.IntType) else "a number") + _range_text(expected)
        case _:
            return "true or false"


def _range_text(expected: inspect.IntType | inspect.FloatType) -> str:
    low, above, high = expected.ge, expected.gt, expected.le
    if low is not None and high is not None:
        return f" from {low:,} to {high:,}"
    if above is not None:
        return f" above {above:,}"
    return "" if low is None else f" from {low:,} on"


_NAME_IT = "keys do not belong in files: put it into an environment variable and name that in key_variable"
WORDINGS: Wordings = {
    RunFile: FieldAliases({"thresholds": "gates"}, {"budget": BUDGET_HINT}),
    ProviderEntry: FieldAliases(
        {"api_key_env": "key_variable", "rpm": "requests_per_minute", "tpm": "tokens_per_minute"},
        {
            **dict.fromkeys(("api_key", "apikey", "key", "secret", "token", "access_token", "password"), _NAME_IT),
            "region": "it is part of base_url, of AWS_REGION, or for litellm of extra_body (aws_region_name, vertex_location)",
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


RunFileMembers = dict[str, Any]
"""Members of a run file that were read by the types of its settings; wrong ones are left out."""


class LoadedRunFile(msgspec.Struct, frozen=True):
    """Members of a run file that could be read, its problems, and its text to point at."""

    path: str
    document: ParsedDocument
    members: RunFileMembers
    findings: FindingList


def load_run_file(path: str | Path) -> LoadedRunFile:
    """Return the run file at a path; what is wrong with it is in `findings`. Raises SourceUnreadable where there is no file."""
    document = parse_yaml(bytes(open_source(path).buffer()))
    found = FindingList()
    members: dict[str, Any] = {}
    if document.is_readable:
        members = read_members({} if document.value is None else document.value, found)
    check_flaws(found, document, ())
    return LoadedRunFile(str(path), document, members, found)


def read_members(value: object, found: FindingList) -> RunFileMembers:
    """Return the members of a run file given as plain values; `found` gets every problem."""
    members = read_settings(value, RunFile, found=found, wordings=WORDINGS)
    _refuse_secrets(members, found)
    _check_redact_rules(members, found)
    entries: Any = members.get("checks")
    if entries is not None:
        members["checks"] = usable_checks(entries, found=found, path=("checks",))
    graders: Any = members.get("graders")
    if graders is not None:
        members["graders"] = usable_graders(graders, found=found)
    return members


def read_record_checks(value: object, *, found: FindingList, path: Steps) -> tuple[Check, ...]:
    """Return the checks of a record, from its metadata; `found` gets every problem."""
    read: Any = _SettingsReader(found, {}).read(value, inspect.type_info(tuple[Check, ...]), path)
    usable = [] if read is _BAD else usable_checks(read, found=found, path=path)
    return named_checks(msgspec.convert(usable, tuple[Check, ...]))


def _check_redact_rules(members: RunFileMembers, found: FindingList) -> None:
    names: set[str] = set()
    for index, entry in enumerate(members.get("redact", ())):
        if not isinstance(entry, Mapping) or not {"name", "pattern"} <= entry.keys():
            continue
        rule = RedactRule(**entry)
        problem = rule_problem(rule, earlier=names)
        names.add(rule.name)
        if problem is not None:
            found.add("value_out_of_range", ("redact", index, problem.member), problem.message, hint=problem.hint)


def _refuse_secrets(members: RunFileMembers, found: FindingList) -> None:
    """Refuse keys in headers and request bodies, which are stored with the file like any other; `$NAME` is not a key."""
    for index, provider in enumerate(members.get("providers", ())):
        for name, text in (provider.get("headers", {}) if provider else {}).items():
            if not text.startswith("$") and is_secret(name, text, key_names=_KEY_HEADERS, key_values=_KEY_VALUE):
                path = ("providers", index, "headers", name)
                hint = "write $NAME, the environment variable that holds it, or name that in key_variable"
                found.add("unsupported_field", path, f"the header '{name}' seems to hold a key", hint=hint, on_key=True)
        for member in literal_secrets(provider or {}, key_names=_KEY_HEADERS, key_values=_KEY_VALUE):
            hint = "write ${NAME}, the environment variable that holds it"
            found.add("unsupported_field", ("providers", index, *member), f"'{member[-1]}' seems to hold a key", hint=hint)
    for section in ("candidates", "judges"):
        for index, model in enumerate(members.get(section, ())):
            body = model.get("extra_body", {}) if isinstance(model, dict) else {}
            for name in body:
                if re.search(_KEY_HEADERS, name) and not name.endswith("tokens"):
                    path = (section, index, "extra_body", name)
                    found.add("unsupported_field", path, f"'{name}' seems to hold a key", hint=_NAME_IT, on_key=True)


def is_run_file(path: str | Path) -> bool:
    """Return True for a YAML or JSON mapping that names datasets, candidates, judges or a run, rather than records."""
    source = open_source(path)
    return table_kind(source) is None and is_of_a_run(source)


def issue_of(loaded: LoadedRunFile, finding: Finding) -> Issue:
    """Return a finding with its line and column in the run file."""
    return locate_issue(finding, loaded.document, RecordContext())


def run_file_schema() -> dict[str, object]:
    """Return JSON Schema of the run file; older names are in it as deprecated ones."""
    (ref,), components = msgspec.json.schema_components([RunFile])
    for component in components.values():
        # Sections that plans embed accept what a later version added to them; in a file an unknown key is an error.
        component["additionalProperties"] = False
        component["properties"] = {key: member for key, member in component["properties"].items() if not member.get("readOnly")}
        if "type" in component["properties"]:
            component["properties"]["type"].setdefault("description", "Type of the entry, which decides its other keys.")
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


if TYPE_CHECKING:
    _GivenSettings = msgspec.Struct
else:
    _GivenSettings = settings_struct(
        "_GivenSettings", [(one.member, Any, one.nothing) for one in run_settings().values()], module=__name__
    )


if TYPE_CHECKING:
    from typing import Unpack

    from assay.core.setting_keywords import SettingKeywords

    class RequestKeywords(SettingKeywords, total=False):
        """Members of a request, for type checkers."""

        run_file: str
        contract: object
        redact: tuple[RedactRule, ...]
        project: str
        retention: RetentionSettings | dict[str, Any]
        interface: Interface
        data: object
        name: str
        has_keywords: bool
        code: tuple[str, ...] | None


class RunRequest(_GivenSettings, frozen=True, kw_only=True):
    """Options of `assay run`: the settings of `core/settings.py` that can be given besides a run file, which they override.

    Models, judges, `grader` and `policy` may be functions; `policies` are for the records whose `metadata.policy_id` names them.
    """

    run_file: str = ""
    contract: Any = ""
    """Of the datasets that name none: a name, or code that makes a case of a row. Default: recognised by content."""
    redact: tuple[RedactRule, ...] = ()
    """Custom redaction rules besides those of the run file."""
    project: str = DEFAULT_PROJECT
    """API keys of this project may see the run; for servers."""
    retention: RetentionSettings | dict[str, Any] = RetentionSettings()
    """Retention of artifacts, besides that of the run file and the environment: the longest counts."""
    interface: Interface = "python"
    """Hints are in the words of this interface."""
    data: Any = None
    """Dataset in memory, in place of files: rows, a document, bytes, a data frame or a dataset of Hugging Face."""
    name: str = ""
    """Name of that dataset in reports."""
    has_keywords: bool = False
    """Problems name keyword arguments of Python instead of options."""
    code: tuple[str, ...] | None = None
    """Names of the only code that the options may name; None is any. For callers who must not choose what a process runs."""

    if TYPE_CHECKING:

        def __init__(self, **given: Unpack[RequestKeywords]) -> None: ...

        def __getattr__(self, name: str) -> Any: ...


class PlanProblems(UsageProblem):
    """Everything that keeps a run from being started, found before any call."""

    def __init__(self, problems: Sequence[str], *, refused: Sequence[ValidationReport] = ()) -> None:
        self.problems = tuple(problems)
        self.refused = tuple(refused)
        """Reports on datasets that cannot be used."""
        super().__init__(in_one_line(self.problems), hint="no model was called; fix these and run again")


_PYTHON_NAMES = {"models": "model", "judges": "judge"}
"""Keyword arguments whose names differ from those of their settings."""


class MergedSettings:
    """Merged settings of a request, and the place in a file or the option that each of them comes from."""

    def __init__(self, request: RunRequest) -> None:
        self.problems: list[str] = []
        self.given: dict[tuple[PluginKind, str], Plugin] = {}
        """Functions that the request holds, by the names that stand for them."""
        self._targets: dict[tuple[PluginKind, str], Any] = {}
        self._wrong: set[Steps] = set()
        self._code = request.code
        self.project = request.project
        self.interface = request.interface
        self.retention = self._retention(request)
        self.redact = request.redact
        self.problems += rule_problems(request.redact)
        self._has_keywords = request.has_keywords
        self.contract: Any = request.contract
        self.data = request.data
        self.data_name = request.name
        # A member with an empty value was not given; 0 and False are values.
        given = [setting for setting in run_settings().values() if getattr(request, setting.member) not in ("", (), None, {})]
        self._options: dict[Steps, ExposedSetting] = {setting.path: setting for setting in given}
        self._loaded = load_run_file(request.run_file) if request.run_file else None
        self.value = self._merged(_nested({one.path: self._spelled(one.member, getattr(request, one.member)) for one in given}))

    def _retention(self, request: RunRequest) -> RetentionSettings:
        try:
            return msgspec.convert(msgspec.to_builtins(request.retention), RetentionSettings)
        except msgspec.ValidationError as problem:
            self.problems.append(f"retention: {problem}")
            return RetentionSettings()

    def _spelled(self, option: str, value: Any) -> object:
        """Return the value of an option with names in the place of functions."""
        if option in ("models", "judges"):
            return tuple(map(self._model, value))
        if option == "checks":
            return [_check_entry(entry) for entry in value]
        if option in ("check_gates", "grader_gates"):
            return dict(value) if isinstance(value, Mapping) else named_rates(value)
        if option == "policies" and isinstance(value, Mapping):
            return {name: self._registered(name, entry) for name, entry in value.items()}
        kind: PluginKind | None = "grader" if option == "grader" else "policy" if option == "policy" else None
        return value if kind is None or isinstance(value, str) else self._named(kind, value)

    def _model(self, entry: object) -> object:
        """Return an entry of candidates or judges: a name, a mapping with parameters, or the name of a function."""
        if isinstance(entry, str | ModelEntry):
            return entry
        if isinstance(entry, Mapping):
            model = entry.get("model")
            return {**entry, "model": self._model(model)} if callable(model) else dict(entry)
        return f"{FUNCTIONS}/{self._named('model', entry)}"

    def _registered(self, name: str, policy: object) -> str:
        """Return the reference of a policy that records choose by `name`; a function is registered under that name."""
        if isinstance(policy, str):
            return policy
        self.given["policy", name] = given_plugin("policy", policy, name=name)
        return name

    def _named(self, kind: PluginKind, target: object) -> str:
        """Return the name of a function that is given, which no other one has."""
        plugin = given_plugin(kind, target)
        name, number = plugin.plan.name, 1
        while self._targets.get((kind, name), target) is not target:
            number += 1
            name = f"{plugin.plan.name}#{number}"
        self._targets[kind, name] = target
        self.given[kind, name] = given_plugin(kind, target, name=name)
        return name

    def may_name(self, path: Steps, name: str) -> bool:
        """Return False for code that the caller of this process names and may not choose; a run file is the operator's own."""
        return self._code is None or not self._option(path) or name in self._code

    def _merged(self, options: Mapping[str, object]) -> RunFile:
        found = FindingList()
        members = read_members(options, found)
        in_file = self._loaded.members if self._loaded else {}
        if self._loaded:
            self._note(self._loaded.findings, self._loaded)
        self._note(found, None)
        merged = {**in_file, **members}
        for section in {setting.path[0] for setting in run_settings().values() if len(setting.path) > 1} - {"batch"}:
            merged[section] = {**in_file.get(section, {}), **members.get(section, {})}
        if members.get("batch"):
            # An option about batches does not turn them on.
            is_on = in_file.get("batch") is not None
            merged["batch"] = {"enabled": is_on, **(in_file.get("batch") or {}), **members["batch"]}
        if self.data is not None and "datasets" not in members:
            # Data in memory take the place of the run file's datasets, as a path would.
            merged.pop("datasets", None)
        for section in ("providers", "slices", "redact"):
            merged[section] = [entry for entry in merged.get(section, getattr(RunFile(), section)) if entry]
        return msgspec.convert(merged, RunFile)

    def _note(self, findings: Sequence[Finding], loaded: LoadedRunFile | None) -> None:
        for finding in findings:
            self._wrong |= {finding.path[:length] for length in range(len(finding.path) + 1)}
            where = self.place(finding.path) if loaded is None else f"{_place(loaded, finding)}: "
            self.problems.append(f"{where}{_said(finding)}")

    def add(self, path: Steps, message: str) -> None:
        """Note a problem with the setting at a path."""
        self.problems.append(f"{self.place(path)}{message}")

    def is_wrong(self, path: Steps) -> bool:
        """Return True when something at or below the path was refused already, so that its absence means nothing."""
        return path in self._wrong or (self._loaded is not None and not self._loaded.document.is_readable)

    def place(self, path: Steps) -> str:
        """Return the option or the place in the run file that a setting comes from, as the beginning of a sentence."""
        setting = self._option(path)
        if setting is not None:
            if self._has_keywords:
                return f"{_PYTHON_NAMES.get(setting.member, setting.member)}: "
            return ("DATASET" if setting.member == "datasets" else setting.option_name) + ": "
        return f"{_place(self._loaded, Finding('', path, ''))}: " if self._loaded else ""

    def folder(self, path: Steps) -> Path:
        """Return the folder that a path at this place is relative to."""
        return Path() if self._loaded is None or self._option(path) else Path(self._loaded.path).parent

    def is_option(self, path: Steps) -> bool:
        """Return True when a setting was given besides the run file, which it overrides."""
        return self._option(path) is not None

    def _option(self, path: Steps) -> ExposedSetting | None:
        return self._options.get(path[:1]) or self._options.get(path[:2])

    def datasets(self) -> list[tuple[Steps, DatasetEntry]]:
        """Return the enabled datasets with their places; wrong entries are left out."""
        entries = [entry if isinstance(entry, DatasetEntry) else DatasetEntry(path=entry) for entry in self.value.datasets]
        return [(("datasets", index), entry) for index, entry in enumerate(entries) if entry.path and entry.enabled]

    def models(self, section: str) -> list[tuple[Steps, ModelEntry]]:
        """Return the candidates or judges with their places; wrong entries are left out."""
        given: tuple[ModelEntry | str, ...] = getattr(self.value, section)
        entries = [entry if isinstance(entry, ModelEntry) else ModelEntry(model=entry) for entry in given]
        return [((section, index), entry) for index, entry in enumerate(entries) if entry.model]


def _check_entry(entry: object) -> object:
    """Return a check that an option gives: the type alone, or a mapping in YAML or JSON; a text that is neither stays one."""
    if not isinstance(entry, str):
        return msgspec.to_builtins(entry)
    if entry in get_args(CheckType):
        return {"type": entry}
    document = parse_yaml(entry.encode("utf-8", "replace"))
    # One word may be a misspelt type: the list of types is what its writer needs.
    value = document.value if document.is_readable and not document.flaws else entry
    return {"type": value} if isinstance(value, str) else value


def _nested(given: dict[Steps, object]) -> dict[str, object]:
    """Return options as the members of a run file."""
    members: dict[str, Any] = {}
    for seat, value in given.items():
        section = members if len(seat) == 1 else members.setdefault(str(seat[0]), {})
        if isinstance(value, list | tuple):
            value = [msgspec.to_builtins(member) for member in value]  # the same value, in plain terms
        section[str(seat[-1])] = msgspec.to_builtins(value) if isinstance(value, dict | msgspec.Struct) else value
    return members


def finding_lines(loaded: LoadedRunFile) -> tuple[str, ...]:
    """Return what is wrong with a run file by itself, a line each with its place."""
    return tuple(f"{_place(loaded, finding)}: {_said(finding)}" for finding in loaded.findings)


def _said(finding: Finding) -> str:
    hint = hint_of(finding)
    return f"{finding.message} ({hint})" if hint else finding.message


def _place(loaded: LoadedRunFile, finding: Finding) -> str:
    issue = issue_of(loaded, finding)
    return f"{loaded.path}:{issue.line}:{issue.column}"
