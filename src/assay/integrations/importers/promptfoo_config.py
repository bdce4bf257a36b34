"""Configs of promptfoo into questions: every prompt with every test; a red-team config is named as one."""

import re
from collections.abc import Iterator

import re2  # type: ignore[import-untyped]  # the package has no stubs

from assay.datasets.converters.rows import Row, RowRefused, digest
from assay.datasets.imports.items import ImportedItem, ImportedQuestion, ImportSource, ImportState
from assay.integrations.importers.json_values import mapping, number, sequence
from assay.integrations.importers.messages import ImportedPrompt, asked
from assay.integrations.importers.promptfoo_asserts import AnswerRequirements, demands
from assay.integrations.importers.promptfoo_files import ConfigFiles
from assay.integrations.importers.promptfoo_models import note_models
from assay.integrations.importers.promptfoo_prompts import (
    PromptReader,
    PromptTemplate,
    UnreadValue,
    filled_prompt,
    resolved_variables,
)
from assay.integrations.importers.promptfoo_references import ReferenceResolver
from assay.integrations.importers.promptfoo_tests import ConfigTest, ConfigTestReader, combinations

_READ = frozenset(
    {"prompts", "tests", "scenarios", "defaultTest", "description", "assertionTemplates", "$schema", "commandLineOptions"}
)
_SETTINGS = frozenset(
    {
        "providers",
        "targets",
        "env",
        "evaluateOptions",
        "outputPath",
        "outputs",
        "options",
        "sharing",
        "tags",
        "tracing",
        "metadata",
        "writeLatestResults",
    }
)
_TEST = frozenset({"vars", "assert", "description", "metadata", "options", "prompts"})
_TEST_SETTINGS = frozenset({"provider", "providers"})
_OPTIONS = frozenset({"prefix", "suffix", "disableVarExpansion", "disableDefaultAsserts"})
_OPTION_SETTINGS = frozenset({"provider", "providers", "runSerially", "timeout", "includeMetrics", "showOutput", "repeat", "delay"})
_FILTERS = frozenset({"filterFirstN", "filterPattern", "filterMetadata"})
_SHOWN_PLUGINS = 5
_DEFAULT_PROMPT = "{{prompt}}"
"""Prompt of a config without any, which attacks use."""


def read_config(source: ImportSource, config: Row, reading: ImportState) -> Iterator[tuple[ImportedItem, ImportSource, int]]:
    """Return the questions of a config, test by test."""
    files = ConfigFiles(source, reading)
    yield from _ConfigReader(source, files, reading).read(mapping(ReferenceResolver(config, files).resolve(config)))


