"""Keyword arguments of `assay.run`, as editors and type checkers see them."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from assay import api
from assay.core.retention import RetentionSettings
from assay.core.runs import RunBackend, TemporalServer
from assay.core.secrets import RedactRule
from assay.core.setting_keywords import Model, SettingKeywords
from assay.core.settings import ColumnSection


class RunKeywords(SettingKeywords, total=False):
    """Keyword arguments of `assay.run` and `assay.run_async`: every setting of a run, and what only Python has."""

    model: Model | Sequence[Model] | None
    """Candidate: its name as `provider/model`, a function or async function, or a list of them."""

    judge: Model | Sequence[Model] | None
    """Judge, given in the same way; several vote."""

    contract: str | Callable[..., Any] | object
    """Contract of the dataset: a name, or code that makes a case of a row. Default: recognised by content."""

    columns: Mapping[str, str | Sequence[str]] | ColumnSection | None
    """Columns of a table by what they hold, such as `{"prompt": "Question", "reference": "Answer"}`."""

    name: str | None
    """Name of data in memory, in reports; of bytes with the ending that says what they are: `faq.csv`."""

    run_file: str | Path | None
    """Run file whose settings hold where no argument is given; data in memory take the place of its datasets."""

    redact: Sequence[RedactRule | Mapping[str, str]] | None
    """Custom redaction rules."""

    project: str | None
    """API keys of this project may see the run."""

    retention: RetentionSettings | Mapping[str, int] | None
    """Days for which the artifacts are kept."""

    observe: api.Observer | None
    """Called with each record that came to its end."""

    on_busy: Callable[[int | None], None] | None
    """Called when another process works on the run, with its id."""

    is_stopping: Callable[[], bool] | None
    """Asked a few times a second; True drains the run, which can be resumed."""

    takes_signals: bool
    """Drain the run at Ctrl-C and SIGTERM, as the command does."""

    is_detached: bool
    """Hand batches in and do not wait for them."""

    placement: RunBackend | None
    """Backend on which the run is stored and evaluated."""

    ledger: str
    """Address of a PostgreSQL for the ledgers of runs."""

    store: str
    """Address in an object store where artifacts are published."""

    temporal: TemporalServer | None
    """Temporal server whose workers evaluate the records."""
