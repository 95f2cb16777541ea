"""NODE in SONODE in ANODE: the same motion from the larger model."""

import pytest
import torch

from sonode_utils.chapters.second_order_forms import node_in_sonode, sonode_in_anode
from sonode_utils.ensemble import EnsembleMLP, normal, streams
from sonode_utils.models import ANODE, NODE, SONODE

TIMES = torch.linspace(0, 4, 9, dtype=torch.float64)
TIGHT = {"rtol": 1e-11, "atol": 1e-11}
MEMBERS, D = 3, 2


@pytest.fixture(autouse=True)
def no_graph():
    with torch.no_grad():
        yield


def smooth(n_in, n_out, first_seed):
    seeds = range(first_seed, first_seed + MEMBERS)
    return EnsembleMLP(n_in, n_out, streams("test", seeds), activation="tanh").double()


def starts():
    draws = [normal((5, D), s) for s in streams("test", range(MEMBERS))]
    return torch.stack(draws).double()


class WithTime(torch.nn.Module):
    """f([z, t]): a network that sees the time."""

    def __init__(self, n_in, n_out, first_seed):
        super().__init__()
        self.net = smooth(n_in + 1, n_out, first_seed)

    def forward(self, z, t):
        return self.net(torch.cat([z, t.expand(*z.shape[:-1], 1)], -1))


FIELDS = [lambda: smooth(D, D, 10), lambda: WithTime(D, D, 20)]


@pytest.mark.parametrize("field", FIELDS, ids=["autonomous", "with time"])
@pytest.mark.parametrize("pull", [0.0, 3.0])
def test_a_sonode_moves_as_the_node_it_was_made_from(field, pull):
    f, x0 = field(), starts()
    t0 = TIMES[0]
    node = NODE(f)(x0, TIMES, **TIGHT).x
    sonode = SONODE(node_in_sonode(f, pull), lambda x: f(x, t0))(x0, TIMES, **TIGHT).x
    torch.testing.assert_close(sonode, node, rtol=0, atol=1e-8)


def test_a_wrong_initial_velocity_stays_wrong_by_the_same_amount():
    f, x0 = smooth(D, D, 10), starts()
    sonode = SONODE(node_in_sonode(f), lambda x: f(x) + 0.3)
    x, v = sonode(x0, TIMES, **TIGHT).z.chunk(2, -1)
    off = torch.stack([v_t - f(x_t) for x_t, v_t in zip(x, v)])
    torch.testing.assert_close(off, torch.full_like(v, 0.3), atol=1e-8, rtol=0)


def test_a_pull_forgets_a_wrong_initial_velocity():
    f, x0 = smooth(D, D, 10), starts()
    sonode = SONODE(node_in_sonode(f, pull=2.0), lambda x: f(x) + 0.3)
    x, v = sonode(x0, TIMES, **TIGHT).z[-1].chunk(2, -1)
    left = torch.full_like(v, 0.3 * float(torch.exp(-2 * TIMES[-1])))
    torch.testing.assert_close(v - f(x), left, atol=1e-8, rtol=0)


@pytest.mark.parametrize("from_zero", [False, True], ids=["learnt start", "from zero"])
def test_an_anode_moves_as_the_sonode_it_was_made_from(from_zero):
    f, g, x0 = WithTime(2 * D, D, 30), smooth(D, D, 40), starts()
    sonode = SONODE(f, g)(x0, TIMES, **TIGHT)
    field = sonode_in_anode(f, g if from_zero else None)
    anode = ANODE(field, augment=D, g=None if from_zero else g)(x0, TIMES, **TIGHT)
    torch.testing.assert_close(anode.x, sonode.x, rtol=0, atol=1e-8)
    velocity = anode.z[..., D:] + (g(anode.x[-1]) if from_zero else 0)
    torch.testing.assert_close(velocity[-1], sonode.z[-1, ..., D:], rtol=0, atol=1e-7)


def test_the_paths_of_the_two_anodes_differ_where_nobody_looks():
    f, g, x0 = WithTime(2 * D, D, 30), smooth(D, D, 40), starts()
    learnt = ANODE(sonode_in_anode(f), augment=D, g=g)(x0, TIMES, **TIGHT).z[..., D:]
    zero = ANODE(sonode_in_anode(f, g), augment=D)(x0, TIMES, **TIGHT).z[..., D:]
    assert (learnt - zero).abs().max() > 0.1
