"""Files of benchmarks and of other contracts in, rows of a contract out."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from assay.api.validation import validate
from assay.core.errors import UsageProblem
from assay.core.installed_plugins import find_plugin
from assay.core.plugin import given_plugin
from assay.datasets import contract_named
from assay.datasets.converters import CONVERTERS, ConversionResult, IdStyle, convert_cases, convert_files
from assay.datasets.converters.report import with_rejected

__all__ = ["convert", "convert_benchmark", "convert_contract"]


def convert(
    sources: str | Path | Sequence[str | Path], converter: str | Callable[..., Any], *, id_style: IdStyle = "stable"
) -> ConversionResult:
    """Rows of legal_eval_v1 from files, by the name of a converter, or by a function that makes rows of a source row."""
    paths = [sources] if isinstance(sources, str | Path) else sources
    if isinstance(converter, str):
        return convert_benchmark(converter, paths, id_style=id_style)
    return convert_files(given_plugin("converter", converter), paths, id_style=id_style)


def convert_benchmark(name: str, paths: Sequence[str | Path], *, id_style: IdStyle = "stable") -> ConversionResult:
    """Rows of legal_eval_v1 from the files of a published benchmark, or of one that a plugin knows."""
    known = name if name in CONVERTERS else find_plugin("converter", name, folder=Path(), built_in=CONVERTERS)
    return convert_files(known, paths, id_style=id_style)


def convert_contract(path: str | Path, *, source: str, target: str) -> ConversionResult:
    """The valid cases of a dataset in another contract, with a remark for everything that has no place there."""
    report = validate(path, source)
    known = report.contract
    if known is None or report.outcome == "rejected":
        raise UsageProblem(f"'{path}' is no usable {source} dataset", hint=f"see what is wrong with: assay validate {path}")
    converted = convert_cases(report.cases, source=contract_named(known), target=contract_named(target), name=str(path))
    return with_rejected(converted, report.record_errors)
