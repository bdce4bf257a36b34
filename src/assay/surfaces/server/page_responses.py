"""What every page shares: who looks at it, what its address asks for, and how it is answered."""

from typing import TypeVar

import msgspec
from litestar import Response

from assay.surfaces.pages.page_renderer import PageViewer, ServerLinks, page
from assay.surfaces.server.errors import PAGE_HEADERS, HttpError
from assay.surfaces.server.queries import AnyRequest, why_unusable
from assay.surfaces.server.server import Answer, caller_of

PLACE = ServerLinks()
T = TypeVar("T", bound=msgspec.Struct)


def reader_of(request: AnyRequest) -> PageViewer:
    """Who looks at a page."""
    caller = caller_of(request)
    return PageViewer(name=caller.name, may_write=caller.may("write"), is_signed_in=caller.is_signed_in)


def paged(request: AnyRequest, template: str, view: msgspec.Struct, *, status: int = 200) -> Answer:
    """A page as an answer."""
    text = page(template, view, place=PLACE, reader=reader_of(request))
    return Response(text.encode(), status_code=status, headers=PAGE_HEADERS)


def read_choice(request: AnyRequest, kind: type[T]) -> T:
    """Decode the query of a page; forms send empty fields, which are None. Raises HttpError."""
    filled = [(name, value) for name, value in request.query_params.multi_items() if value.strip()]
    given = dict(filled)
    if len(given) < len(filled):
        raise HttpError(400, "invalid address: a parameter is given twice")
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as problem:
        reason = why_unusable(kind, given, problem)
        raise HttpError(400, f"invalid address: {reason}") from problem
