"""Files that gridz writes: when they are replaced or refused, and the metadata that a replaced file
passes on."""

import os
import signal
import socket
import stat
import struct
import subprocess
import sys

import gridz
import h5py
import numpy as np
import pytest
from click.testing import CliRunner
from gridz._output import replacing
from gridz.cli import main

from skips import skip

X = np.arange(50_000.0)
ACCESS = "system.posix_acl_access"


@pytest.fixture(params=["O_TMPFILE", "a hidden file"])
def way(request, monkeypatch):
    """Both ways to create the new file; the function counts how often the test used the second
    one."""
    opened, hidden = os.open, []

    def refusing(path, flags, *args, **kwargs):
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(95, "Operation not supported")
        hidden.append(str(path))
        return opened(path, flags, *args, **kwargs)

    if request.param != "O_TMPFILE":
        monkeypatch.setattr(os, "open", refusing)
    yield request.param
    made = [path for path in hidden if "/." in path]
    assert bool(made) == (request.param != "O_TMPFILE")


def make(path):
    with h5py.File(path, "w") as file:
        file["x"] = X
    return path


def reads(path):
    with h5py.File(path) as file:
        return (file["x"][...] == X).all()


def commands(folder):
    """Every call that writes a file, by its name; each takes the output path."""
    source, npy, frame = make(folder / "a.h5"), folder / "a.npy", folder / "a.npy.gridz"
    np.save(npy, X)
    frame.write_bytes(gridz.compress(X))
    command = lambda *args: CliRunner().invoke(main, [str(arg) for arg in args], catch_exceptions=False).exit_code
    python = lambda function, *args: lambda path: _code(function, *args, path)
    return {
        "repack": lambda path: command("repack", source, path, "--force"),
        "compress": lambda path: command("compress", npy, "-o", path, "--force"),
        "decompress": lambda path: command("decompress", frame, "-o", path, "--force"),
        "bench": lambda path: command("bench", npy, "--codec", "lorenzo", "--repeats", 1, "--png", path),
        "gridz.repack": python(gridz.repack, source),
        "gridz.plot": python(lambda path: gridz.plot(X.reshape(200, 250), "quant,abs=1", path=path)),
        "gridz.plot_rate": python(lambda path: gridz.plot_rate(X, ["quant"], [1e-2], path=path)),
    }


def _code(function, *args):
    try:
        function(*args)
    except OSError:
        return 3
    return 0


def test_special_files_are_refused_and_stay(tmp_path, monkeypatch):
    special = {"fifo": os.mkfifo, "socket": lambda path: socket.socket(socket.AF_UNIX).bind(str(path))}
    special["device"] = lambda path: os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 3))
    monkeypatch.chdir(tmp_path)  # a socket's path is short
    refused = 0
    for kind, mk in special.items():
        try:
            mk(kind)
        except PermissionError:
            continue  # a device needs root
        os.symlink(kind, f"link to {kind}")
        for name, write in commands(tmp_path).items():
            for path in (kind, f"link to {kind}"):
                before = os.stat(path)
                assert write(path) == 3, (name, path)
                after = os.stat(path)
                assert (after.st_ino, after.st_mode) == (before.st_ino, before.st_mode), (name, path)
                refused += 1
    assert refused >= 2 * 7 * 2
    assert not [name for name in os.listdir() if name.startswith(".")]


def test_open_descriptors_are_refused(tmp_path):
    np.save(tmp_path / "a.npy", X)
    refused = 0
    for path in ("/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"):
        with open(tmp_path / "out", "wb") as out:
            for stdout in (out, subprocess.PIPE):
                command = [sys.executable, "-m", "gridz", "compress", tmp_path / "a.npy", "-o", path, "--force"]
                done = subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, text=True)
                assert done.returncode == 3 and "open file descriptor" in done.stderr
                refused += 1
    assert refused == 6 and (tmp_path / "out").read_bytes() == b""


