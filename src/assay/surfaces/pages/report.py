"""A finished run as one file: its page, its records, and what their list can be filtered and sorted by, without a server.

The records are packed, a few at a time: a browser unpacks what is looked at, and the file has a tenth of the size.
"""

import base64
import gzip
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import get_args

import msgspec
from markupsafe import Markup

from assay import api
from assay.core.artifact_lines import InvalidRecord, RecordDetails
from assay.core.canonical import JsonObject, json_text
from assay.core.errors import RunNotFound, StoreUnavailable
from assay.core.issue import RecordIssue
from assay.core.record_query import INVALID, STATUS_GROUPS, RecordSearch, Sort
from assay.presentation.record import LabelView, label_view
from assay.presentation.run_report import sketch_of
from assay.presentation.sections import Timestamp
from assay.presentation.words import counted
from assay.surfaces.pages.page_renderer import FileLinks, PageViewer, page
from assay.surfaces.pages.record import RecordNavigation, record_view
from assay.surfaces.pages.records import RecordsChoice, RecordsView, record_row, records_view
from assay.surfaces.pages.run import RunPage, run_page

PART = 50
"""Records that are unpacked together."""
PLACE, READER = FileLinks(), PageViewer()
AnswerKey = tuple[str, str, int]
"""Dataset, record id and sample."""
Progress = Callable[[int, int], None]
_BLOCK = Markup('<script type="application/octet-stream" id="{}">{}</script>\n')


class ReportPage(RunPage, frozen=True, kw_only=True):
    """Page of a run with its records behind it."""

    records: RecordsView | None
    """None where they are gone."""
    left_out: str
    """What is not in the file; empty when everything is."""
    made: Timestamp


