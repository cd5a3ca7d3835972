"""Small networks, and rows for them."""

import numpy as np
import torch
from torch import nn

from vicinal._features import Features

D, d = 5, 2


def plain(activation=nn.Tanh, seed=0, n_features=D, hidden=6):
    """A network that ends with a linear layer."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(n_features, hidden), activation(), nn.Linear(hidden, d))


class Residual(nn.Module):
    """A linear map plus a network with one hidden layer."""

    def __init__(self, seed=0, activation=nn.Tanh, n_features=D, hidden=6):
        super().__init__()
        torch.manual_seed(seed)
        self.hidden = nn.Linear(n_features, hidden)
        self.activation = activation()
        self.out = nn.Linear(hidden, d, bias=False)
        self.linear = nn.Linear(n_features, d, bias=False)

    def forward(self, x):
        return self.linear(x) + self.out(self.activation(self.hidden(x)))


def rows(rng, n=40, scaling="standard"):
    return Features(rng.standard_normal((n, D)) * np.arange(1, D + 1) + 3.0, scaling)


def clouds(rng, n=60, n_features=D):
    """Rows of three classes that overlap a little."""
    y = np.arange(n) % 3
    return rng.standard_normal((n, n_features)) + 1.5 * np.eye(n_features)[y], y
