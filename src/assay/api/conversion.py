"""Files of benchmarks and of other contracts in, rows of a contract out."""

from collections.abc import Sequence
from pathlib import Path

from assay.api.validation import validate
from assay.core.errors import UsageProblem
from assay.datasets import contract_named
from assay.datasets.converters import Conversion, IdStyle, convert_cases, convert_files
from assay.datasets.converters.report import with_rejected

__all__ = ["convert_benchmark", "convert_contract"]


def convert_benchmark(name: str, paths: Sequence[str], *, id_style: IdStyle = "stable") -> Conversion:
    """Rows of legal_eval_v1 from the files of a published benchmark."""
    return convert_files(name, paths, id_style=id_style)


def convert_contract(path: str | Path, *, source: str, target: str) -> Conversion:
    """The valid cases of a dataset in another contract, with a remark for everything that has no place there."""
    report = validate(path, source)
    known = report.contract
    if known is None or report.outcome == "rejected":
        raise UsageProblem(f"'{path}' is no usable {source} dataset", hint=f"see what is wrong with: assay validate {path}")
    converted = convert_cases(report.cases, source=known, target=contract_named(target), name=str(path))
    return with_rejected(converted, report.record_errors)
