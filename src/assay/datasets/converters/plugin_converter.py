"""Converters of one's own: a function that makes canonical rows of a source row, held to the contract like ours."""

from collections.abc import Mapping

from assay.core.errors import ThirdPartyCode, ThirdPartyError
from assay.core.plugin import Plugin
from assay.datasets.converters.rows import Converter, Row, RowOrigin, RowRefused, SourceColumns, accepted
from assay.datasets.legal_eval_v1.rules import SCHEMA_VERSION


def own_converter(plugin: Plugin) -> Converter:
    """The function as a converter: what it raises refuses the row, and so does a row that the contract would not accept."""

    def convert(columns: SourceColumns, _: RowOrigin) -> tuple[Row, ...]:
        try:
            with ThirdPartyCode():
                said = plugin.target(columns.all())
                rows = [] if said is None else [said] if isinstance(said, Mapping) else list(said)
        except ThirdPartyError as failure:
            # A ValueError is how a converter says that it does not want a row; anything else is a surprise.
            is_said = isinstance(failure.problem, ValueError) and str(failure.problem)
            raise RowRefused(str(failure.problem) if is_said else f"the converter raised {failure}") from failure.problem
        return tuple(_canonical(row, plugin) for row in rows)

    return convert


def _canonical(row: object, plugin: Plugin) -> Row:
    if not isinstance(row, Mapping):
        raise RowRefused(f"the converter gave {type(row).__name__}, not a row")
    return accepted({"schema_version": SCHEMA_VERSION, "dataset": plugin.plan.name.rpartition(":")[2], **row})
