"""Simulated stand-ins for the two measured data sets, of the same physics and length.

The constants were fitted on the measured rows. There is no noise and no unmodelled physics,
so what a model scores here says nothing about the aeroplane or the circuit.
"""

from functools import cache

import numpy as np
from scipy.signal import cont2discrete

from sonode_utils.ensemble import stream

SILVERBOX_RATE, F16_RATE = 610.35, 400.0  # Hz
SILVERBOX_ROWS, ARROW_ROWS, BLOCK_ROWS, GAP = 131_072, 40_508, 8_692, 64
FINE = 4  # input samples per row: between rows the drive is smooth, not a straight line

MODES = np.array([3.50, 3.98, 5.20, 6.62, 7.35, 9.17])  # Hz
DAMPING = np.array([0.0154, 0.0235, 0.0084, 0.0065, 0.0049, 0.0072])
F16_PERIOD, F16_LINES = 8192, np.arange(41, 308)  # rows, and 267 lines from 2 to 15 Hz
GAINS = {  # of each mode's acceleration, then of the voltage itself
    "force": (-7.44, -6.54, -2.24, -0.936, -3.94, -0.836, -468.0),
    "acceleration1": (-0.326, -0.337, -0.180, -0.106, -0.734, -0.186, -4.41),
    "acceleration2": (-0.338, -0.341, -0.283, -0.169, -1.43, -0.663, -0.848),
    "acceleration3": (-0.316, -0.315, -0.240, -0.176, -1.36, -0.564, -0.284),
}


@cache
def silverbox_signals() -> tuple[np.ndarray, np.ndarray]:
    """The drive u and response y of a Duffing oscillator, in volts: (131072,) each.

    y'' = -41.86 y' - 1.8425e5 y - 7.317e5 y^3 + 1.8642e5 u. As measured, the drive is first
    an arrow-head, noise below 200 Hz whose rms grows by 0.935e-3 mV per row, then ten odd
    random multisines of 22.3 mV with short pauses. The instruments' offsets are added.
    """
    rng = stream("drive of the Silverbox stand-in", 0)
    drive, n = np.zeros((SILVERBOX_ROWS, FINE)), ARROW_ROWS * FINE
    rms = 0.4e-3 + 0.935e-6 * np.arange(n) / FINE
    drive[:ARROW_ROWS] = (rms * _multisine(rng, n, step=1)).reshape(-1, FINE)
    for start in range(ARROW_ROWS, ARROW_ROWS + 10 * BLOCK_ROWS, BLOCK_ROWS):
        period = 22.3e-3 * _multisine(rng, 8192 * FINE, step=2)
        drive[start + GAP : start + BLOCK_ROWS] = np.resize(period, (BLOCK_ROWS - GAP, FINE))
    y = _duffing(drive.flatten(), y0=8.6e-3)
    return _frozen(6.2e-3 + drive[:, 0]), _frozen(0.8e-3 + y[::FINE])


def _multisine(rng, n, step):
    """Random phases, equal amplitudes up to 200 Hz, rms 1; step 2 leaves odd lines only."""
    lines = np.arange(1, int(200 / (SILVERBOX_RATE * FINE) * n), step)
    spectrum = np.zeros(n // 2 + 1, complex)
    spectrum[lines] = np.exp(2j * np.pi * rng.random(len(lines)))
    return np.fft.irfft(spectrum, n) * n / np.sqrt(2 * len(lines))


def _duffing(drive, y0):
    """Strang splitting: the exact linear flow, kicked by the cubic force between steps."""
    h = 1 / (SILVERBOX_RATE * FINE)
    linear, force = np.array([[0, 1], [-1.8425e5, -41.86]]), np.array([[0], [1.8642e5]])
    system = linear, force, np.eye(2), np.zeros((2, 1))
    p, b, _, after, _ = cont2discrete(system, h, "foh")  # the drive is straight over a step
    pushes = (b - p @ after) * drive[:-1] + after * drive[1:]
    (p00, p01), (p10, p11) = p.tolist()
    kick = 7.317e5 * h
    y, v, path = y0, -kick / 2 * y0**3, [y0]
    for push_y, push_v in zip(*pushes.tolist()):
        y, v = p00 * y + p01 * v + push_y, p10 * y + p11 * v + push_v
        v -= kick * y * y * y
        path.append(y)
    return np.array(path)


@cache
def f16_signals() -> dict[str, np.ndarray]:
    """The five channels of a six mode structure under a multisine: name -> (73728,).

    The voltage has 267 lines of equal amplitude from 2 to 15 Hz; force and accelerations
    are sums of modal accelerations and of the voltage itself, in the periodic steady state.
    """
    phases = 2 * np.pi * stream("phases of the F-16 stand-in", 0).random(len(F16_LINES))
    voltage = 2.166e-3 * np.exp(1j * phases)
    s = 2j * np.pi * F16_LINES[:, None] * F16_RATE / F16_PERIOD
    omega = 2 * np.pi * MODES
    modal = s**2 / (s**2 + 2 * DAMPING * omega * s + omega**2)  # (line, mode)
    lines = {"voltage": voltage}
    for name, (*modes, direct) in GAINS.items():
        lines[name] = voltage * (modal @ np.array(modes) + direct)
    spectrum, signals = np.zeros(F16_PERIOD // 2 + 1, complex), {}
    for name, response in lines.items():
        spectrum[F16_LINES] = response * F16_PERIOD / 2
        signals[name] = _frozen(np.tile(np.fft.irfft(spectrum, F16_PERIOD), 9))
    return signals


def _frozen(array):
    array.flags.writeable = False
    return array
