"""Modules of torch as a user puts them into a pipeline."""

import torch


class Scale(torch.nn.Module):
    """Each channel times a number of its own; drops a channel now and then, if it shall."""

    def __init__(self, p=0.0):
        super().__init__()
        self.factor = torch.nn.Parameter(torch.tensor([1.0, 0.5, 2.0]))
        self.p = p

    def forward(self, image):
        kept = torch.rand(3) >= self.p if self.p else torch.ones(3)
        return image * (self.factor * kept)[:, None, None]


SCALE = Scale()
DROP = Scale(p=0.5)
