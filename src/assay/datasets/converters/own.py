"""Converters of one's own: a function that makes canonical rows of a source row, held to the contract like ours."""

from collections.abc import Mapping
from typing import Any

from assay.core.foreign import ForeignCode, ForeignFailure
from assay.core.plugin import Plugin
from assay.datasets.converters.canonical import Converter, Origin, Row, accepted
from assay.datasets.converters.columns import Columns, RowRefused
from assay.datasets.legal_eval_v1.rules import SCHEMA_VERSION


def own_converter(plugin: Plugin) -> Converter:
    """The function as a converter: what it raises refuses the row, and so does a row that the contract would not accept."""

    def convert(columns: Columns, _: Origin) -> tuple[Row, ...]:
        try:
            with ForeignCode():
                said = plugin.target(columns.all())
                rows = [] if said is None else [said] if isinstance(said, Mapping) else list(said)
        except ForeignFailure as failure:
            # A ValueError is how a converter says that it does not want a row; anything else is a surprise.
            is_said = isinstance(failure.problem, ValueError) and str(failure.problem)
            raise RowRefused(str(failure.problem) if is_said else f"the converter raised {failure}") from failure.problem
        return tuple(_canonical(row, plugin) for row in rows)

    return convert


def _canonical(row: Any, plugin: Plugin) -> Row:
    if not isinstance(row, Mapping):
        raise RowRefused(f"the converter gave {type(row).__name__}, not a row")
    return accepted({"schema_version": SCHEMA_VERSION, "dataset": plugin.plan.name.rpartition(":")[2], **row})
