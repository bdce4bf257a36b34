"""Models that a caller may name: those in the operator's list, and those of the operator's run file."""

from fnmatch import fnmatchcase

import msgspec

from assay import api
from assay.surfaces.server.errors import HttpError
from assay.surfaces.server.keys import Caller
from assay.surfaces.server.settings import ServerSettings

ANY = ("*",)
MAX_NAMED = 20
"""Maximum models listed in a message; `details` has all of them."""


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """The candidates or the judges that a caller may name."""

    setting: str
    """The setting with the operator's list."""
    patterns: tuple[str, ...]
    """The operator's entries; `*` stands for any part of a name."""
    in_run_file: tuple[str, ...] = ()
    default: tuple[str, ...] = ()
    """Defaults for a request that names none."""

    @property
    def names(self) -> tuple[str, ...]:
        """Describe all entries, as the operator wrote them."""
        return tuple(dict.fromkeys((*self.patterns, *self.in_run_file)))

    def check(self, name: str, *, is_file: bool) -> None:
        """Raise Refusal for a model that is not listed; one that is a file or a function must be listed by its whole name."""
        is_listed = name in self.patterns if is_file else any(fnmatchcase(name, pattern) for pattern in self.patterns)
        if is_listed or name in self.in_run_file:
            return
        if is_file and any(fnmatchcase(name, pattern) for pattern in self.patterns):
            message = f"the model '{name[:200]}' is a file or a function of the server, which no pattern such as * allows"
            hint = f"the operator can offer it by listing its whole name under `{self.setting}` in the settings of the server"
            raise HttpError(403, message, details={"offered": list(self.names), "hint": hint})
        shown = ", ".join(self.names[:MAX_NAMED]) + (" …" if len(self.names) > MAX_NAMED else "")
        allowed = f"allowed are: {shown}" if self.names else "no model is allowed yet"
        hint = (
            f"the operator allows a model by listing it under `{self.setting}` in the settings of the server (assay serve --config)"
        )
        message = f"the model '{name[:200]}' is not offered here; {allowed}"
        raise HttpError(403, message, details={"offered": list(self.names), "hint": hint})


class Offers(msgspec.Struct, frozen=True):
    """The models that one caller may name."""

    candidates: Offer
    judges: Offer


def offers_to(caller: Caller, settings: ServerSettings) -> Offers:
    """Return what a caller may name; without a list, an admin key may name any model and other keys those of the run file."""
    found = api.run_file_models(settings.run_file) if settings.run_file else api.NamedModels()
    unlisted = ANY if caller.sees_all else ()
    return Offers(
        Offer(
            setting="models",
            patterns=unlisted if settings.models is None else settings.models,
            in_run_file=found.candidate_ids,
            default=found.candidates,
        ),
        Offer(
            setting="judges",
            patterns=unlisted if settings.judges is None else settings.judges,
            in_run_file=found.judge_ids,
            default=found.judges,
        ),
    )


def refuse_unoffered(
    caller: Caller, settings: ServerSettings, *, candidates: tuple[str, ...] = (), judges: tuple[str, ...] = ()
) -> None:
    """Raise Refusal for a model that the caller may not name."""
    if not candidates and not judges:
        return
    for name in (*candidates, *judges):
        if not name.isprintable():
            hint = "send provider/model without line feeds and control characters"
            raise HttpError(400, f"{name[:200]!r} is not a model name", details={"hint": hint})
    offers, files = offers_to(caller, settings), api.file_models((*candidates, *judges), settings.run_file)
    for offer, names in ((offers.candidates, candidates), (offers.judges, judges)):
        for name in names:
            offer.check(name, is_file=name in files)
