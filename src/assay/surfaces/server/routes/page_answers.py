"""What every page shares: who looks at it, what its address asks for, and how it is answered."""

from typing import TypeVar

import msgspec
from litestar import Response

from assay.surfaces.pages.places import ServerPlace
from assay.surfaces.pages.rendering import Reader, page
from assay.surfaces.server.errors import PAGE_HEADERS, Refusal
from assay.surfaces.server.queries import AnyRequest, why_unusable
from assay.surfaces.server.server import Answer, caller_of

PLACE = ServerPlace()
T = TypeVar("T", bound=msgspec.Struct)


def reader_of(request: AnyRequest) -> Reader:
    """Who looks at a page."""
    caller = caller_of(request)
    return Reader(name=caller.name, may_write=caller.may("write"), is_signed_in=caller.is_signed_in)


def paged(request: AnyRequest, template: str, view: msgspec.Struct, *, status: int = 200) -> Answer:
    """A page as an answer."""
    text = page(template, view, place=PLACE, reader=reader_of(request))
    return Response(text.encode(), status_code=status, headers=PAGE_HEADERS)


def read_choice(request: AnyRequest, kind: type[T]) -> T:
    """The query of a page; forms send fields that nobody filled in, which are none. Raises Refusal."""
    filled = [(name, value) for name, value in request.query_params.multi_items() if value.strip()]
    given = dict(filled)
    if len(given) < len(filled):
        raise Refusal(400, "the address says something twice")
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as problem:
        reason = why_unusable(kind, given, problem)
        raise Refusal(400, f"the address asks for something that cannot be: {reason}") from problem
