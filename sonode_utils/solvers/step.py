"""One pass of the method: six points and seven stages of all clocks, in buffers made once.

It is elementwise over the clocks: no clock ever sees another.
"""

import torch
from torch import Tensor


class Pass:
    """The buffers of one pass, and the views of them that it works on, made once.

    rows: (8, *shape), the state z and the stages k0 to k6; points: (7, *shape), the six points
    at which k1 to k6 are the field's values, the last of them the end of the step, then the
    error; share: (7, 8, *clock), what each row gives to each point: h times the tableau.
    to_rows: (8, *shape), for the gradients with respect to the rows; room: (*shape), for that
    with respect to a point.
    """

    def __init__(self, field, rows: Tensor, to_rows: Tensor, room: Tensor):
        self.to_rows, self.room, self.back = to_rows, room, None
        self.z, *self.k = rows.unbind(0)
        self.points = rows.new_empty(7, *field.shape)
        *self.at, self.error = self.points.unbind(0)
        share = rows.new_ones(7, 8, *field.clock)
        self.by_h, self.first = share[:, 1:], (self.points[:6], share[:6, 1], share[6, 1])
        self.later = [(self.points[j:], share[j:, j + 1], self.k[j]) for j in range(1, 7)]
        self.shares = [(to_rows[: i + 2], share[i, : i + 2]) for i in range(6)]
        bound = zip(self.at, self.k[1:], to_rows[2:], [room] * 6)
        self.evaluations = [field.evaluation(*tensors) for tensors in bound]

    def run(self, t: list, h: Tensor, tableau: Tensor) -> None:
        """One step from self.z with slope self.k[0]. h: (*clock)"""
        torch.mul(tableau, h, out=self.by_h)
        points, to_points, to_error = self.first
        torch.addcmul(self.z, to_points, self.k[0], out=points)
        torch.mul(to_error, self.k[0], out=self.error)
        for evaluation, now, (points, share, k) in zip(self.evaluations, t[1:], self.later):
            evaluation.value(now)
            points.addcmul_(share, k)

    def go_back(self, to_z: Tensor, to_k: Tensor) -> tuple[Tensor, Tensor]:
        """From the gradients with respect to state and slope after the step to those before."""
        if self.back is not None:  # these clocks went on from where they had been
            for gathered, grad in zip(self.to_rows, (to_z, to_k)):
                gathered.add_(torch.where(self.back, grad, 0))
            to_z, to_k = (torch.where(self.back, 0, grad) for grad in (to_z, to_k))
        self.to_rows[7].add_(to_k)
        for i in range(5, -1, -1):
            self.evaluations[i].pull()
            if i == 5:
                self.room.add_(to_z)
            to_rows, share = self.shares[i]
            to_rows.addcmul_(share, self.room)
        return self.to_rows[0], self.to_rows[1]
