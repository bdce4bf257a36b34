"""A converter: rows of any source into rows of legal_eval_v1."""

from typing import Any

import assay


def tickets(row: dict[str, Any]) -> dict[str, Any]:
    """One ticket; a ValueError refuses it with a reason, None leaves it out."""
    if not row["answer"]:
        raise ValueError("the ticket was never answered")
    return {
        "id": f"ticket:{row['ticket']}",
        "task_type": "reference_qa",
        "prompt": row["question"],
        "reference_answers": [row["answer"]],
        "metadata": {"team": row["team"]},
    }


def main() -> None:
    """Convert a file, and say what was left out."""
    conversion = assay.convert("examples/plugins/tickets.jsonl", tickets)
    print([row["id"] for row in conversion.rows])
    print([(remark.line, remark.reason) for remark in conversion.report.remarks])


if __name__ == "__main__":
    main()
