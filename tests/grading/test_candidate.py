import pytest

from assay.core.case import Attachment, Choice, Message
from assay.core.outcome import GradingFailure
from assay.grading import GradingSettings
from assay.grading.candidate import candidate_ask, candidate_messages
from assay.grading.methods import assign
from tests.grading.driving import SETTINGS, batch_case, drive, golden_case, judged, mcq_case, reference_case, replaced

FRIENDLY = GradingSettings(candidate="model", judges=("judge",), system_prompt="Be brief.")


def sent(case, settings=SETTINGS, **attachments):
    return candidate_messages(assign(case, settings, attachments=attachments))


def test_a_prompt_alone_is_one_user_message() -> None:
    assert sent(batch_case()) == (Message("user", "What is 2+2?"),)


def test_the_first_ask_of_a_flow_is_the_candidates() -> None:
    (ask,) = drive(mcq_case(), judged("")).rounds[0]
    assert (ask.stage, ask.call_id, ask.model) == ("candidate", "candidate", "model")


def test_the_system_prompt_comes_first() -> None:
    assert sent(batch_case(), FRIENDLY)[0] == Message("system", "Be brief.")


def test_a_record_with_a_system_message_keeps_its_own() -> None:
    messages = (Message("system", "Be long."), Message("user", "Hello"))
    assert sent(batch_case(messages=messages), FRIENDLY) == messages


def test_messages_are_sent_instead_of_the_prompt() -> None:
    messages = (Message("user", "One"), Message("assistant", "Two"), Message("user", "Three"))
    assert sent(batch_case(messages=messages)) == messages


def test_context_is_appended_to_the_last_user_message() -> None:
    messages = (Message("user", "One"), Message("assistant", "Two"))
    assert sent(reference_case(messages=messages, model_context="facts"))[0] == Message("user", "One\n\nContext:\nfacts")


def test_context_follows_a_prompt_without_messages() -> None:
    assert sent(reference_case(model_context="facts"))[0].content == "What is 2+2?\n\nContext:\nfacts"


def test_context_of_a_conversation_without_a_user_is_a_message_of_its_own() -> None:
    messages = (Message("assistant", "Two"),)
    assert sent(reference_case(messages=messages, model_context="facts"))[-1] == Message("user", "Context:\nfacts")


def test_notes_of_a_golden_case_reach_neither_candidate_nor_judge() -> None:
    driven = drive(golden_case(notes="a secret remark"), judged('{"score": 5, "justification": "Right."}'))
    assert "secret" not in repr(driven.rounds)


def test_an_endpoint_is_not_sent_how_a_record_is_checked() -> None:
    case = reference_case(metadata={"checks": [{"type": "equals", "value": "4"}], "topic": "sums"})
    record = candidate_ask(assign(case, SETTINGS, attachments={})).record
    assert record is not None
    assert record.metadata == {"topic": "sums"}


def test_attachments_are_appended_under_their_titles() -> None:
    case = reference_case(attachments=(Attachment("a.txt", title="Statute"), Attachment("b.txt")))
    text = sent(case, **{"a.txt": "Article 1", "b.txt": "Article 2"})[0].content
    assert text.endswith("Attachment: Statute\nArticle 1\n\nAttachment: b.txt\nArticle 2")


def test_a_missing_attachment_fails_the_case_before_anything_is_asked() -> None:
    with pytest.raises(GradingFailure) as failure:
        drive(reference_case(attachments=(Attachment("a.pdf"),)), judged(""))
    assert failure.value.code == "attachment_missing"


def test_choices_are_listed_with_the_form_of_the_answer() -> None:
    text = sent(mcq_case())[0].content
    assert "A. Paris\nB. London\nC. Rome\nD. Bern" in text
    assert '{"answer": "id", "reasoning": "one or two sentences"}' in text


def test_several_correct_choices_are_announced() -> None:
    assert "Select all that apply" in sent(mcq_case(("A", "C")))[0].content
    assert "Select all that apply" not in sent(mcq_case(("A",)))[0].content
    assert "Select the one correct choice" in sent(mcq_case(("A", "A")))[0].content


def test_placeholders_in_choices_stay_as_they_are() -> None:
    case = mcq_case(choices=(Choice("A", "{{task}}"), Choice("B", "{{choices}}")))
    assert "A. {{task}}\nB. {{choices}}" in sent(case)[0].content


def test_an_endpoint_is_not_sent_what_followed_in_the_recording() -> None:
    metadata = {"turn_id": 1, "reply_turns": [{"turn_id": 2, "tool_used": "look", "tool_input": {"id": 7}}]}
    case = replaced(reference_case(metadata=metadata), contract="conversation_v1", expected_calls=())
    record = candidate_ask(assign(case, SETTINGS)).record
    assert record is not None
    assert record.metadata == {"turn_id": 1}
