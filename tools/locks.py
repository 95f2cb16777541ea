"""Work that only one process may do at a time, on any operating system."""

from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout


class Busy(Exception):
    """The work cannot begin, or cannot go on; the message says why."""


@contextmanager
def locked(path, message):
    """Raise Busy with the message where another process holds `path`.

    The lock is free again when that process ends, however it ends.
    """
    lock = FileLock(path, timeout=0)
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout:
        raise Busy(message) from None
    except OSError as error:
        why = f"{path} cannot be written ({error.strerror})"
        raise Busy(f"{why}: make its folder writable, or work in another one") from None
    try:
        yield
    finally:
        lock.release()
