"""Views into HTML: everything is text and escaped, but for the charts that we draw ourselves."""

import re
from functools import cache
from typing import Any

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from assay.core.version import __version__
from assay.presentation.words import shown
from assay.surfaces.charts.svg import STYLESHEET
from assay.surfaces.pages.links import PageLinks
from assay.surfaces.printable import printable

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
    """Who looks at a page."""

    name: str = ""
    """The name of their key; empty where none is needed."""
    may_write: bool = False
    """True when they may start, stop and label."""
    is_signed_in: bool = False
    """True when they came by a form and can sign out again."""


def page(template: str, view: msgspec.Struct, *, place: PageLinks, reader: PageViewer) -> str:
    """A whole page, or a part of one: what the template makes of a view."""
    return environment().get_template(template).render(view=view, place=place, reader=reader, version=__version__)


@cache
def environment() -> Environment:
    """The templates of this package and how they are read."""
    found = Environment(
        loader=PackageLoader("assay.surfaces.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    found.filters["svg"] = _svg
    found.filters["card_svg"] = _whole_svg
    found.filters["told"] = told
    found.filters["known"] = shown
    found.filters["titled"] = titled
    return found


def titled(text: str) -> str:
    """A label or the head of a column as pages begin it; symbols such as `n`, `p (Holm)` and `p50` stay as they are."""
    first = text.split(" ", 1)[0]
    is_symbol = len(first) == 1 or any(sign.isdigit() for sign in first)
    return text if is_symbol else f"{text[:1].upper()}{text[1:]}"


def _shown(value: Any) -> Any:
    """Text without control characters and reordering: it must not show something else than it says."""
    if not isinstance(value, str) or isinstance(value, Markup) or value.isprintable():
        return value
    return "".join(piece if _KEPT.match(piece) else printable(piece) for piece in re.split("([\t\n])", value))


def told(text: str) -> Markup:
    """A text of anybody, escaped; what was redacted before it was kept is marked, so that nobody takes the mark for a word."""
    pieces = _REDACTED.split(text)
    return Markup("").join(
        _REDACTION.format(piece) if number % 2 else _breakable(_shown(piece)) for number, piece in enumerate(pieces)
    )


def _breakable(text: str) -> Markup:
    """A text, escaped, with places where a line may end in what has no blanks; they are no part of what is copied."""
    return Markup("").join(_stepped(piece) if number % 2 else escape(piece) for number, piece in enumerate(_UNBROKEN.split(text)))


def _stepped(text: str) -> Markup:
    return _BREAK.join(escape(text[start : start + _STEP]) for start in range(0, len(text), _STEP))


def _svg(chart: str) -> Markup:
    """A chart of surfaces/charts as part of a page, whose style sheet it shares: a page allows no styles but those it serves."""
    return _whole_svg(chart.replace(_OWN_SHEET, "", 1))


def _whole_svg(chart: str) -> Markup:
    """A chart of surfaces/charts with its own style sheet, for a place that has none of ours."""
    if not chart.startswith('<svg xmlns="http://www.w3.org/2000/svg" class="assay-chart"'):
        raise ValueError("only charts of ours are markup")
    return Markup(chart)  # noqa: S704  # every text in it is escaped by charts/svg.py
