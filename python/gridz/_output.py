"""Output files that get their name only when they are complete; until then the old file remains.

On Linux the new file has no name while it is written (`O_TMPFILE`), so a killed process leaves
nothing. On file systems without that (NFS, some FUSE ones), a hidden file in the same folder is
used, `.NAME.XXXXXXXX`, which a killed process leaves behind.
"""

from __future__ import annotations

import contextlib
import errno
import os
import pathlib
import re
import secrets
import stat
from typing import Iterator, NoReturn, Optional, Tuple

from gridz.errors import HostError

FULL = 64 << 10
"""If fewer bytes than this are free, a failed write is attributed to the lack of space; HDF5 does
not pass on the system's reason."""

KINDS = {stat.S_IFIFO: "a FIFO", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device",
         stat.S_IFDIR: "a folder"}  # fmt: skip
"""Outputs that are refused, by their type in `st_mode`."""


@contextlib.contextmanager
def replacing(path) -> Iterator[Tuple[int, str]]:
    """Yields a file descriptor, open for reading and writing, and a path by which it can be opened
    again.

    When the block ends, the file is flushed to the disk and replaces `path` (symbolic links are
    followed), and the folder is flushed. If the block raises, `path` is unchanged. Before the block
    begins, the new file gets the owner, group, mode, ACL and extended attributes of the replaced
    file. Raises OSError: before the block begins, if `path` is not a regular file, cannot be
    written, or has attributes that cannot be preserved; after the block, if the file at `path` was
    changed meanwhile.
    """
    old = _replaced(path)
    place = pathlib.Path(os.path.realpath(path))
    # A truncated name leaves room for the rest: a name has at most 255 bytes.
    hidden = place.with_name(f".{place.name[:50]}.{secrets.token_hex(4)}")
    descriptor, name = _create(place, hidden, 0o600 if old else 0o666)
    try:
        if old:
            _take_attributes(descriptor, place, old)
        try:
            yield descriptor, f"/proc/self/fd/{descriptor}" if name is None else str(hidden)
        except (OSError, HostError) as error:
            device = os.fstatvfs(descriptor)
            if device.f_bavail * device.f_frsize < FULL:
                text = "no space is left on the output's device; free some space, or write to another device"
                raise OSError(errno.ENOSPC, text, str(place)) from error
            raise
        _check_is_unchanged(place, old)
        os.fsync(descriptor)
        if name is None:
            # Python follows the link only if it gets a folder descriptor, which is unused for the
            # absolute path.
            to = hidden if old else place
            os.link(f"/proc/self/fd/{descriptor}", to, src_dir_fd=descriptor, follow_symlinks=True)
            name = hidden if old else None
        if name is not None:
            os.replace(hidden, place)
            name = None
        _flush_folder(place.parent)
    finally:
        os.close(descriptor)
        if name is not None:
            os.unlink(name)


def _refuse(number: int, reason: str, path) -> NoReturn:
    raise OSError(number, reason, os.fspath(path))


def _replaced(path) -> Optional[os.stat_result]:
    """The metadata of the file that will be replaced; None if there is none. Refuses files that
    must not be replaced."""
    if _names_descriptor(path):
        _refuse(errno.EINVAL, "this is an open file descriptor, which cannot be replaced; give the name of a file", path)
    try:
        old = os.stat(path)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(old.st_mode):
        kind = KINDS.get(stat.S_IFMT(old.st_mode), "no regular file")
        _refuse(errno.EINVAL, f"this is {kind}, which gridz does not replace; name a regular file", path)
    try:  # covers permissions, read-only file systems, immutable and append-only files
        os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC))
    except OSError as error:
        _refuse(error.errno, f"the file cannot be written ({error.strerror}), so it is not replaced", path)
    return old


def _names_descriptor(path) -> bool:
    """True if a path leads, also by symbolic links, to an open descriptor: /dev/stdout, /dev/fd/N,
    /proc/PID/fd/N."""
    path = os.path.abspath(path)
    for _ in range(40):  # Linux follows at most 40 links
        folder = os.path.realpath(os.path.dirname(path))
        if re.fullmatch(r"/proc/.+/fd|/dev/fd", folder):
            return True
        if not os.path.islink(path):
            return False
        path = os.path.join(folder, os.readlink(path))
    return False


def _create(place: pathlib.Path, hidden: pathlib.Path, mode: int) -> Tuple[int, Optional[pathlib.Path]]:
    """Creates the new file; returns its descriptor, and its name, None if it has none yet."""
    try:
        return os.open(place.parent, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, mode), None
    except OSError:
        pass
    try:
        return os.open(hidden, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, mode), hidden
    except OSError as error:
        _refuse(error.errno, f"no file can be created in its folder ({error.strerror})", place)


def _take_attributes(descriptor: int, place: pathlib.Path, old: os.stat_result) -> None:
    """Gives the new file the owner, group, extended attributes (including ACLs) and mode of the old
    one, or refuses.

    The mode is set last: until then only the owner has access.
    """
    what = f"owner {old.st_uid} and group {old.st_gid}"
    try:
        new = os.fstat(descriptor)
        if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
            os.fchown(descriptor, old.st_uid, old.st_gid)
        kept, found = _attributes_of(place), _attributes_of(descriptor)
        for what in found.keys() - kept.keys():  # an ACL inherited from the folder's default
            if not what.startswith("security."):
                os.removexattr(descriptor, what)
        for what in (name for name in kept if kept[name] != found.get(name)):
            try:
                os.setxattr(descriptor, what, kept[what])
            except OSError:
                if not what.startswith("security."):  # security labels are set by the system
                    raise
        what = f"mode {stat.S_IMODE(old.st_mode):o}"
        os.fchmod(descriptor, stat.S_IMODE(old.st_mode))
    except OSError as error:
        text = f"its {what} cannot be kept ({error.strerror}); write to another file, or run as the owner of this file"
        _refuse(error.errno, text, place)


def _attributes_of(file) -> dict:
    try:
        return {name: os.getxattr(file, name) for name in os.listxattr(file)}
    except OSError as error:
        if error.errno == errno.ENOTSUP:
            return {}
        raise


def _check_is_unchanged(place: pathlib.Path, old: Optional[os.stat_result]) -> None:
    """Refuses to replace a file that another process has changed or protected meanwhile."""
    try:
        now = os.stat(place)
    except FileNotFoundError:
        now = None
    if _version(now) != _version(old):
        _refuse(errno.EEXIST, "another program has changed the file meanwhile, so it is not replaced; try again", place)


def _version(file: Optional[os.stat_result]):
    return file and (file.st_dev, file.st_ino, file.st_size, file.st_mtime_ns, file.st_ctime_ns)


def _flush_folder(folder: pathlib.Path) -> None:
    """Flushes the new name to the disk, if the file system supports that."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)
