"""A second reference with a clock per row: torchode (extra `bench`) takes the same steps.

Its settings for that: IntegralController with safety 0.9 and factors 0.2 to 10 (its own, and
ours), no shrinking after an accepted step, our first step as dt0, and an end far behind the
last time, since torchode shortens its last step to end there and we interpolate.
"""

import numpy as np
import pytest
import torch

from sonode_utils import integrate, paper_model, streams
from sonode_utils.solvers.clocks import StepPlan

torchode = pytest.importorskip("torchode")
TOLERANCES = (1e-3, 1e-6)
END = 3.0


class Counting(torchode.IntegralController):
    """As ours; counts the steps that each row tried before `until`, accepted and rejected.

    Once every row is there it asks torchode to stop.
    """

    def __init__(self, tolerance, until):
        super().__init__(tolerance, tolerance)
        self.until, self.accepted, self.rejected = until, 0, 0

    def dt_factor(self, state, error_ratio):
        factor = super().dt_factor(state, error_ratio)
        return torch.where(error_ratio < 1, factor.clamp(min=1), factor)

    def adapt_step_size(self, t0, dt, y0, step_result, state, stats):
        accept, *rest, status = super().adapt_step_size(t0, dt, y0, step_result, state, stats)
        tried = t0 < self.until
        self.accepted = self.accepted + (accept & tried).int()
        self.rejected = self.rejected + (~accept & tried).int()
        return accept, *rest, status if tried.any() else torch.ones_like(status)


def van_der_pol(t, z):
    """Three members, more and more stiff: steps differ, and some are rejected."""
    mu = torch.tensor([1.0, 3.0, 9.0]).double()[:, None]
    x, v = z.unbind(-1)
    return torch.stack([v, mu * (1 - x * x) * v - x], -1)


def untrained(name):
    model = paper_model(name, 2, streams("torchode's steps", range(6))).double()
    return model.field, (6, 5, 4 if name != "NODE" else 2)


def problem(name):
    """Field and initial state."""
    if name == "van der Pol":
        z0 = torch.tensor([2.0, 0.0]).double().expand(3, 1, 2)
        return van_der_pol, z0
    field, shape = untrained(name)
    rng = streams("torchode's states", range(shape[0]))
    return field, torch.as_tensor(np.stack([one.standard_normal(shape[1:]) for one in rng]))


@pytest.mark.parametrize("tolerance", TOLERANCES)
@pytest.mark.parametrize("name", ["NODE", "ANODE", "SONODE", "van der Pol"])
def test_every_row_of_torchode_takes_the_steps_of_our_member(name, tolerance):
    field, z0 = problem(name)
    times, plan = torch.linspace(0, END, 5).double(), StepPlan()
    with torch.no_grad():
        ours = integrate(field, z0, times, rtol=tolerance, atol=tolerance, plan=plan)
        lengths = plan.taken[0]
        control = Counting(tolerance, until=END)
        rows = z0.flatten(1)
        term = torchode.ODETerm(lambda t, y: field(t, y.view_as(z0)).flatten(1))
        torchode.AutoDiffAdjoint(torchode.Dopri5(term), control).solve(
            torchode.InitialValueProblem(
                rows, torch.zeros(len(rows)).double(), torch.full((len(rows),), 1e3).double()
            ),
            dt0=torch.as_tensor(lengths[0]),
        )
    assert ((lengths > 0).sum(0) == control.accepted.numpy()).all()
    assert (ours.nfe == 2 + 6 * (control.accepted + control.rejected)).all()
