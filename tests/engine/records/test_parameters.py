"""Parameters that a provider rejected: kept by model in the notes of a ledger, and what was sent because of them."""

from contextlib import closing
from pathlib import Path

from assay.core.manifest import NegotiatedModel
from assay.core.model_call import Adjustment
from assay.core.plan import ModelPlan
from assay.core.settings import ModelParameters
from assay.engine.records.parameters import (
    exchange_adjustments,
    negotiated_models,
    read_adjustments,
    save_adjustments,
    sent_parameters,
)
from assay.engine.records.redaction import RedactedPlan
from assay.store.redact import Redactor
from tests.models.asking import plan_of, provider_of
from tests.store.samples import new_ledger

OMITTED = Adjustment("temperature", "omitted", "unsupported for jane@example.org")
LIMITS = (Adjustment("max_tokens", "8192", "at most 8192"), Adjustment("max_tokens", "4096", "at most 4096"))
RENAMED = Adjustment("max_tokens", "max_completion_tokens")


def test_what_was_learned_is_read_back_by_model(tmp_path: Path) -> None:
    with closing(new_ledger(tmp_path)) as ledger:
        ledger.set_note("problem", "something else")
        save_adjustments(ledger, "vendor/m/2", [OMITTED, RENAMED])
        save_adjustments(ledger, "other", [OMITTED])
        learned = read_adjustments(ledger.run().notes)
    assert {model: set(found) for model, found in learned.items()} == {"vendor/m/2": {OMITTED, RENAMED}, "other": {OMITTED}}


def test_what_another_worker_has_learned_comes_back_with_what_is_stored(tmp_path: Path) -> None:
    with closing(new_ledger(tmp_path)) as ledger:
        save_adjustments(ledger, "m", [OMITTED])
        save_adjustments(ledger, "other", [LIMITS[0]])
        assert set(exchange_adjustments(ledger, "m", [RENAMED])) == {OMITTED, RENAMED}


def test_another_name_and_a_limit_of_one_parameter_are_both_kept(tmp_path: Path) -> None:
    with closing(new_ledger(tmp_path)) as ledger:
        save_adjustments(ledger, "m", [RENAMED, LIMITS[0]])
        assert set(read_adjustments(ledger.run().notes)["m"]) == {RENAMED, LIMITS[0]}
        # A later worker learned a lower limit.
        save_adjustments(ledger, "m", [LIMITS[1]])
        assert set(read_adjustments(ledger.run().notes)["m"]) == {RENAMED, LIMITS[1]}


def described(tmp_path: Path, *learned: Adjustment, parameters: ModelParameters | None = None) -> NegotiatedModel:
    with closing(new_ledger(tmp_path)) as ledger:
        save_adjustments(ledger, "m", learned)
        plan = plan_of(provider_of("openai"), parameters=parameters)
        (found,) = negotiated_models(plan, ledger.run().notes, RedactedPlan(plan, Redactor([])))
    return found


def test_the_manifest_says_who_set_the_longest_answer(tmp_path: Path) -> None:
    own = ModelParameters(max_tokens=100)
    for number, (learned, parameters, limit, origin) in enumerate(
        [
            ((), None, None, "model"),
            ((), own, 100, "user"),
            ((LIMITS[0],), own, 8192, "provider"),
            ((Adjustment("max_tokens", "omitted"),), own, None, "model"),
        ]
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        found = described(folder, *learned, parameters=parameters)
        assert (found.output_limit, found.output_limit_origin) == (limit, origin)


def test_words_of_a_provider_are_redacted(tmp_path: Path) -> None:
    (adjustment,) = described(tmp_path, OMITTED).adjustments
    assert (adjustment.parameter, "jane@example.org" in adjustment.reason) == ("temperature", False)


def test_parameters_are_those_that_were_sent() -> None:
    model = ModelPlan(name="m", provider="p", model="m", parameters=ModelParameters(temperature=0.5, max_tokens=100_000, seed=7))
    assert sent_parameters(model, [OMITTED, LIMITS[0], RENAMED]) == ModelParameters(temperature=None, max_tokens=8192, seed=7)
