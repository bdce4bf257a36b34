"""A grader: how many words of the reference an answer has."""

import assay


def overlap(record: assay.Case, answer: str) -> assay.Judgement:
    """The share of the reference's words that the answer has."""
    wanted = set(record.references[0].lower().split())
    found = wanted & set(answer.lower().split())
    missing = ", ".join(sorted(wanted - found)) or "nothing"
    return assay.Judgement(score=len(found) / len(wanted), justification=f"missing: {missing}")


def main() -> None:
    """Grade a model that always says the same."""
    [run] = assay.run("examples/plugins/questions.jsonl", model="scripted/say-The seller pays within 14 days", grader=overlap)
    for record in run:
        print(f"{record['record_id']:16} {record['score']:.2f}  {record['justification']}")


if __name__ == "__main__":
    main()
