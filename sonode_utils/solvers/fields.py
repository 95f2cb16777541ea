"""Fields as the solver sees them: members may stand still, gradients need no graph."""

import torch
from torch import nn


class StepPlan(list):
    """The steps (length, error) that `dopri5` took last, for it to plan the next ones by."""

    def __deepcopy__(self, memo):
        return None  # the copy of a model in training is a model that starts anew


class MemberField:
    """A field that counts its evaluations, holds still the members that are out,
    and measures the others' errors."""

    def __init__(self, field, z0, alive, features, plan=None):
        self.field, self.nfe, self.plan = field, 0, plan
        everyone = torch.ones(z0.shape[0], dtype=torch.bool, device=z0.device)
        self.alive = everyone if alive is None else alive.to(z0.device, copy=True)
        self.failed = torch.zeros_like(everyone)
        self.mask = self._mask()
        width = z0.shape[-1] * everyone if features is None else features.to(z0.device)
        self.size = (z0.shape[1] * width).to(z0.dtype)
        self.errors = self.size * 0  # of the last step tried

    def __call__(self, t, z, perturb=None):
        self.nfe += 1
        dz = self.field(t, z)
        if dz.shape != z.shape:
            raise ValueError(f"field returns {tuple(dz.shape)} where z is {tuple(z.shape)}")
        return dz if self.mask is None else torch.where(self.mask, dz, 0)

    def into(self, out, t, z):
        """The field's value written to `out`: directly, where the field can do that."""
        if not hasattr(self.field, "into") or self.mask is not None:
            return out.copy_(self(t, z))
        self.nfe += 1
        return self.field.into(out, t, z)

    def _mask(self):
        """(member, 1, 1), True where a member may move; None if all may."""
        return None if self.alive.all() else self.alive[:, None, None]

    def per_member(self, z):
        """Root mean square over what each member really has: (member,)."""
        ratio = (z.square().sum((1, 2)) / self.size).sqrt()
        return torch.where(self.alive, ratio, 0).nan_to_num(torch.inf, torch.inf)

    def norm(self, z):
        errors = self.per_member(z)
        self.errors = errors.detach()
        return errors.max()

    def drop(self, members):
        """Take members out (never in place: the graph remembers the old masks)."""
        if members.any():
            self.alive = self.alive & ~members
            self.failed = self.failed | members
            self.mask = self._mask()


class FusedMLP:
    """A model's field, with its derivative, for a solver that keeps no graph.

    The field is the state without its first d features, then the network's d outputs:
    [v, f(x, v)], or f alone where d is the whole state. z and all else are feature first,
    (member, feature, batch), which batched products of thin matrices like better.

    second: (member,), where d is the whole state: True for the members whose first half
    has the second half for its derivative, whatever the network says of it.
    """

    def __init__(self, mlp, second=None):
        self.second = None if second is None else second.view(-1, 1, 1)
        self.parameters = list(mlp.parameters())
        self.linear, self.activations = list(mlp.layers[0::2]), list(mlp.layers[1::2])
        self.weights = [layer.weight.detach() for layer in self.linear]
        self.affine = [
            (layer.bias.detach().transpose(1, 2), weight.transpose(1, 2).contiguous())
            for layer, weight in zip(self.linear, self.weights)
        ]
        self.d = self.weights[-1].shape[-1]
        self.scratch = {}
        self.kept = None  # a list, to keep each evaluation's layers for `pull`

    def __call__(self, t, z):
        return self.into(None, t, z)

    def into(self, out, t, z):
        """The field's value, written to `out` if there is one."""
        layers = [z]
        for (bias, weight), activation in zip(self.affine, self.activations):
            h = torch.baddbmm(bias, weight, layers[-1])
            layers.append(_activate(activation, h, self.scratch))
        if self.kept is not None:
            self.kept.append(layers)
        y = layers[-1]
        if self.second is None:
            return torch.cat([z[:, self.d :], y], 1, out=out)
        first, half = z[:, self.d // 2 :], y[:, : self.d // 2]
        return torch.cat(
            [torch.where(self.second, first, half), y[:, self.d // 2 :]], 1, out=out
        )

    def zero_grad(self):
        """Begin anew with `grads`, which are those of mlp.parameters()."""
        self.grads = [torch.zeros_like(p) for layer in self.linear for p in layer.parameters()]
        self.waiting = [([], []) for _ in self.linear]

    def pull(self, layers, grad, out):
        """The gradient with respect to z from that with respect to the field's value, which
        may be overwritten."""
        if self.second is None:
            shifted, grad = grad.tensor_split([-self.d], 1)
        else:
            first, last = grad.tensor_split(2, 1)
            shifted = torch.where(self.second, first, 0)
            grad = torch.cat([first - shifted, last], 1)
        for i in reversed(range(len(self.weights))):
            grad = _through(self.activations[i], layers[i + 1], grad)
            self._gather(i, layers[i], grad)
            grad = torch.bmm(self.weights[i], grad, out=None if i else out)
        if shifted.shape[1]:
            out[:, -shifted.shape[1] :].add_(shifted)
        return out

    def _gather(self, i, below, grad, wide=64):
        """For the parameters of layer i: wait until the product is wide enough to be fast."""
        inputs, errors = self.waiting[i]
        inputs.append(below)
        errors.append(grad)
        if len(errors) * grad.shape[2] >= wide:
            self._add(i, *self.waiting[i])

    def _add(self, i, inputs, errors):
        x, error = (w[0] if len(w) == 1 else torch.cat(w, 2) for w in (inputs, errors))
        self.grads[2 * i].baddbmm_(x, error.transpose(1, 2))
        self.grads[2 * i + 1] += error.sum(2)[:, None]
        self.waiting[i] = [], []

    def finish(self):
        """`grads`, with what was still waiting."""
        for i, waiting in enumerate(self.waiting):
            if waiting[0]:
                self._add(i, *waiting)
        return self.grads


def _activate(activation, h, scratch, many=16_000):
    """activation(h), in place where most of the time goes; scratch: {shape: a tensor}."""
    if not isinstance(activation, nn.ELU):
        return activation(h)
    if h.numel() < many:
        return nn.functional.elu_(h)
    if h.shape not in scratch:
        scratch[h.shape] = torch.empty_like(h)
    # e^h - 1 is never below h, and exp takes a third of the time of ELU's expm1.
    below = torch.clamp(h, max=0, out=scratch[h.shape])
    return torch.maximum(h, below.exp_().sub_(1), out=h)


def _through(activation, y, grad):
    """grad times the activation's slope, which its result y tells, in place."""
    aten = torch.ops.aten
    if isinstance(activation, nn.ELU):
        return aten.elu_backward.grad_input(grad, 1, 1, 1, True, y, grad_input=grad)
    if isinstance(activation, nn.Tanh):
        return aten.tanh_backward.grad_input(grad, y, grad_input=grad)
    if isinstance(activation, nn.Hardtanh):
        low, high = activation.min_val, activation.max_val
        return aten.hardtanh_backward.grad_input(grad, y, low, high, grad_input=grad)
    return grad
