"""Validate one file from Python: the verdict, every issue with its place, and the cases that can be used."""

import sys

import assay


def main(path: str) -> int:
    """Print what assay finds in the file; 0 when nothing in it is wrong, 1 otherwise."""
    report = assay.validate(path)
    print(f"{report.path}: {report.contract}, {report.outcome}, {report.counts.accepted_records} usable records")
    for issue in report.issues:
        print(f"  line {issue.line}: {issue.severity} {issue.code}: {issue.message}")
    for case in report.cases:
        print(f"  case {case.id} ({case.task}): {case.prompt[:60]}")
    return 0 if report.is_valid else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
