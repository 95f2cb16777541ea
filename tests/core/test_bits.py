"""Portable bits: what the processor can do must not decide what a training ends with."""

import os
import platform
import subprocess
import sys

import pytest
from numpy._core._multiarray_umath import __cpu_features__

from sonode_utils import PINS

TRAINING = """
import hashlib
import torch
from sonode_utils import fit, mse, paper_model, streams
from sonode_utils.data import systems

found = hashlib.sha256()
for name, batch, d in (("ANODE", 1, 1), ("SONODE", 9, 3)):
    rng = streams("test of bits", range(5), name)
    model = paper_model(name, d, rng)
    x = systems.parity([d] * 5, rng, points=batch)
    history = fit(model, lambda m: mse(m(x, torch.tensor([0.0, 1.0])).x[-1], -x), iterations=60)
    found.update(history.loss.numpy().tobytes())
    found.update(model.solve_tight(x, torch.linspace(0, 1, 7)).x.numpy().tobytes())
print(found.hexdigest(), torch.backends.cpu.get_cpu_capability())
"""
NO_512 = "AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL AVX512_SPR"
OTHER_PROCESSORS = {
    "without AVX-512, for numpy": {"NPY_DISABLE_CPU_FEATURES": NO_512},
    "without AVX-512, for the C library": {
        "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX512F,-AVX512VL,-AVX512BW,-AVX512DQ"
    },
    "with AVX2, for MKL": {"MKL_ENABLE_INSTRUCTIONS": "AVX2"},
    "with SSE4.2, for MKL": {"MKL_ENABLE_INSTRUCTIONS": "SSE4_2"},
    "with AVX2, for torch": {"ATEN_CPU_CAPABILITY": "avx2"},
}


def trained(**environment):
    """Hash of a small training in a process of its own, and torch's instruction set."""
    clean = {name: value for name, value in os.environ.items() if name not in PINS}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", TRAINING],
        env={**clean, **environment}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout.split()


@pytest.fixture(scope="module")
def here():
    if platform.machine() not in ("x86_64", "AMD64") or not __cpu_features__["AVX2"]:
        pytest.skip("only x86-64 with AVX2 has pins")
    found, capability = trained()
    assert capability == "AVX2"
    return found


@pytest.mark.parametrize("name", OTHER_PROCESSORS)
def test_another_processor_gives_the_same_bits(here, name):
    assert trained(**OTHER_PROCESSORS[name])[0] == here


def test_what_a_user_has_set_stays(here):
    assert trained(ATEN_CPU_CAPABILITY="default")[1] == "DEFAULT"
