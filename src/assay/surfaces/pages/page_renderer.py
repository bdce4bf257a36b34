"""Where a page is shown: behind the addresses of a server, or inside one file that opens anywhere."""

import base64
import hashlib
import re
from collections.abc import Callable, Iterable
from functools import cache
from importlib.resources import files
from typing import Any, Literal, Protocol
from urllib.parse import quote, urlencode

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from assay.core.text import printable
from assay.core.version import __version__
from assay.presentation.charts import Chart
from assay.presentation.sections import Cell
from assay.presentation.words import shown
from assay.surfaces.charts import draw
from assay.surfaces.charts.svg import STYLESHEET

STYLES = ("style.css", "charts.css", "compare.css", "validate.css", "judge.css", "records.css")
SCRIPTS = ("times.js", "tips.js", "copying.js", "forms.js", "live.js", "waiting.js", "dropping.js", "keys.js")
"""Modules that import nothing, so that a file can hold each as it is."""
EARLY = "theme.js"
"""Runs before the first paint, or a reader with a theme of their own would see the other one flash."""
FILE_STYLES = ("style.css", "charts.css", "records.css", "report.css")
FILE_SCRIPTS = ("times.js", "tips.js", "copying.js", "keys.js", "report.js")
"""What a page needs that no server stands behind."""
MEDIA_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
Format = Literal["json", "jsonl", "csv", "parquet", "xlsx"]
WIDE = 460
NARROW = 340
"""Widths in pixels that charts are drawn for: text in a picture cannot flow, so that a phone gets its own."""


class PageLinks(Protocol):
    """Leads from page to page; an empty address is a page that this place does not have."""

    @property
    def is_server(self) -> bool:
        """True where forms are answered and pages stay up to date."""

    def head(self) -> Markup:
        """Return the elements of `<head>` that bring styles and scripts."""

    def runs(self) -> str:
        """Return the list of runs."""

    def run(self, run_id: str, part: str = "") -> str:
        """Return a run, or what stands under its address."""

    def records(self, run_id: str, **query: str) -> str:
        """Return the records of a run that a query asks for."""

    def record(self, run_id: str, index: int, **query: str) -> str:
        """Return one record by its index, because no address can hold every id; the query is the list that led there."""

    def compare(self, before: str = "", after: str = "") -> str:
        """Return the comparison of two runs."""

    def group(self, name: str) -> str:
        """Return the runs of a group side by side."""

    def artifact(self, run_id: str, name: str) -> str:
        """Return a file of a run."""

    def export(self, run_id: str, kind: Format) -> str:
        """Return the records of a run as a table."""


class ServerLinks:
    """Pages of `assay serve`."""

    is_server = True

    def head(self) -> Markup:
        """Return links to what `/static` serves; their addresses change with their contents, so that they may be kept."""
        # A hash of the contents in the address lets browsers keep a file for ever and still get a new version at
        # once.
        # Not a module: modules run after the first paint.
        early = Markup('<script src="{}"></script>').format(self.static(EARLY))
        styles = [Markup('<link rel="stylesheet" href="{}">').format(self.static(name)) for name in STYLES]
        scripts = [Markup('<script type="module" src="{}"></script>').format(self.static(name)) for name in SCRIPTS]
        icon = Markup('<link rel="icon" type="image/svg+xml" href="{}">').format(self.static("icon.svg"))
        return Markup("\n").join([early, *styles, *scripts, icon])

    def static(self, name: str) -> str:
        """Return a style, script or picture of ours."""
        return f"/static/{name}?v={hashlib.sha256(static(name).encode()).hexdigest()[:12]}"

    def runs(self) -> str:
        """Return the list of runs."""
        return "/runs"

    def run(self, run_id: str, part: str = "") -> str:
        """Return a run, or what stands under its address."""
        # Ids are chosen by clients; `safe=''` keeps a slash in one from becoming another address.
        return f"/runs/{quote(run_id, safe='')}{'/' if part else ''}{part}"

    def records(self, run_id: str, **query: str) -> str:
        """Return the records of a run that a query asks for."""
        return self.run(run_id, "records") + (f"?{urlencode(query)}" if query else "")

    def record(self, run_id: str, index: int, **query: str) -> str:
        """Return one record by its index."""
        return self.run(run_id, f"records/{index}") + (f"?{urlencode(query)}" if query else "")

    def compare(self, before: str = "", after: str = "") -> str:
        """Return the comparison of two runs."""
        named = {name: run_id for name, run_id in (("before", before), ("after", after)) if run_id}
        return "/compare" + (f"?{urlencode(named)}" if named else "")

    def group(self, name: str) -> str:
        """Return the runs of a group side by side."""
        return f"/groups/{quote(name, safe='')}"

    def labels(self, run_id: str, index: int, **query: str) -> str:
        """Return where a label of a record is sent."""
        return self.run(run_id, f"records/{index}/labels") + (f"?{urlencode(query)}" if query else "")

    def artifact(self, run_id: str, name: str) -> str:
        """Return a file of a run."""
        return f"/v1/runs/{quote(run_id, safe='')}/artifacts/{quote(name, safe='')}"

    def export(self, run_id: str, kind: Format) -> str:
        """Return the records of a run as a table."""
        return f"/v1/runs/{quote(run_id, safe='')}/export?format={kind}"


