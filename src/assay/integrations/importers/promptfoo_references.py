"""References in configs of promptfoo: `$ref` replaced by what it points at, in the config itself or in a file next to it."""

from pathlib import Path
from urllib.parse import unquote

from assay.integrations.importers.promptfoo_files import FILE, ConfigFiles, FileUnread

MAX_DEPTH = 60
MAX_NODES = 500_000
"""Values that references may add up to: each copy counts."""
_REFERENCE = "$ref"


class ReferenceResolver:
    """Replaces references; those that cannot be followed stay, and are counted."""

    def __init__(self, document: object, files: ConfigFiles) -> None:
        self._documents: dict[Path | None, object] = {None: document}
        self._files = files
        self._room = MAX_NODES

    def resolve(self, value: object) -> object:
        """Return a value with all references replaced."""
        return self._resolved(value, (), place=None)

    def _resolved(self, value: object, chain: tuple[str, ...], *, place: Path | None, depth: int = 0) -> object:
        self._room -= 1
        if self._room < 0 or depth > MAX_DEPTH:
            return value
        if isinstance(value, list):
            return [self._resolved(one, chain, place=place, depth=depth + 1) for one in value]
        if not isinstance(value, dict):
            return value
        reference = value.get(_REFERENCE)
        if not isinstance(reference, str):
            return {name: self._resolved(one, chain, place=place, depth=depth + 1) for name, one in value.items()}
        try:
            target, found = self._target(reference, chain, place)
        except FileUnread as problem:
            self._files.leave_out(problem)
            return value
        replaced = self._resolved(target, (*chain, f"{place}{reference}"), place=found, depth=depth + 1)
        # Members next to a reference are added to what it points at, and count more.
        own = {name: self._resolved(one, chain, place=place, depth=depth + 1) for name, one in value.items() if name != _REFERENCE}
        return {**replaced, **own} if isinstance(replaced, dict) else replaced

    def _target(self, reference: str, chain: tuple[str, ...], place: Path | None) -> tuple[object, Path | None]:
        """Return what a reference points at, and the document that it is in; raises FileUnread."""
        if f"{place}{reference}" in chain:
            raise FileUnread("$ref that leads to itself", f"the reference '{reference}' leads to itself")
        name, _, pointer = reference.removeprefix(FILE).partition("#")
        if "://" in name:
            raise FileUnread("$ref to another host", f"the reference '{reference}' leads to another host, which is not asked")
        if name:
            [path, *_] = self._files.found(name, folder=place.parent if place else None)
            if path not in self._documents:
                self._documents[path] = self._files.data(path)
            place = path
        value = self._documents[place]
        for part in filter(None, pointer.split("/")):
            key = unquote(part).replace("~1", "/").replace("~0", "~")
            if isinstance(value, dict) and key in value:
                value = value[key]
            elif isinstance(value, list) and key.isascii() and key.isdigit() and int(key) < len(value):
                value = value[int(key)]
            else:
                raise FileUnread("$ref that leads nowhere", f"the reference '{reference}' leads nowhere")
        return value, place
