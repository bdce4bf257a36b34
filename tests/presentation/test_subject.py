"""Who took part in a run and what it is about."""

import msgspec

from assay.core.manifest import BatchEntry, NegotiatedModel
from assay.core.model_call import Adjustment
from assay.core.plan import NO_PARAMETERS, ImportedFile, ImportPlan, ModelPlan, ProviderPlan
from assay.core.settings import ModelParameters, TokenPrice
from assay.presentation.subject import batch_words, grading_word, imported_words, model_words, negotiated_words, subject_facts
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


NEGOTIATED = (
    NegotiatedModel(
        "small",
        (
            Adjustment("temperature", "omitted", "`temperature` is deprecated", is_explicit=True),
            Adjustment("max_tokens", "max_completion_tokens", "use the other name", is_explicit=True),
            Adjustment("max_tokens", "64000", "100000 > 64000"),
        ),
        64_000,
        "provider",
    ),
    NegotiatedModel(
        "openai/gpt-5", (Adjustment("reply_format", "json_object"), Adjustment("reply_format", "tools")), 400, "user", "tools"
    ),
)


def test_what_providers_rejected_is_a_fact_and_what_the_user_had_set_a_note() -> None:
    found = msgspec.structs.replace(manifest(), negotiated=NEGOTIATED)
    assert [(label, " · ".join(words)) for label, words in negotiated_words(found)] == [
        ("adjusted", "small · without temperature"),
        ("note", "small rejects temperature, which was set: without temperature; it says: `temperature` is deprecated"),
        ("adjusted", "openai/gpt-5 · reply format tools"),
    ]


def test_the_output_limit_of_a_candidate_names_who_set_it() -> None:
    limits = {
        (None, "model"): "the model's own maximum",
        (64_000, "provider"): "64,000 tokens, the model's maximum as its provider states it",
        (500, "user"): "500 tokens, as set",
    }
    for (tokens, origin), words in limits.items():
        found = msgspec.structs.replace(manifest(), negotiated=(NegotiatedModel("small", (), tokens, origin),))
        plan = msgspec.structs.replace(manifest().plan, providers=(ProviderPlan(name="openai", kind="openai"),))
        facts = {fact.label: fact.text for fact in subject_facts(plan, found)}
        assert facts["max output"] == words


def test_a_price_that_was_set_is_shown_with_its_model() -> None:
    model = ModelPlan(name="m", provider="p", model="m", price=TokenPrice(input=2.5, output=10))
    assert model_words(model)[-1] == "price as set: $2.5 in, $10 out per million tokens"


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
