"""Custom policies that records choose by `metadata.policy_id`, next to the built-in ones."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

import assay
from assay import api
from assay.core.errors import UsageProblem
from assay.engine.execution.run import open_or_create
from assay.engine.planning.request import PlanProblems
from assay.engine.storage.run_paths import folders_of
from tests.engine.run_settings import write_rows
from tests.plugins.datasets import predictions, question
from tests.plugins.packages import Site
from tests.plugins.test_policies import Formal, shout, transcript

OWN = "def house(record):\n    return 'House: ' + record.prompt\n"
JUDGED = {"judges": ["scripted/judge-5"]}


def rows(folder: Path) -> Path:
    """Questions of which one names the policy `house`, one a built-in policy, one none and one an unknown policy."""
    named = ({"policy_id": "house"}, {"policy_id": "lexam_oq_v1"}, {}, {"policy_id": "unheard_of"})
    return write_rows(folder / "words.jsonl", *(question(number, metadata=metadata) for number, metadata in enumerate(named)))


def write_run_file(folder: Path, **sections: Any) -> Path:
    rows(folder)
    (folder / "own.py").write_text(OWN, encoding="utf-8")
    models = {"candidates": ["scripted/echo"], **JUDGED, "run": {"runs_dir": "runs", "id": "x"}}
    settings = {"datasets": ["words.jsonl"], **models, "policies": {"house": "own.py:house"}, **sections}
    (folder / "run.json").write_text(json.dumps(settings, indent=1), encoding="utf-8")
    return folder / "run.json"


def asked(result: assay.RunResult | assay.Run) -> dict[str, tuple[str, str]]:
    """The policy of each record, and what the candidate was asked, which it echoes."""
    return {line["record_id"]: (line["policy_id"], line["model_response"]) for line in predictions(result)}


def test_a_run_uses_custom_and_built_in_policies_as_its_records_say(tmp_path: Path) -> None:
    (result,) = api.run(write_run_file(tmp_path))
    found = asked(result)
    assert found["q:0"] == ("house", "House: Say word0")
    assert [found[f"q:{number}"][0] for number in (1, 2, 3)] == ["lexam_oq_v1", "default", "default"]
    assert "Say word1" in found["q:1"][1]
    assert found["q:2"][1] == "Say word2"


def test_manifest_and_predictions_name_the_policy_with_its_hash(tmp_path: Path) -> None:
    (result,) = api.run(write_run_file(tmp_path))
    manifest = json.loads((Path(result.run_dir) / "run_manifest.json").read_bytes())
    lines = {line["record_id"]: line for line in predictions(result)}
    (plugin,) = manifest["plan"]["plugins"]
    assert (plugin["kind"], plugin["name"], plugin["by_record"]) == ("policy", "house", True)
    assert manifest["policies"]["house"] == plugin["source_sha256"] == lines["q:0"]["policy_sha256"]
    assert "policy_sha256" not in lines["q:1"]


def test_the_policy_of_a_run_overrides_those_of_its_records(tmp_path: Path) -> None:
    write_run_file(tmp_path)
    (tmp_path / "other.py").write_text(OWN.replace("House: ", "Other: "), encoding="utf-8")
    (result,) = api.run(tmp_path / "run.json", policy=f"{tmp_path / 'other.py'}:house")
    assert {text.partition(":")[0] for _, text in asked(result).values()} == {"Other"}


def test_a_registered_policy_can_be_that_of_the_whole_run(tmp_path: Path) -> None:
    (result,) = api.run(write_run_file(tmp_path), policy="house")
    assert set(asked(result).values()) == {("house", f"House: Say word{number}") for number in range(4)}


def test_functions_are_registered_in_python(tmp_path: Path) -> None:
    options = {"policies": {"house": shout}, "model": transcript, "judge": "scripted/judge-5"}
    (result,) = assay.run(rows(tmp_path), runs_dir=str(tmp_path / "runs"), **options)
    assert asked(result)["q:0"] == ("house", "SAY WORD0")


def test_policies_of_installed_packages_are_chosen_by_their_name(tmp_path: Path) -> None:
    site = Site(tmp_path / "packages")
    site.install("acme_house", OWN, {"policies": {"house": "acme_house:house"}})
    with site.here():
        (result,) = api.run(
            rows(tmp_path), model="scripted/echo", judge="scripted/judge-5", runs_dir=str(tmp_path / "runs"), run_id="x"
        )
    manifest = json.loads((Path(result.run_dir) / "run_manifest.json").read_bytes())
    assert asked(result)["q:0"] == ("house", "House: Say word0")
    assert [plugin["distribution"] for plugin in manifest["plan"]["plugins"]] == ["acme_house"]


def test_data_of_a_caller_who_may_not_choose_code_chooses_no_package(tmp_path: Path) -> None:
    site = Site(tmp_path / "packages")
    site.install("acme_house", OWN, {"policies": {"house": "acme_house:house"}})
    options = {"model": "scripted/echo", "judge": "scripted/judge-5", "runs_dir": str(tmp_path / "runs"), "code": ()}
    with site.here():
        (result,) = api.run(rows(tmp_path), **options)
    assert asked(result)["q:0"] == ("default", "Say word0")


@pytest.mark.parametrize(
    ("policies", "problem"),
    [
        ({"house": "own.py:nothing"}, "there is no 'nothing' in 'own.py'"),
        ({"house": "gone.py:house"}, "gone.py"),
        ({"lexam_oq_v1": "own.py:house"}, "'lexam_oq_v1' is a built-in policy; give yours another name"),
        ({"house": 7}, "policies.house"),
    ],
)
def test_a_policy_that_cannot_be_used_is_refused_with_its_place(tmp_path: Path, policies: Any, problem: str) -> None:
    with pytest.raises(PlanProblems) as refused:
        api.run(write_run_file(tmp_path, policies=policies))
    (text,) = refused.value.problems
    assert problem in text
    assert f"{tmp_path / 'run.json'}:" in text


def test_a_policy_of_single_records_cannot_grade(tmp_path: Path) -> None:
    options = {"policies": {"house": Formal()}, "model": transcript, "judge": "scripted/judge-5"}
    with pytest.raises(PlanProblems, match="the policy 'house' grades by itself"):
        assay.run(rows(tmp_path), runs_dir=str(tmp_path / "runs"), **options)


def test_a_policy_that_has_changed_is_refused_when_the_run_is_resumed(tmp_path: Path) -> None:
    request = api.RunRequest(run_file=str(write_run_file(tmp_path)), runs_dir=str(tmp_path / "runs"))
    (plan,) = api.plan_runs(request).plans
    open_or_create(plan, folders_of(tmp_path / "runs", "x"), at=time.time())
    (tmp_path / "own.py").write_text(OWN.replace("House", "Home"), encoding="utf-8")
    with pytest.raises(UsageProblem, match="the policy 'house' has changed since the run was planned"):
        api.resume("x", runs_dir=tmp_path / "runs")
    (tmp_path / "own.py").write_text(OWN, encoding="utf-8")
    assert asked(api.resume("x", runs_dir=tmp_path / "runs"))["q:0"] == ("house", "House: Say word0")
