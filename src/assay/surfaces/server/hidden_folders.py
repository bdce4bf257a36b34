"""Messages without the server's folders: clients see names of files, not where the server stores them."""

import re
from pathlib import Path

_UPLOAD = re.compile(r"[^\s'\"]*\.active/[^/\s'\"]+/upload/")
"""Matches the private folder of an upload, in any spelling of the path."""
_TEMPORARY = re.compile(r"[^\s'\"]*\.server/temporary/[^/\s'\"]+/")


def without_folders(message: str, *folders: Path | None) -> str:
    """Shorten paths in these folders to relative ones, and uploads to their names."""
    message = _TEMPORARY.sub("", _UPLOAD.sub("", message))
    written = {str(form) for folder in folders if folder is not None for form in (folder, folder.absolute(), folder.resolve())}
    # The longest first: one folder may be inside another.
    for folder in sorted(written - {"/", "."}, key=len, reverse=True):
        # A relative folder such as `runs` is also part of our own URLs, so it counts only at the start of a path.
        begins = "" if folder.startswith("/") else r"(?<![\w./~-])"
        message = re.sub(f"{begins}{re.escape(folder)}/", "", message)
        message = re.sub(f"{begins}{re.escape(folder)}", Path(folder).name.replace("\\", r"\\"), message)
    return message
