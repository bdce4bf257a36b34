"""A model: any function that makes a text of messages."""

import assay

KNOWN = {"lost": "The seller pays.", "sent back": "Within 14 days."}


def helpdesk(messages: list[dict[str, str]]) -> str:
    """Looks its answer up; what it raises is a failed attempt, and never a score."""
    question = messages[-1]["content"]
    for words, answer in KNOWN.items():
        if words in question:
            return answer
    raise LookupError("nobody has written that down yet")


def main() -> None:
    """Let a judge grade what the function says."""
    [run] = assay.run("examples/plugins/questions.jsonl", model=helpdesk, judge="scripted/judge-5")
    for record in run:
        print(f"{record['record_id']:16} {record['model_response'] or record['error_code']}")


if __name__ == "__main__":
    main()
