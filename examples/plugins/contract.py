"""A contract: a format of one's own, validated and run like ours."""

from typing import Any

import assay


class Tickets:
    """Tickets in JSON Lines, JSON or YAML: assay finds the place of every issue, duplicates, and what is no JSON at all."""

    name = "tickets_v1"

    def recognises(self, names: frozenset[str]) -> bool:
        """Whether a file is of this kind, by the names in its first row."""
        return {"ticket", "question"} <= names

    def case(self, row: Any, found: Any) -> dict[str, Any]:
        """The case of a row; what is wrong with it goes to `found`, with the path of the value."""
        if not row["answer"]:
            found.add("value_out_of_range", ("answer",), "the ticket was never answered", hint="leave it out")
        return {"id": str(row["ticket"]), "prompt": row["question"], "references": [row["answer"]]}


def main() -> None:
    """Validate a file, and say what is wrong with it."""
    report = assay.validate("examples/plugins/tickets.jsonl", Tickets)
    print(report.contract, report.counts.accepted_records, "accepted")
    print([(issue.line, issue.column, issue.message) for issue in report.issues])


if __name__ == "__main__":
    main()