class _ConfigReader:
    """Reads one config."""

    def __init__(self, source: ImportSource, files: ConfigFiles, reading: ImportState) -> None:
        self._source = source
        self._files = files
        self._reading = reading
        self._prompts = PromptReader(files, reading)
        self._tests = ConfigTestReader(files, reading)

    def read(self, config: Row) -> Iterator[tuple[ImportedItem, ImportSource, int]]:
        """Yield the questions; a config without any is an absence, with its reason."""
        has_tests = bool(config.get("tests") or config.get("scenarios"))
        attack = _attack(config)
        if attack and not has_tests:
            name = self._source.path.name
            hint = f"promptfoo redteam generate -c {name} -o redteam.yaml writes the attacks as tests, which can be imported"
            self._reading.note_absence(self._source, f"is a red-team config: {attack}", hint=hint)
            return
        self._count_rest(config, attack=attack)
        note_models(config, self._reading)
        shared = self._tests.shared(config.get("defaultTest"))
        self._count_members(shared, "defaultTest")
        prompts = list(self._prompts.read(config.get("prompts", _DEFAULT_PROMPT)))
        if not prompts:
            self._absent("prompts", self._prompts.problems)
            return
        count = 0
        for count, test in enumerate(self._filtered(self._all_tests(config), mapping(config.get("commandLineOptions"))), 1):
            yield from self._questions(prompts, ConfigTest(test, shared), dataset=_dataset(config, self._source), line=count)
        if not count:
            self._absent("tests", self._tests.problems)

    def _all_tests(self, config: Row) -> Iterator[Row]:
        given, scenarios = config.get("tests"), config.get("scenarios")
        if not given and not scenarios:
            # promptfoo asks each prompt once.
            yield {}
        yield from self._tests.read(given)
        yield from self._tests.scenarios(scenarios)

    def _filtered(self, tests: Iterator[Row], options: Row) -> Iterator[Row]:
        """Yield the tests that the config itself selects."""
        for name in options:
            self._reading.leave_out(f"commandLineOptions.{name}", int(name not in _FILTERS), is_setting="filter" not in name)
        pattern, wanted = options.get("filterPattern"), options.get("filterMetadata")
        most = number(options.get("filterFirstN"))
        taken = 0
        for test in tests:
            if most is not None and taken >= most:
                return
            if isinstance(pattern, str) and not _matches(pattern, str(test.get("description") or "")):
                continue
            if wanted and not _has_metadata(mapping(test.get("metadata")), wanted):
                continue
            taken += 1
            yield test

    def _questions(
        self, prompts: list[PromptTemplate], test: ConfigTest, *, dataset: str, line: int
    ) -> Iterator[tuple[ImportedItem, ImportSource, int]]:
        self._count_members(test.test, "test")
        threshold = number(test.threshold)
        chosen = [prompt for prompt in prompts if prompt.is_allowed(test.test.get("prompts"))]
        if not chosen:
            self._source.tally.note("left_out", f"test {line}: none of the prompts that it lists is there")
            self._reading.leave_out("test of another prompt")
        prefix, suffix = (str(test.option(name) or "") for name in ("prefix", "suffix"))
        for values in combinations(test, self._files, self._reading):
            # Each prompt makes a question of each test.
            self._source.tally.read += len(chosen)
            variables = resolved_variables(values)
            known = {name: value for name, value in variables.items() if not isinstance(value, UnreadValue)}
            demanded = demands(test.asserted, known, self._reading, files=self._files)
            self._reading.pass_shares[None if threshold is None else min(1.0, max(0.0, threshold))] += len(chosen)
            for prompt in chosen:
                try:
                    filled = filled_prompt(f"{prefix}{prompt.text}{suffix}", variables, self._reading)
                    given = asked(filled, self._reading, names_media=True)
                except RowRefused as problem:
                    self._source.tally.refuse(str(problem), line=line)
                    continue
                question = question_of(given, demanded, dataset=dataset, metadata=test.metadata(variables))
                yield ImportedItem(question=question), self._source, line

    def _absent(self, what: str, problems: list[str]) -> None:
        reasons = list(dict.fromkeys(problems))
        shown = "; ".join(reasons[:_SHOWN_PLUGINS]) + (
            f"; and {len(reasons) - _SHOWN_PLUGINS} more" if reasons[_SHOWN_PLUGINS:] else ""
        )
        hint = f"let promptfoo evaluate it and import the results: promptfoo eval -c {self._source.path.name} -o results.json"
        self._reading.note_absence(
            self._source, f"is a config without {what} that can be read: {shown or f'it lists no {what}'}", hint=hint
        )

    def _count_rest(self, config: Row, *, attack: str) -> None:
        for name in config:
            is_extension = name.startswith("x-")
            if name not in _READ and not is_extension and not (name == "redteam" and attack):
                self._reading.leave_out(f"config {name}", is_setting=name in _SETTINGS)
        if attack:
            self._reading.leave_out("attacks of a red team, which promptfoo generates")

    def _count_members(self, test: Row, what: str) -> None:
        for name in test:
            is_known = name in _TEST or name == "threshold"
            self._reading.leave_out(f"{what}.{name}", int(not is_known), is_setting=name in _TEST_SETTINGS)
        for name in mapping(test.get("options")):
            self._reading.leave_out(f"{what}.options.{name}", int(name not in _OPTIONS), is_setting=name in _OPTION_SETTINGS)


def _dataset(config: Row, source: ImportSource) -> str:
    return str(config.get("description") or source.path.name.partition(".")[0])


def _attack(config: Row) -> str:
    """Return what a red-team config generates; empty for any other config."""
    attack = config.get("redteam")
    plugins = sequence(mapping(attack).get("plugins", config.get("plugins")))
    strategies = sequence(mapping(attack).get("strategies", config.get("strategies")))
    if not isinstance(attack, dict) and not plugins and not strategies:
        return ""
    names = [str(mapping(plugin).get("id", plugin)) for plugin in plugins]
    more = f" and {len(names) - _SHOWN_PLUGINS} more" if len(names) > _SHOWN_PLUGINS else ""
    of_plugins = f"from {len(names)} plugin{'s' * (len(names) != 1)} ({', '.join(names[:_SHOWN_PLUGINS])}{more})" if names else ""
    of_strategies = f"with {len(strategies)} strateg{'ies' if len(strategies) != 1 else 'y'}" if strategies else ""
    how = " ".join(filter(None, (of_plugins, of_strategies)))
    return f"promptfoo generates its attacks{f' {how}' if how else ''}, and there are no tests in it yet"


def _matches(pattern: str, text: str) -> bool:
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options).search(text) is not None
    except re2.error:
        return re.escape(pattern) in re.escape(text)


def _has_metadata(metadata: Row, wanted: object) -> bool:
    listed = wanted if isinstance(wanted, list) else [wanted]
    pairs = [str(one).partition("=") for one in listed]
    return all(
        str(value) in map(str, found if isinstance(found := metadata.get(name), list) else [found]) for name, _, value in pairs
    )


def question_of(given: ImportedPrompt, demanded: AnswerRequirements, *, dataset: str, metadata: Row) -> ImportedQuestion:
    """Return the question of one prompt and one test; its id depends on both alone, so that configs and results agree on it."""
    checks = [demanded.checks] if demanded.checks else []
    return ImportedQuestion(
        # The id is a digest of what is asked and demanded, so that the same question has the same id in configs
        # and results.
        id=f"promptfoo:{digest(given.prompt, given.messages, demanded.references, demanded.rubric, *checks)}",
        dataset=dataset,
        prompt=given.prompt,
        messages=given.messages,
        references=demanded.references,
        rubric=demanded.rubric,
        checks=demanded.checks,
        metadata=metadata,
    )
