"""The thin package behind the SONODE book: one idea a file, the paper's letters as names.

Importing it puts torch on one thread: the book's tensors are small, and a second
thread made the same batched solve several times slower. Run two processes instead.
`SONODE_THREADS` overrides it.
"""

import os

import torch

torch.set_num_threads(int(os.environ.get("SONODE_THREADS", "1")))

__version__ = "0.1.0"
