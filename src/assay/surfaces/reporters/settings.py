"""Settings of reporters."""

import msgspec

from assay.core.report import FixChange


class ReportSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How reports are shown; every reporter takes the same."""

    version: str
    """Product's version, as machine formats name it."""
    max_issues: int | None = None
    """Issues shown per file; 0 for all, None for the format's own default."""
    width: int | None = None
    """Columns of the terminal; None where there is no terminal and nothing is folded or cut."""
    is_coloured: bool = False
    is_verbose: bool = False
    """Similar findings are not collapsed, and codes are explained."""
    is_strict: bool = False
    """Warnings fail as errors do."""
    fixed_source: str = ""
    """File that was corrected; the lines of the changes are its."""
    fixed_copy: str = ""
    """Where the corrected copy was written."""
    changes: tuple[FixChange, ...] = ()
    """Fixes that the corrected copy has."""