class ReportFile:
    """A finished run and which of its records its file has; raises RunNotFound, StoreUnavailable only for damage."""

    def __init__(self, run: api.RunReader, *, limit: int | None) -> None:
        self.run = run
        self.run_id = run.folders.run_id
        self.problem = ""
        """Why no record can be shown."""
        self._rows: tuple[api.IndexedRecord, ...] = ()
        self._facets: api.Facets | None = None
        self._numbers: dict[int, int] = {}
        # Damage leaves a file with the page of the run; the records are said to be missing.
        try:
            self._choose(limit)
        except (RunNotFound, StoreUnavailable) as problem:
            self.problem = str(problem)

    def _choose(self, limit: int | None) -> None:
        """Choose the records of the file, the worst first, because a reader of a part wants to see what went wrong."""
        self._index = api.index_run(self.run.folders.sealed)
        self._facets = self._index.facets()
        # Without a filter, so that every record is ranked before the rest is left out.
        rows = self._index.find(RecordSearch(), limit=self._facets.records).rows
        self._rows = tuple(sorted(rows, key=_badness)[:limit])
        self._numbers = {row.ordinal: number for number, row in enumerate(self._rows)}

    @property
    def shown(self) -> int:
        """How many records the file has."""
        return len(self._rows)

    @property
    def total(self) -> int:
        """How many records the run has, as far as they can still be read."""
        return 0 if self._facets is None else self._facets.records

    @property
    def left_out(self) -> str:
        """What is not in the file; empty when everything is."""
        if self.shown == self.total:
            return ""
        return (
            f"This file has {self.shown:,} of {counted(self.total, 'record')}: those that did not pass first, the lowest scores "
            "before others, then those without a grade, then the rest. The figures are those of all."
        )

    def chunks(self, made: Timestamp, progress: Progress) -> Iterator[str]:
        """Yield the file from its beginning to its end."""
        sets = self._sets() if self._facets else {}
        # Rendered once as a page and cut before its end: the records follow as blocks that a browser unpacks one
        # by one.
        head, end, rest = page("report.html", self._page(made, sets), place=PLACE, reader=READER).rpartition("</body>")
        yield head
        rows = list[JsonObject]()
        # Read once, since labels and issues are files of the whole run.
        issues = self._issues()
        labels = self._labels()
        for start in range(0, len(self._rows), PART):
            part = []
            for row in self._rows[start : start + PART]:
                # From the artifacts, which are redacted; the index is only used to find the lines.
                record = self.run.record_of(row)
                rows.append(self._row(row, record))
                part.append(self._detail(record, issues.get(row.position, ()), labels))
            yield _block(f"part-{start // PART}", part)
            progress(len(rows), len(self._rows))
        if rows:
            # Last, because it needs every row.
            yield _block("list", {"rows": rows, "texts": self._texts(), "orders": self._orders(), "sets": sets})
        yield f"{end}{rest}"

    def _page(self, made: Timestamp, sets: Mapping[str, Mapping[str, Sequence[int]]]) -> ReportPage:
        run = self.run
        # The page of the run is made without reading records, as on a server.
        shown = run_page(
            sketch_of(run),
            place=PLACE,
            moments=run.moments,
            files=run.artifacts(),
            problems=api.file_problems(str(run.folders.sealed)),
        )
        found = api.RecordHits(total=len(self._rows), offset=0, records=())
        records = None
        if self._facets is not None:
            # Counts of the records in the file, or a filter would promise records that it lacks.
            facets = _counted(self._facets, sets, records=len(self._rows))
            records = records_view(self.run_id, found, RecordsChoice(), facets=facets, others=(), place=PLACE)
        missing = (*shown.missing, *([self.problem] if self.problem and self.problem not in shown.missing else []))
        members = {**msgspec.structs.asdict(shown), "missing": missing}
        return ReportPage(**members, records=records, left_out=self.left_out, made=made)

    def _row(self, row: api.IndexedRecord, record: RecordDetails | InvalidRecord) -> dict[str, object]:
        if isinstance(record, RecordDetails):
            found = api.RecordHit(line=record.prediction, question=api.question_of(record.input), row=row)
        else:
            found = api.RecordHit(line=record.failure, question="", row=row)
        shows_dataset = self._facets is not None and len(self._facets.slices.get("dataset", ())) > 1
        shown = record_row(self.run_id, found, {}, place=PLACE, shows_dataset=shows_dataset)
        html = page("parts/record_row.html", shown, place=PLACE, reader=READER)
        return {"index": row.position, "name": shown.name, "score": row.raw_score, "html": html}

    def _detail(
        self, record: RecordDetails | InvalidRecord, issues: Sequence[RecordIssue], labels: Mapping[AnswerKey, Sequence[LabelView]]
    ) -> dict[str, object]:
        view = record_view(
            self.run_id, record, RecordNavigation(list_address=PLACE.records(self.run_id)), place=PLACE, issues=issues
        )
        if isinstance(record, RecordDetails):
            line = record.prediction
            view = msgspec.structs.replace(view, labels=tuple(labels.get((line.dataset, line.record_id, line.sample or 0), ())))
        return {"html": page("parts/record_alone.html", view, place=PLACE, reader=READER), "json": json_text(record, indent=2)}

    def _issues(self) -> dict[int, tuple[RecordIssue, ...]]:
        """Return what is wrong with records that broke their contract, by their index."""
        if not any(row.status == INVALID for row in self._rows):
            return {}
        return {line.index: issues for line in self.run.validations() if (issues := line.read_issues())}

    def _labels(self) -> dict[AnswerKey, list[LabelView]]:
        """Return what people say of the answers."""
        found: dict[AnswerKey, list[LabelView]] = {}
        for label in api.kept_labels(self.run):
            found.setdefault(label.answer, []).append(label_view(label))
        return found

    def _texts(self) -> list[str]:
        texts = [""] * len(self._rows)
        # By ordinal: the index has its texts in the order of the artifacts, the file has the worst first.
        for ordinal, text in enumerate(self._index.texts()):
            if ordinal in self._numbers:
                texts[self._numbers[ordinal]] = text
        return texts

    def _orders(self) -> dict[str, list[int]]:
        """Return the records of the file in each order that a list can have."""
        return {sort: self._found(RecordSearch(sort=sort)) for sort in get_args(Sort)}

    def _found(self, search: RecordSearch) -> list[int]:
        return [self._numbers[ordinal] for ordinal in self._index.ordinals(search) if ordinal in self._numbers]

    def _sets(self) -> dict[str, dict[str, list[int]]]:
        """Return for each choice of each filter the records of the file that a server would find."""
        assert self._facets is not None
        sets: dict[str, dict[str, list[int]]] = {}
        for name, value, search in _searches(self._facets):
            found = self._found(search)
            if found:
                sets.setdefault(name, {})[value] = found
        return sets