class FileLinks:
    """Pages in one file: everything is in it, and it leads nowhere else."""

    is_server = False

    def head(self) -> Markup:
        """Return styles and scripts inline, with a policy that allows these and no request to any server."""
        # The policy allows exactly these texts by their hashes. Should markup from a run ever get into the file,
        # it could neither run nor send anything.
        styles = [f"\n{static(name)}" for name in FILE_STYLES]
        early, *scripts = (f"\n{static(name)}" for name in (EARLY, *FILE_SCRIPTS))
        policy = (
            # default-src 'none' also forbids pictures and fonts: opening a report tells no server that it was
            # opened.
            f"default-src 'none'; script-src {_hashes([early, *scripts])}; style-src {_hashes(styles)}; base-uri 'none'; "
            "form-action 'none'"
        )
        elements = [
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            f"<script>{early}</script>",
            *(f"<style>{style}</style>" for style in styles),
            *(f'<script type="module">{script}</script>' for script in scripts),
        ]
        return Markup("\n".join(elements))  # noqa: S704  # files of this package: no text from outside is among them

    def runs(self) -> str:
        """Return no address: a file has no list of runs."""
        return ""

    def run(self, run_id: str, part: str = "") -> str:  # noqa: ARG002  # a file shows one run
        # Files are sent around without a server, so links lead to anchors or are left out.
        """Return the top of the file; nothing stands under it."""
        return "" if part else "#top"

    def records(self, run_id: str, **query: str) -> str:  # noqa: ARG002  # a file shows one run
        """Return the list of records in the file, which its script filters."""
        return "#records" + (f"?{urlencode(query)}" if query else "")

    def record(self, run_id: str, index: int, **query: str) -> str:  # noqa: ARG002  # a file shows one run
        """Return where the record is in the file."""
        return f"#record-{index}"

    def compare(self, before: str = "", after: str = "") -> str:  # noqa: ARG002  # there is nothing to choose from
        """Return no address: a file has one run only."""
        return ""

    def group(self, name: str) -> str:  # noqa: ARG002  # there is nothing to lead to
        """Lead nowhere: a file shows one run or one group."""
        return ""

    def artifact(self, run_id: str, name: str) -> str:  # noqa: ARG002  # the file travels without them
        """Return no address: the artifacts are not in the file."""
        return ""

    def export(self, run_id: str, kind: Format) -> str:  # noqa: ARG002  # no server would answer
        """Return no address: there is no server to ask for an export."""
        return ""


def _hashes(texts: Iterable[str]) -> str:
    """Return sources of a content policy that allow these texts."""
    found = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in texts)
    return " ".join(f"'sha256-{digest}'" for digest in found)


STATIC_NAMES = frozenset({*STYLES, *SCRIPTS, EARLY, "icon.svg"})
"""What `/static` serves: these and nothing else."""


@cache
# Cached for the life of the process: the files belong to the installed package.
def static(name: str) -> str:
    """Return the text of a style, script or picture of ours."""
    if name == "charts.css":
        return STYLESHEET
    return files("assay.surfaces.pages").joinpath("static", name).read_text(encoding="utf-8")


_KEPT = re.compile("[\t\n]")
_UNBROKEN = re.compile("([!-~]{1000,})")
"""So much text without a blank that finding where its lines could end would keep a browser busy: 30 s for a megabyte."""
_STEP = 100
"""Characters after which such a text may end a line."""
_BREAK = Markup("<wbr>")
_REDACTED = re.compile(r"\[REDACTED:([A-Za-z0-9_.-]{1,64})\]")
_REDACTION = Markup('<mark class="redacted" title="This was removed before the run was written.">redacted: {}</mark>')
_OWN_SHEET = f"<style>{STYLESHEET}</style>\n"


class PageViewer(msgspec.Struct, frozen=True, kw_only=True):
    """Reader of a page."""

    name: str = ""
    """Name of their key; empty where none is needed."""
    may_write: bool = False
    """True when they may start, stop and label."""
    is_signed_in: bool = False
    """True when they came by a form and can sign out again."""


def page(template: str, view: msgspec.Struct, *, place: PageLinks, reader: PageViewer) -> str:
    """Render a whole page, or a part of one."""
    return environment().get_template(template).render(view=view, place=place, reader=reader, version=__version__)


