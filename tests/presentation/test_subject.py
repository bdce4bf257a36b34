"""Who took part in a run and what it is about."""

import msgspec

from assay.core.manifest import BatchEntry
from assay.core.plan import NO_PARAMETERS, ImportedFile, ImportPlan, ModelPlan
from assay.core.settings import ModelParameters
from assay.presentation.subject import batch_words, grading_word, imported_words, model_words, subject_facts
from tests.surfaces.run_views import manifest

ROW = BatchEntry(
    number=1,
    batch_id="b",
    status="ended",
    submitted_at="",
    requests=3,
    bytes=1,
    input_sha256="",
    answered=1,
    errors={"timeout": 1},
    asked_live=1,
    duplicates=1,
    unknown=0,
    malformed=0,
    problems=("late",),
)


def test_dataset_candidate_and_judges_are_facts_whose_parts_are_cut_one_by_one() -> None:
    facts = subject_facts(manifest().plan, manifest())
    assert [(fact.label, fact.text) for fact in facts] == [
        ("dataset", "assistant · 1.2.0 · golden_v1"),
        ("candidate", "small · openai/gpt-5-mini · temperature 0"),
        ("judge", "openai/gpt-5 · max tokens 400"),
    ]
    assert facts[0].parts == ("assistant", "1.2.0", "golden_v1")


def test_a_given_answer_was_asked_for_without_parameters() -> None:
    model = ModelPlan(name="small", provider="openai", model="gpt-5-mini", parameters=ModelParameters(temperature=0.5))
    assert model_words(model, source="recorded answers") == ("small", "openai/gpt-5-mini", "recorded answers")


def test_batches_say_what_became_of_their_requests() -> None:
    found = list(batch_words([ROW, msgspec.structs.replace(ROW, status="failed")]))
    assert found == [
        "1 batch",
        "1 of 3 requests answered",
        "timeout 1",
        "1 sent as single calls",
        "1 repeated line of results",
        "late",
    ]


def test_an_import_names_its_tool_its_scorer_and_its_first_files() -> None:
    files = tuple(ImportedFile(name=f"logs/{number}.eval", sha256="") for number in range(5))
    imported = ImportPlan(tool="inspect_ai", version="0.3.285", scorer="includes", scale="0/1", files=files)
    assert imported_words(imported) == (
        "from inspect_ai 0.3.285",
        "scorer includes (0/1)",
        "0.eval",
        "1.eval",
        "2.eval",
        "and 2 more files",
    )


def test_a_grader_that_is_called_in_place_of_judges_gives_times_their_name() -> None:
    grader = {"kind": "grader", "name": "exact", "grades": True}
    assert grading_word(manifest(plugins=[grader]).plan) == "grader"
    assert grading_word(manifest(plugins=[{**grader, "asks_judges": True}]).plan) == "judge"


def test_an_endpoint_that_is_named_alone_has_one_name() -> None:
    assert model_words(ModelPlan(name="mine", provider="mine", model="mine", parameters=NO_PARAMETERS)) == ("mine",)
