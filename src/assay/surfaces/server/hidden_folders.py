"""Messages without the folders of the server: what clients are told names files, not where the server keeps them."""

import re
from pathlib import Path

_UPLOAD = re.compile(r"[^\s'\"]*\.active/[^/\s'\"]+/upload/")
"""The private folder of an upload, however the path to it is written."""
_TEMPORARY = re.compile(r"[^\s'\"]*\.server/temporary/[^/\s'\"]+/")


def without_folders(message: str, *folders: Path | None) -> str:
    """The message with paths relative to these folders, and uploads by their names alone."""
    message = _TEMPORARY.sub("", _UPLOAD.sub("", message))
    written = {str(form) for folder in folders if folder is not None for form in (folder, folder.absolute(), folder.resolve())}
    # The longest first: one folder may be inside another.
    for folder in sorted(written - {"/", "."}, key=len, reverse=True):
        # A relative folder such as `runs` is also a part of our own addresses, so that it counts only as the start of a path.
        begins = "" if folder.startswith("/") else r"(?<![\w./~-])"
        message = re.sub(f"{begins}{re.escape(folder)}/", "", message)
        message = re.sub(f"{begins}{re.escape(folder)}", Path(folder).name.replace("\\", r"\\"), message)
    return message