@cache
# One environment for all pages, since compiling the templates takes longer than rendering a page.
def environment() -> Environment:
    """Return the templates of this package and how they are read."""
    found = Environment(
        loader=PackageLoader("assay.surfaces.pages"),
        # Always on: a template that forgets to escape is the one mistake that must not be possible.
        autoescape=True,
        # A misspelt member is an error in a test and not an empty place on a page.
        undefined=StrictUndefined,
        # Runs over every value that a template prints, so that no text reaches a page uncleaned.
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
        # Templates are part of the package and do not change while it runs.
        auto_reload=False,
    )
    found.filters["svg"] = _svg
    found.filters["card_svg"] = _whole_svg
    found.filters["escaped"] = escaped
    found.filters["known"] = shown
    found.filters["titled"] = titled
    return found


def titled(text: str) -> str:
    """Return a label or the head of a column as pages begin it; symbols such as `n`, `p (Holm)` and `p50` stay as they are."""
    first = text.split(" ", 1)[0]
    is_symbol = len(first) == 1 or any(sign.isdigit() for sign in first)
    return text if is_symbol else f"{text[:1].upper()}{text[1:]}"


def _shown(value: object) -> Any:
    """Return text without control characters and reordering: it must not show something else than it says."""
    # Printable text, which is nearly all of it, is returned without a copy. Markup was cleaned before it became
    # markup.
    if not isinstance(value, str) or isinstance(value, Markup) or value.isprintable():
        return value
    # Tabs and line feeds structure prompts; everything else that is not printable is replaced.
    return "".join(piece if _KEPT.match(piece) else printable(piece) for piece in re.split("([\t\n])", value))


def escaped(text: str) -> Markup:
    """Return a text, escaped; redactions are marked, so that readers do not take them for words of the text."""
    # Every second piece is the name of a rule, as `split` returns groups between the texts.
    pieces = _REDACTED.split(text)
    return Markup("").join(
        _REDACTION.format(piece) if number % 2 else _breakable(_shown(piece)) for number, piece in enumerate(pieces)
    )


def _breakable(text: str) -> Markup:
    """Return a text, escaped, with places where a line may end in what has no blanks; they are not part of what is copied."""
    return Markup("").join(_stepped(piece) if number % 2 else escape(piece) for number, piece in enumerate(_UNBROKEN.split(text)))


def _stepped(text: str) -> Markup:
    return _BREAK.join(escape(text[start : start + _STEP]) for start in range(0, len(text), _STEP))


def _svg(chart: str) -> Markup:
    """Return a chart as part of a page, without its style sheet: the page's policy allows only the styles that it serves."""
    # Only the first occurrence, which is at the beginning: a label of the chart might contain the same text.
    return _whole_svg(chart.replace(_OWN_SHEET, "", 1))


def _whole_svg(chart: str) -> Markup:
    """Return a chart with its own style sheet, for a place that has none of ours."""
    # The filter marks text as safe, so it refuses text that our own drawing did not begin.
    if not chart.startswith('<svg xmlns="http://www.w3.org/2000/svg" class="assay-chart"'):
        raise ValueError("only charts of ours are markup")
    return Markup(chart)  # noqa: S704  # every text in it is escaped by charts/svg.py


TITLES = {
    400: "Invalid request",
    401: "Sign in",
    403: "Not allowed",
    404: "Not found",
    405: "Not in this way",
    409: "It clashes with what is there",
    413: "Too large",
    429: "Too many requests",
    500: "Something went wrong",
    503: "Temporarily unavailable",
}


class ProblemView(msgspec.Struct, frozen=True, kw_only=True):
    """An error for people."""

    status: int
    title: str
    message: str
    hint: str
    request_id: str
    is_sign_in: bool = False
    next: str = ""
    """Where the reader wanted to go."""


def problem_view(status: int, message: str, *, request_id: str, hint: str = "", next_page: str = "") -> ProblemView:
    """Return the page of an error; of a missing key it is the form that asks for one."""
    return ProblemView(
        status=status,
        # Codes without words of their own get those of their class.
        title=TITLES.get(status, TITLES[500] if status >= 500 else TITLES[400]),
        message=_sentence(message),
        hint=_sentence(hint),
        request_id=request_id,
        # A missing key is answered with the form to sign in, not with a dead end.
        is_sign_in=status == 401,
        next=next_page,
    )


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if not text or text.endswith((".", "?", "!")) else ".")


class ChartPair(msgspec.Struct, frozen=True, kw_only=True):
    """A chart in two widths."""

    title: str
    wide: str
    narrow: str


def text_cell(text: str, says: str = "", *, address: str = "", is_code: bool = False) -> Cell:
    """Return a cell that holds a text."""
    return Cell(text, says, link=address, is_code=is_code)


def drawing(title: str, draw_width: Callable[[int], str]) -> ChartPair:
    """Return a chart drawn for both widths."""
    return ChartPair(title=title, wide=draw_width(WIDE), narrow=draw_width(NARROW))


def chart_pair(chart: Chart) -> ChartPair:
    """Return a chart of a section, drawn for both widths."""
    return drawing(chart.heading, lambda width: draw(chart, width=width))
