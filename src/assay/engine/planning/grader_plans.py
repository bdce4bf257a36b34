"""Several graders of a run into their plans: plugins, judges and prompt files are found, and reported where they cannot be used."""

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from assay.core.checks import named_checks
from assay.core.graders import MAX_PROMPT, GraderPlan, JudgePrompt
from assay.core.issue import Path as Steps
from assay.core.plan import ModelPlan
from assay.core.settings import GraderEntry, ModelEntry
from assay.datasets.parsing.checks import nearest
from assay.engine.planning.dataset_inputs import shown_path
from assay.engine.planning.plugins import RequestPlugins
from assay.engine.planning.request import MergedSettings
from assay.grading.judge_prompt import METADATA, PLACEHOLDERS, prompt_problems

FindModel = Callable[[Steps, ModelEntry], ModelPlan | None]
_REPLACED = {"judges": "judge", "grader": "plugin", "checks": "checks"}
"""Keys that graders replace, with the key of a grader that does the same."""


class GraderPlanner:
    """Plans of a run's graders, and the judges that they ask."""

    def __init__(self, settings: MergedSettings, code: RequestPlugins, find_model: FindModel) -> None:
        """Plan every grader; problems are added to the settings."""
        self.judges: list[ModelPlan] = []
        self.notes: list[str] = []
        self._settings = settings
        self._code = code
        self._find_model = find_model
        entries = settings.value.graders
        plans = [self._plan(("graders", index), entry) for index, entry in enumerate(entries)]
        found = [plan for plan in plans if plan is not None]
        if entries:
            self._check_others()
            self._check_names(found)
        if found and not any(plan.is_primary for plan in found):
            found[0] = msgspec.structs.replace(found[0], is_primary=True)
            if len(found) > 1:
                self.notes.append(f"the grader '{found[0].name}' is primary, because none is marked with primary: true")
        self.plans = tuple(found)

    def _check_others(self) -> None:
        """Refuse settings that graders replace: nothing would say which of the two counts."""
        for name, key in _REPLACED.items():
            if getattr(self._settings.value, name):
                self._settings.add((name,), f"the run has graders, which take the place of {name}; make it a grader with {key}")
        if self._settings.value.profile is not None:
            self._settings.add(("profile",), "a profile scores by its own rules, without graders; leave one of them out")
        if self._code.policy is not None and self._code.policy.plan.grades:
            self._settings.add(("policy",), "the policy grades by itself, and the run has graders; leave one of them out")

    def _check_names(self, plans: list[GraderPlan]) -> None:
        names: set[str] = set()
        checks: set[str] = set()
        for plan in plans:
            if plan.name in names:
                self._settings.add(("graders",), f"two graders have the name '{plan.name}'; give each a name of its own")
            names.add(plan.name)
            for check in plan.checks:
                if check.name in checks:
                    message = f"checks of two graders have the name '{check.name}'; give each a name of its own"
                    self._settings.add(("graders",), message)
                checks.add(check.name)

    def _plan(self, path: Steps, entry: GraderEntry) -> GraderPlan | None:
        if entry.checks:
            return GraderPlan(
                name=entry.name or "checks",
                kind="checks",
                is_primary=entry.primary,
                checks=named_checks(entry.checks),
                pass_rule=entry.pass_rule,
            )
        judge = self._judge((*path, "judge"), entry)
        if entry.plugin:
            return self._plugin(path, entry, judge)
        prompt = self._prompt((*path, "prompt"), entry.prompt) if entry.prompt else None
        if judge is None or (entry.prompt and prompt is None):
            return None
        return GraderPlan(
            name=entry.name or judge.name,
            kind="judge",
            is_primary=entry.primary,
            judge=judge.name,
            prompt=prompt,
            scale="pass_fail" if entry.scale is msgspec.UNSET else entry.scale,
            at_least=None if entry.at_least is msgspec.UNSET else entry.at_least,
        )

    def _judge(self, path: Steps, entry: GraderEntry) -> ModelPlan | None:
        if entry.judge is msgspec.UNSET:
            return None
        model = self._find_model(path, entry.judge if isinstance(entry.judge, ModelEntry) else ModelEntry(model=entry.judge))
        if model is None:
            return None
        same = next((judge for judge in self.judges if judge.name == model.name), None)
        if same is not None and same != model:
            self._settings.add(path, f"a judge with other parameters is called '{model.name}' too; give one a name")
        elif same is None:
            self.judges.append(model)
        return model

    def _plugin(self, path: Steps, entry: GraderEntry, judge: ModelPlan | None) -> GraderPlan | None:
        plugin = self._code.find("grader", entry.plugin, (*path, "plugin"))
        if plugin is None:
            return None
        if plugin.plan.asks_judges and judge is None:
            self._settings.add((*path, "plugin"), f"the grader '{entry.plugin}' asks a judge; name it with judge: provider/model")
            return None
        return GraderPlan(
            name=entry.name or plugin.plan.name.rpartition(":")[2],
            kind="plugin",
            is_primary=entry.primary,
            plugin=plugin.plan.name,
            judge=judge.name if judge is not None and plugin.plan.asks_judges else "",
        )

    def _prompt(self, path: Steps, name: str) -> JudgePrompt | None:
        file = self._settings.folder(path) / name
        problems = list(read_problems(file))
        for problem in problems:
            self._settings.add(path, problem)
        return None if problems else read_prompt(file)


def read_prompt(file: Path) -> JudgePrompt:
    """Read a prompt file in which `read_problems` has found nothing."""
    content = file.read_bytes()
    return JudgePrompt(name=file.name, sha256=hashlib.sha256(content).hexdigest(), text=content.decode("utf-8-sig"))


def read_problems(file: Path) -> Iterator[str]:
    """Yield everything that is wrong with a prompt file, with line and column."""
    shown = shown_path(str(file))
    if file.is_file() and file.stat().st_size > 4 * MAX_PROMPT:
        yield f"the prompt '{shown}' has {file.stat().st_size:,} bytes, too many for {MAX_PROMPT:,} characters"
        return
    try:
        content = file.read_bytes()
        text = content.decode("utf-8-sig")
    except OSError as problem:
        yield f"the prompt '{shown}' cannot be read: {problem.strerror or problem}"
        return
    except UnicodeDecodeError as problem:
        yield f"the prompt '{shown}' is not UTF-8 (byte {problem.start:,})"
        return
    if len(text) > MAX_PROMPT:
        yield f"the prompt '{shown}' has {len(text):,} characters, more than {MAX_PROMPT:,}"
        return
    if "\0" in text:
        yield f"the prompt '{shown}' holds NUL characters, which no text has"
        return
    for found in prompt_problems(text):
        line = text.count("\n", 0, found.offset) + 1
        column = found.offset - (text.rfind("\n", 0, found.offset) + 1) + 1
        hint = f"; {_hint(found.name)}" if found.name else ""
        yield f"{shown}:{line}:{column}: {found.message}{hint}"


def _hint(name: str) -> str:
    close = nearest(name, (*PLACEHOLDERS, f"{METADATA}NAME"))
    known = ", ".join(f"{{{{{known}}}}}" for known in PLACEHOLDERS)
    return close or f"known are {known} and {{{{{METADATA}NAME}}}}"
