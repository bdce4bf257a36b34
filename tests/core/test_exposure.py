"""What a definition exposes is there: its option, its parameter, its field in the form."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest

from assay import RunRequest
from assay.core.exposure import ExposedSetting
from assay.core.settings import run_settings
from assay.engine.planning.request import run_file_schema
from assay.surfaces.cli.program import program
from assay.surfaces.pages.validation_page import RunFormQuery
from assay.surfaces.server.queries import SubmitQuery
from docs.generated import PAGE
from tests.core.test_settings import SETTINGS

SOURCE = Path(__file__).parents[2] / "src" / "assay"
EXPOSED = pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.member)
# A field at the top of a run file, and one in a section; what each surface makes of them.
NEW_SETTINGS = """
import json, sys
from pathlib import Path
from typing import Annotated, Literal
import click, msgspec
import assay.core.settings as settings
from assay.core.exposure import CommandOption, FormField, QueryParameter, described, exposed

class PanelSection(settings.PanelSection, frozen=True, kw_only=True):
    ties: Annotated[Literal["pass", "fail"] | None, exposed(
        "How ties end.", option=CommandOption("How ties end."), parameter=QueryParameter("What a tie means."),
        form=FormField("Ties", "as usual", words={"fail": "not passed"}, is_extra=True))] = None

class RunFile(settings.RunFile, frozen=True, kw_only=True, forbid_unknown_fields=True):
    panel: Annotated[PanelSection, described("The panel.")] = PanelSection()
    patience: Annotated[settings.Count, exposed(
        "Rounds to wait.", option=CommandOption("Rounds.", "N", default="one, or {}"), parameter=QueryParameter(is_later=True),
        form=FormField("Patience", "none"))] = 2

settings.RunFile = RunFile

from assay.engine.planning.request import MergedSettings, RunRequest
from assay.engine.planning.request import load_run_file, run_file_schema
from assay.surfaces.cli.main import main
from assay.surfaces.cli.program import program
from assay.surfaces.pages.validation_page import RunFormQuery
from assay.surfaces.server.app import addresses
from assay.surfaces.server.queries import SubmitQuery
from docs.generated import COMMANDS, PAGE, generated

folder = Path(sys.argv[1])
(folder / "good.yaml").write_text("patience: 3\\npanel: {ties: fail}")
(folder / "bad.yaml").write_text("patience: 0\\npanel: {ties: maybe}")
command = program.get_command(click.Context(program), "run")
given = MergedSettings(RunRequest(run_file=str(folder / "good.yaml"), patience=4)).value
query = msgspec.convert({"patience": "5", "ties": "pass"}, SubmitQuery, strict=False)
form = msgspec.convert({"patience": "6"}, RunFormQuery, strict=False)
schema = run_file_schema()["$defs"]
parameters = addresses()["paths"]["/v1/runs"]["post"]["parameters"]
pages = generated()
print(json.dumps({
    "merged": [given.patience, given.panel.ties],
    "refused option": MergedSettings(RunRequest(patience=0)).problems,
    "refused file": [finding.message for finding in load_run_file(folder / "bad.yaml").findings],
    "help": command.get_help(click.Context(command, terminal_width=120)),
    "query": [query.settings()["patience"], query.settings()["ties"]],
    "parameters": {one["name"]: one["description"] for one in parameters},
    "form": [[one.name, one.value, one.attributes] for one in form.inputs(is_extra=False, has_rejected=True)],
    "extra": [[one.name, one.field.words] for one in form.inputs(is_extra=True, has_rejected=True)],
    "schema": [schema["RunFile"]["properties"]["patience"], schema["PanelSection"]["properties"]["ties"]["description"]],
    "run file page": pages[PAGE].splitlines(),
    "commands page": pages[COMMANDS].splitlines(),
}))
"""


@pytest.fixture(scope="module")
def new(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the surfaces have of two settings that are defined and mentioned nowhere else."""
    command = [sys.executable, "-c", NEW_SETTINGS, str(tmp_path_factory.mktemp("settings"))]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=SOURCE.parents[1])
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_new_setting_is_read_from_run_files_and_requests(new: dict[str, Any]) -> None:
    assert new["merged"] == [4, "fail"]
    assert new["refused option"] == ["--patience: patience must be an integer from 1 on, not 0"]
    assert new["refused file"] == ["patience must be an integer from 1 on, not 0", "panel.ties is 'maybe'; allowed: fail, pass"]


