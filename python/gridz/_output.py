"""A file that gets its name when all of it is written: before, the old one is there, and no other.

On Linux the new file has no name while it is written (`O_TMPFILE`), so a process that is killed leaves nothing behind. File
systems without that (NFS, some FUSE ones) get a hidden file beside, `.NAME.XXXXXXXX`, which a killed process does leave.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import secrets
from typing import Iterator, Tuple


@contextlib.contextmanager
def replacing(path: pathlib.Path) -> Iterator[Tuple[int, str]]:
    """A file descriptor, open for reading and writing, and a path by which it can be opened again.

    When the block ends, the file is flushed to the disk and takes the place of `path`, whose mode (and, where that is
    allowed, owner) it keeps; a link is followed. When the block raises, the file is gone and `path` is as it was.
    """
    path = pathlib.Path(os.path.realpath(path))
    hidden = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        descriptor, name = os.open(path.parent, os.O_TMPFILE | os.O_RDWR, 0o666), None
    except OSError:
        descriptor, name = os.open(hidden, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o666), hidden
    try:
        yield descriptor, f"/proc/self/fd/{descriptor}" if name is None else str(hidden)
        if path.exists():
            _take_after(descriptor, path.stat())
        os.fsync(descriptor)
        if name is None:
            # Only with a folder's descriptor, which the absolute path does not need, does Python follow the link.
            os.link(f"/proc/self/fd/{descriptor}", hidden, src_dir_fd=descriptor, follow_symlinks=True)
            name = hidden
        os.replace(hidden, path)
        name = None
    finally:
        os.close(descriptor)
        if name is not None:
            os.unlink(name)


def _take_after(descriptor: int, old: os.stat_result) -> None:
    """Gives the new file the old one's owner, if that is allowed, and mode."""
    with contextlib.suppress(PermissionError):
        os.fchown(descriptor, old.st_uid, old.st_gid)
    os.fchmod(descriptor, old.st_mode & 0o7777)
