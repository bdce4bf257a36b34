"""File handles: a run that would run out of them is refused before any call."""

import resource

from assay.core.errors import StoreUnavailable

OWN_HANDLES = 32
"""Open files of a run besides its connections: the ledger, the artifacts, the event loop."""


def make_room_for_handles(files: int) -> None:
    """Raise the soft limit of open files to what a run needs; raises StoreUnavailable when the hard limit is lower."""
    needed = OWN_HANDLES + files
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise StoreUnavailable(
            f"this process may open {hard} files, and the run needs about {needed}",
            remedy=f"raise the limit of open files (ulimit -n {needed}), lower --concurrency or have fewer files",
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
