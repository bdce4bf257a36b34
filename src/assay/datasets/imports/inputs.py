"""Files to import: opened once, known by their content, each with a tally of its own."""

from pathlib import Path

from assay.core.errors import SourceUnreadable, UsageProblem
from assay.datasets.converters.report import ConversionCounts
from assay.datasets.source import Source, open_source

_ZIP_MAGIC = b"PK\x03\x04"


class ImportSource:
    """One file to import."""

    def __init__(self, name: str) -> None:
        """Raises SourceUnreadable where it cannot be opened, UsageProblem for standard input."""
        if name == "-":
            raise UsageProblem("an import cannot be read from standard input", hint="name a file, whose hash the run will keep")
        self.name = name
        self.path = Path(name)
        if self.path.is_dir():
            raise SourceUnreadable(f"'{name}' is a folder", hint="name its files")
        self.opened: Source = open_source(self.path)
        self.tally = ConversionCounts(name)

    @property
    def is_zip(self) -> bool:
        """True for a zip archive."""
        return self.opened.head(len(_ZIP_MAGIC)) == _ZIP_MAGIC

    @property
    def ending(self) -> str:
        """The last ending of the name, lower case and without `.gz`: `.jsonl`."""
        return Path(self.path.name.lower().removesuffix(".gz")).suffix
