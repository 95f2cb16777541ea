"""Files that appear whole or not at all."""

import os
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def write_whole(path):
    """A draft to write to; it takes the place of `path` when the block is left in peace.

    Killed at any moment, a process leaves the old file as it was.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.draft")  # a killed writer's draft is written over
    try:
        yield draft
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)
