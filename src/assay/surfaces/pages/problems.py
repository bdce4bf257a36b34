"""What went wrong as a page, and the form that asks for a key."""

import msgspec

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
    """The page of an error; of a missing key it is the form that asks for one."""
    return ProblemView(
        status=status,
        title=TITLES.get(status, TITLES[500] if status >= 500 else TITLES[400]),
        message=_sentence(message),
        hint=_sentence(hint),
        request_id=request_id,
        is_sign_in=status == 401,
        next=next_page,
    )


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if not text or text.endswith((".", "?", "!")) else ".")