def test_special_files_are_refused_by_name_of_their_kind(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(OSError, match="a FIFO, which gridz does not replace"), replacing(tmp_path / "fifo"):
        raise AssertionError("the block began")


def acl(*entries):
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


NOBODY = 0xFFFFFFFF
NAMED = acl((1, 6, NOBODY), (2, 4, 1234), (4, 0, NOBODY), (16, 4, NOBODY), (32, 0, NOBODY))
"""The owner and user 1234 may read; group and others may not."""


def set_or_skip(path, name, value):
    try:
        os.setxattr(path, name, value)
    except OSError as error:
        skip(f"{name} cannot be set here: {error.strerror}")


def test_attributes_are_passed_on_before_the_block(tmp_path, way):
    path = make(tmp_path / "a.h5")
    path.chmod(0o640)
    set_or_skip(path, "user.origin", b"ship")
    set_or_skip(path, ACCESS, NAMED)
    if os.geteuid() == 0:
        os.chown(path, 4242, 4343)
        set_or_skip(
            tmp_path,
            "system.posix_acl_default",
            acl((1, 7, NOBODY), (2, 7, 77), (4, 7, NOBODY), (16, 7, NOBODY), (32, 7, NOBODY)),
        )
    facts = lambda file: (os.stat(file)[:1] + os.stat(file)[4:6], {n: os.getxattr(file, n) for n in os.listxattr(file)})
    before = facts(path)
    with replacing(path) as (descriptor, name):
        assert facts(descriptor) == before
        os.write(descriptor, b"new")
    assert facts(path) == before and path.read_bytes() == b"new"
    assert {"user.origin", ACCESS} <= before[1].keys()


def test_permissions_are_never_wider(tmp_path, way, monkeypatch):
    """Inspects the new file before each call that changes it."""
    path, seen = make(tmp_path / "a.h5"), []
    path.chmod(0o600)
    if os.geteuid() == 0:
        os.chown(path, 4242, 4343)
    old_mask = os.umask(0)
    try:
        for name in ("fchown", "fchmod", "setxattr", "fsync", "link", "replace"):
            function = getattr(os, name)

            def watched(file, *args, _function=function, **kwargs):
                seen.append(os.stat(file).st_mode & 0o777)
                return _function(file, *args, **kwargs)

            monkeypatch.setattr(os, name, watched)
        gridz.repack(path)
    finally:
        os.umask(old_mask)
    assert len(seen) >= 3 and set(seen[:-1]) == {0o600}, seen  # the last one is the folder
    monkeypatch.undo()
    assert reads(path) and path.stat().st_mode & 0o777 == 0o600


def test_a_new_file_has_the_usual_mode(tmp_path, way):
    old_mask = os.umask(0o026)
    try:
        gridz.repack(make(tmp_path / "a.h5"), tmp_path / "b.h5")
    finally:
        os.umask(old_mask)
    assert (tmp_path / "b.h5").stat().st_mode & 0o777 == 0o640 and reads(tmp_path / "b.h5")


def test_what_cannot_be_kept_is_refused_before_the_work(tmp_path):
    if os.geteuid() != 0:
        skip("another user's file needs root")
    tmp_path.chmod(0o777)
    for folder in tmp_path.parents:
        if folder.stat().st_uid == 0 and folder != folder.parent and folder.name != "tmp":
            folder.chmod(folder.stat().st_mode | 0o055)
    path = make(tmp_path / "a.h5")
    os.chown(path, 3001, 7001)
    path.chmod(0o660)
    before, begun = os.stat(path), []
    pid = os.fork()
    if pid == 0:
        code = 9
        try:
            os.setgroups([7001])
            os.setgid(100)
            os.setuid(3002)
            gridz.repack(path, progress=begun.append)
        except PermissionError as error:
            code = 0 if "owner 3001 and group 7001 cannot be kept" in str(error) and not begun else 1
        finally:
            os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0
    assert (
        os.stat(path)[:7] == before[:7]
        and os.stat(path).st_ctime_ns == before.st_ctime_ns
        and os.listdir(tmp_path) == ["a.h5"]
    )


def test_files_that_cannot_be_written_are_refused_before_the_work(tmp_path):
    path, begun = make(tmp_path / "a.h5"), []
    for flag in "ia":
        if os.geteuid() != 0 or subprocess.run(["chattr", f"+{flag}", path], capture_output=True).returncode:
            skip("chattr +i and +a need root and a file system that has them")
        try:
            with pytest.raises(PermissionError, match="the file cannot be written"):
                gridz.repack(path, progress=begun.append)
        finally:
            subprocess.run(["chattr", f"-{flag}", path], check=True)
    assert not begun and reads(path)


def test_read_only_files_are_refused(tmp_path):
    path = make(tmp_path / "a.h5")
    path.chmod(0o444)
    if os.access(path, os.W_OK):
        skip("root may write read-only files")
    with pytest.raises(PermissionError, match="the file cannot be written"):
        gridz.repack(path)


def test_a_full_device_is_named(tmp_path):
    np.save(tmp_path / "a.npy", np.random.default_rng(0).normal(size=400_000))
    (tmp_path / "a.gridz").write_bytes(gridz.compress(np.zeros(400_000)))
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = np.load(tmp_path / "a.npy")
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode:
        skip("mounting a small file system needs privileges")
    try:
        for args in (["repack", "a.h5"], ["compress", "a.npy", "-o"], ["decompress", "a.gridz", "-o"]):
            command = [sys.executable, "-m", "gridz", args[0], tmp_path / args[1], *args[2:], folder / "out"]
            done = subprocess.run(command, capture_output=True, text=True)
            assert done.returncode == 3 and f"{folder / 'out'}: no space is left" in done.stderr, done.stderr
            assert os.listdir(folder) == []
    finally:
        subprocess.run(["umount", folder], check=True)


def test_other_hard_links_keep_the_old_file(tmp_path):
    path = make(tmp_path / "a.h5")
    os.link(path, tmp_path / "b.h5")
    old = path.read_bytes()
    gridz.repack(path, codec="lorenzo")
    assert (tmp_path / "b.h5").read_bytes() == old and path.read_bytes() != old
    assert reads(path) and reads(tmp_path / "b.h5")


def test_what_was_changed_meanwhile_is_not_replaced(tmp_path, way):
    path = tmp_path / "a"
    changes = {
        "new": lambda: path.write_bytes(b"theirs"),
        "written": lambda: path.write_bytes(b"theirs!"),
        "protected": lambda: path.chmod(0o400),
        "removed": path.unlink,
    }
    for what, change in changes.items():
        with pytest.raises(OSError, match="changed the file meanwhile"), replacing(path) as (descriptor, _):
            os.write(descriptor, b"ours")
            change()
        assert what == "removed" or path.read_bytes().startswith(b"theirs")
        assert [name for name in os.listdir(tmp_path) if name != "a"] == []


def test_errors_leave_the_old_file_and_nothing_else(tmp_path, way):
    folder = tmp_path / os.fsdecode(b"latin \xe9")
    folder.mkdir()
    gridz.repack(make(folder / "a.h5"), folder / "b.h5")
    assert reads(folder / "b.h5") and sorted(os.listdir(folder)) == ["a.h5", "b.h5"]
    tmp_path = tmp_path / "empty"
    tmp_path.mkdir()
    path = tmp_path / ("long name " * 25)[:250]
    path.write_bytes(b"old")
    with pytest.raises(KeyboardInterrupt), replacing(path) as (descriptor, name):
        with open(name, "r+b") as file:
            file.write(b"new")
        signal.raise_signal(signal.SIGINT)
    assert path.read_bytes() == b"old" and os.listdir(tmp_path) == [path.name]
    with replacing(path) as (descriptor, _):
        os.write(descriptor, b"new")
    assert path.read_bytes() == b"new" and os.listdir(tmp_path) == [path.name]
    with pytest.raises(OSError, match="no file can be created in its folder") as raised, replacing(tmp_path / "no" / "a"):
        raise AssertionError("the block began")
    assert raised.value.filename == str(tmp_path / "no" / "a")


def test_the_folder_is_flushed_after_the_name(tmp_path, monkeypatch, way):
    path, order, link, replace, fsync = tmp_path / "a", [], os.link, os.replace, os.fsync
    monkeypatch.setattr(os, "link", lambda *args, **options: order.append("name") or link(*args, **options))
    monkeypatch.setattr(os, "replace", lambda *args: order.append("name") or replace(*args))
    kind = lambda file: "folder" if stat.S_ISDIR(os.fstat(file).st_mode) else "file"
    monkeypatch.setattr(os, "fsync", lambda file: order.append(kind(file)) or fsync(file))
    for _ in range(2):  # new, and replaced
        with replacing(path):
            pass
        assert order[0] == "file" and order[-1] == "folder" and set(order[1:-1]) == {"name"}
        order.clear()
