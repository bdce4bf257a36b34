import msgspec

from assay.core.graders import CategoryScale, GraderPlan, JudgePrompt


def test_a_prompt_is_named_with_its_version() -> None:
    assert JudgePrompt(name="own.txt", sha256="0123456789abcdef" * 4, text="x").id == "own.txt/0123456789ab"


def test_the_plan_of_a_grader_is_read_back_as_it_was_written() -> None:
    prompt = JudgePrompt(name="own.txt", sha256="ab" * 32, text="{{answer}}")
    plan = GraderPlan(
        name="house", kind="judge", judge="J", prompt=prompt, scale=CategoryScale(categories={"good": 1.0, "bad": 0.0})
    )
    assert msgspec.json.decode(msgspec.json.encode(plan), type=GraderPlan) == plan
    assert msgspec.json.decode(b'{"name": "x", "kind": "judge", "scale": "1-5"}', type=GraderPlan).scale == "1-5"