def test_a_new_setting_has_its_option(new: dict[str, Any]) -> None:
    assert re.search(r"--patience N +Rounds\.  \[default: one, or 2\]  \[x>=1\]", new["help"])
    assert re.search(r"--ties \[pass\|fail\] +How ties end\.", new["help"])


def test_a_new_setting_has_its_parameter(new: dict[str, Any]) -> None:
    assert new["query"] == [5, "pass"]
    assert [new["parameters"][name] for name in ("patience", "ties")] == ["Rounds.", "What a tie means."]


def test_a_new_setting_has_its_field_in_the_form(new: dict[str, Any]) -> None:
    assert ["patience", "6", {"type": "number", "min": "1", "inputmode": "numeric"}] in new["form"]
    assert ["ties", {"fail": "not passed"}] in new["extra"]


def test_a_new_setting_is_in_the_schema_and_the_reference(new: dict[str, Any]) -> None:
    assert new["schema"][0]["description"] == "Rounds to wait."
    assert new["schema"][1] == "How ties end."
    assert {"| `patience` | Rounds to wait. | `2` |", "| `ties` | How ties end. |  |"} <= set(new["run file page"])
    assert "| `panel.ties` | `--ties` | `ties` | Ties |" in new["run file page"]
    quorum = next(number for number, line in enumerate(new["commands page"]) if line.startswith("| `--escalate`"))
    assert new["commands page"][quorum + 1] == "| `--ties` | How ties end. |"


def field_of(setting: ExposedSetting) -> dict[str, Any]:
    """The key of a setting in the schema of run files."""
    definitions: dict[str, Any] = msgspec.to_builtins(run_file_schema())["$defs"]
    component = definitions["RunFile"]
    for key in setting.path[:-1]:
        member = component["properties"][key]
        (reference,) = [one["$ref"] for one in member.get("anyOf", [member]) if "$ref" in one]
        component = definitions[reference.rpartition("/")[2]]
    found: dict[str, Any] = component["properties"][setting.path[-1]]
    return found


@EXPOSED
def test_every_setting_is_on_the_surfaces_that_its_definition_names(setting: ExposedSetting) -> None:
    command = program.get_command(click.Context(program), "run")
    assert command is not None
    options = {parameter.name: parameter for parameter in command.params if isinstance(parameter, click.Option)}
    fields = {one.name: one for extra in (False, True) for one in RunFormQuery().inputs(is_extra=extra, has_rejected=True)}
    parameters = SubmitQuery.__struct_fields__
    table = PAGE.read_text(encoding="utf-8").split("<!-- settings given elsewhere -->")[1].split("## Keys")[0]
    assert getattr(RunRequest(), setting.member) == setting.nothing
    assert field_of(setting)["description"]
    assert (setting.member in options) is (setting.option is not None)
    assert (setting.parameter_name in parameters) is (setting.parameter is not None)
    assert (setting.parameter_name in fields) is (setting.form is not None)
    assert setting.parameter is not None or setting.form is None
    assert (f"| `{'.'.join(setting.path)}` | " in table) is (setting.option is not None or setting.parameter is not None)
    if setting.option is not None:
        assert (options[setting.member].opts, options[setting.member].help) == ([setting.option_name], setting.option_help)


def test_a_query_has_the_settings_and_nothing_but_the_dataset_besides() -> None:
    assert SubmitQuery.__struct_fields__ == ("contract", "name", *(one.parameter_name for one in SETTINGS if one.parameter))


LISTED_NOWHERE = {
    *("quorum", "escalate", "max_cost", "min_score", "pass_rate", "max_error_rate", "profile", "compat", "seed", "criteria"),
    "response_source",
}
"""Settings that a surface has nothing to say about, so that one that names them has a list of its own."""
GENERATED = (
    *("engine/planning/request.py", "surfaces/cli/run.py", "surfaces/cli/run_options.py"),
    *("surfaces/server/submission_routes.py", "surfaces/pages/validation_page.py", "surfaces/pages/templates/parts/run_form.html"),
)


@pytest.mark.parametrize("path", GENERATED)
def test_no_surface_lists_settings_by_hand(path: str) -> None:
    text = (SOURCE / path).read_text(encoding="utf-8")
    assert run_settings().keys() >= LISTED_NOWHERE
    assert [name for name in sorted(LISTED_NOWHERE) if re.search(rf"\b{name}\b(?!=True)", text)] == []
