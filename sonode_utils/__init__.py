"""The thin package behind the SONODE book, in the paper's own letters.

Read it in this order; each file can be read on its own::

    ensemble   E independent networks as one batched program, and their random streams
    models     NODE, ANODE, SONODE and the k-th order model; the paper's own networks
    solve      integrate: all members' ODEs in one call; the model's error or the solver's?
    train      fit: Adam on every member's own loss; scores and counts of iterations
    figures    the house style, and figures that react in the page (needs matplotlib)

Four rooms surround that core::

    evidence/  rules for verdicts, a notebook's run and its record, the scorecard, tables
    solvers/   inside `integrate`: dopri5 for ensembles, and solves parallel in time
    data/      the paper's synthetic systems; Silverbox, F-16 and MNIST, and their stand-ins
    chapters/  what only a few chapters of the book need

Importing the package puts torch on one thread: the book's tensors are small, and a second
thread makes the same batched solve several times slower. Run two processes instead.
`SONODE_THREADS` overrides it. On processors with AVX2 it also pins the code paths of the
libraries (`PINS`), so that the processor does not decide the last digits; a variable that is
set already stays, and after the first computation a pin comes too late.
"""

import os

import torch
from numpy._core._multiarray_umath import __cpu_features__  # type: ignore[import]

PINS = {"MKL_CBWR": "COMPATIBLE", "ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2"}

if __cpu_features__["AVX2"]:
    for _name, _value in PINS.items():
        os.environ.setdefault(_name, _value)

from sonode_utils.ensemble import EnsembleLinear, EnsembleMLP, pad_mask, pick, stream, streams
from sonode_utils.models import ANODE, NODE, SONODE, HigherOrderNODE, Trajectory, paper_model
from sonode_utils.solve import TIGHT, Solution, integrate, reversal_error
from sonode_utils.train import History, fit, iterations_to, mse, score

__version__ = "0.2.0"
torch.set_num_threads(int(os.environ.get("SONODE_THREADS", "1")))