# Computed here, so that the script needs no search of its own: it only looks up lists of numbers.
def _searches(facets: api.Facets) -> Iterator[tuple[str, str, RecordSearch]]:
    """Yield every choice that the filters offer, and both words on each criterion."""
    for passed, word in ((True, "true"), (False, "false")):
        yield "passed", word, RecordSearch(passed=passed)
        yield "met", word, RecordSearch(met=passed)
        # A criterion with its result is the one combination of filters that is not an intersection.
        yield from ((f"met {word}", name, RecordSearch(criterion=name, met=passed)) for name in facets.criteria)
    yield from (("status", value, msgspec.convert({"status": value}, RecordSearch)) for value in (*facets.statuses, *STATUS_GROUPS))
    yield from (("tag", value, RecordSearch(tag=value)) for value in facets.tags)
    yield from (("criterion", value, RecordSearch(criterion=value)) for value in facets.criteria)
    yield from (("code", value, RecordSearch(code=value)) for value in facets.codes)
    for name, values in {**facets.slices, "tags": facets.tags}.items():
        yield from (("slice", f"{name}:{value}", RecordSearch(slice=f"{name}:{value}")) for value in values)
    yield "flips", "judges", RecordSearch(flips="judges")
    yield "flips", "repeats", RecordSearch(flips="repeats")


def _counted(facets: api.Facets, sets: Mapping[str, Mapping[str, Sequence[int]]], *, records: int) -> api.Facets:
    """Return the choices with the number of records that the file has of each; those without any are not offered."""

    def counts(name: str, values: Mapping[str, int], prefix: str = "") -> dict[str, int]:
        found = sets.get(name, {})
        return {value: len(found[f"{prefix}{value}"]) for value in values if f"{prefix}{value}" in found}

    def count(name: str, value: str) -> int:
        return len(sets.get(name, {}).get(value, ()))

    return msgspec.structs.replace(
        facets,
        records=records,
        statuses=counts("status", facets.statuses),
        passed=count("passed", "true"),
        not_passed=count("passed", "false"),
        codes=counts("code", facets.codes),
        tags=counts("tag", facets.tags),
        slices={name: found for name, values in facets.slices.items() if (found := counts("slice", values, f"{name}:"))},
        criteria=counts("criterion", facets.criteria),
        disagreements=count("flips", "judges"),
        splits=count("flips", "repeats"),
    )


def _badness(row: api.IndexedRecord) -> tuple[int, float, int]:
    """Return a sort key: what did not pass first, the lowest score first; then what has no grade; then what passed."""
    rank = 1 if row.passed is None else 2 if row.passed else 0
    # The ordinal makes the order of equals the one of the dataset.
    return rank, row.score or 0.0, row.ordinal


def _block(name: str, value: object) -> str:
    """Return data that a script of the file unpacks: letters and digits alone, so that no text in it is read as markup."""
    # No time in the gzip header: the same run gives the same file. Base64 has no `<`, so nothing in it can end
    # the script element.
    packed = base64.b64encode(gzip.compress(json_text(value).encode(), mtime=0)).decode()
    return _BLOCK.format(name, packed)
