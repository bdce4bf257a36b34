"""A policy: what the candidate is asked, and how its answer is graded."""

import assay


class OneLine:
    """Wants one line, and grades whether it got one."""

    def ask(self, record: assay.Case) -> list[dict[str, str]]:
        """The messages for a record."""
        return [{"role": "system", "content": "Answer in one line."}, {"role": "user", "content": record.prompt}]

    def grade(self, record: assay.Case, answer: str) -> bool:
        """Whether the answer is one line; without this method the record would be graded as usual."""
        return "\n" not in answer and answer != record.prompt


def main() -> None:
    """Ask a model that never answers in one line."""
    [run] = assay.run("examples/plugins/questions.jsonl", model="scripted/say-Yes,\nand no", policy=OneLine)
    print(run.pass_rate.value, next(iter(run))["policy_id"])


if __name__ == "__main__":
    main()
