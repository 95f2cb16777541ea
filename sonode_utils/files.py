"""Files written whole or not at all, and work that only one process may do at a time."""

import fcntl
import os
import re
from contextlib import contextmanager, suppress
from pathlib import Path


class Refused(Exception):
    """The work cannot begin, or cannot go on; the message says why."""


@contextmanager
def whole(path):
    """A draft to write to; it takes the place of `path` when the block is left in peace.

    Killed at any moment, a process leaves the old file as it was. The draft it may leave
    beside it is removed by the next one that writes there.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    for left in leftovers(path):
        left.unlink(missing_ok=True)
    draft = draft_of(path)
    try:
        yield draft
        os.replace(draft, path)
    except BaseException:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        raise


def draft_of(path):
    """Where this process may write what will become `path`."""
    return path.with_name(f".{path.name}.{os.getpid()}.draft")


def leftovers(path):
    """Drafts of `path` whose process is gone."""
    drafts = list(path.parent.glob(f".{path.name}.*.draft"))
    return [d for d in drafts if not _alive(int(re.search(r"(\d+)\.draft$", d.name)[1]))]


def _alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # alive, and somebody else's
        pass
    return True


@contextmanager
def alone(path, message):
    """Raise Refused with the message where another process holds `path`; it is free again
    when that process ends, however it ends."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Refused(message) from None
        yield
