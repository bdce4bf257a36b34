"""Bytes of any contract into cases and issues."""

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import get_args

from assay.core.case import Case, ContractId
from assay.core.errors import UsageProblem
from assay.core.issue import Issue
from assay.core.report import Counts, Report
from assay.datasets.checks import nearest
from assay.datasets.config import ValidationConfig
from assay.datasets.formats import guess_contract
from assay.datasets.progress import ALONE, Effort
from assay.datasets.source import Source

__all__ = ["CONTRACTS", "contract_named", "read", "reader_of", "resolve_contract", "stream"]

Reader = Callable[[Source, ValidationConfig, Effort], Report]

CONTRACTS: tuple[ContractId, ...] = get_args(ContractId)
"""Every contract; each is a module of this package with a function `read`."""


def reader_of(contract: ContractId) -> Reader:
    """The reader of a contract, imported now: nobody pays for the three others."""
    reader: Reader = import_module(f"assay.datasets.{contract}").read
    return reader


def read(source: Source, contract: str, *, config: ValidationConfig, effort: Effort = ALONE) -> Report:
    """The report on a source; `auto` recognises the contract by its content. Raises UsageProblem for an unknown name."""
    known = resolve_contract(source, contract)
    return _unknown(source) if known is None else reader_of(known)(source, config, effort)


def stream(source: Source, contract: str, *, config: ValidationConfig) -> Iterator[Case | Issue]:
    """Issues and cases as they are met; in constant memory where the format allows it (JSONL)."""
    known = resolve_contract(source, contract)
    if known == "legal_eval_v1":
        yield from import_module("assay.datasets.legal_eval_v1").stream(source, config)
        return
    report = read(source, known or contract, config=config)
    yield from report.issues
    yield from report.cases


def resolve_contract(source: Source, contract: str) -> ContractId | None:
    """The contract of that name, or for `auto` the one that the content shows, if any."""
    return guess_contract(source).contract if contract == "auto" else contract_named(contract)


def contract_named(contract: str) -> ContractId:
    """The contract of that name; raises UsageProblem that names the nearest one."""
    for known in CONTRACTS:
        if known == contract:
            return known
    names = (*CONTRACTS, "auto")
    raise UsageProblem(f"unknown contract {contract!r}", hint=nearest(contract, names) or f"known are {', '.join(names)}")


def _unknown(source: Source) -> Report:
    issue = Issue(
        code="unknown_contract",
        message=f"no contract was recognised: {guess_contract(source).tried}",
        line=1,
        column=1,
        hint="name it with --contract to see what is missing",
    )
    return Report(path=source.name, contract=None, outcome="rejected", counts=Counts(), issues=[issue])
