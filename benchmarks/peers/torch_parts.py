"""Models, losses and minibatches of the workloads in PyTorch, for the peers that train with it."""

import os

import numpy as np
import torch
from torch import nn
from workloads import HIDDEN, check_rows, draw, federation

THREADS = (1, os.cpu_count()) if os.cpu_count() > 1 else (1,)


class Recurrent(nn.Module):
    """A network of two LSTM layers and a dense layer, from (n, 25, 300) to (n,) logits."""

    def __init__(self, features):
        super().__init__()
        self.lstm = nn.LSTM(features, HIDDEN, num_layers=2, batch_first=True)
        self.dense = nn.Linear(HIDDEN, 1)

    def forward(self, x):
        """Return the logits, computed from the state of the last time step."""
        return self.dense(self.lstm(x)[0][:, -1]).squeeze(-1)


def make_model(work, seed=0):
    """Return the model of a workload: logistic regression from zero, or an LSTM from random weights."""
    torch.manual_seed(seed)
    if work.model == "lstm":
        return Recurrent(work.shape[-1])
    model = nn.Linear(work.shape[0], work.classes)
    for parameter in model.parameters():
        nn.init.zeros_(parameter)
    return model


def loss_class(work):
    """Return the class of a workload's loss."""
    return nn.BCEWithLogitsLoss if work.model == "lstm" else nn.CrossEntropyLoss


def tensors(work):
    """Return (x, y) of each party as tensors, and the check rows."""
    data = federation(work)
    made = [tuple(map(torch.from_numpy, rows)) for rows in data]
    return made, tuple(map(torch.from_numpy, check_rows(data)))


def loss_on(work, model, rows):
    """Return the mean loss of a model on the rows (x, y)."""
    with torch.no_grad():
        return loss_class(work)()(model(rows[0]), rows[1]).item()


class Minibatches:
    """The minibatches of one party; each iteration draws those of another round."""

    def __init__(self, work, x, y, seed=0):
        self.work, self.x, self.y = work, x, y
        self.rng = np.random.default_rng(seed)

    def __len__(self):
        steps = self.work.steps or -(-len(self.x) // self.work.batch) * self.work.epochs
        return int(steps)

    def __iter__(self):
        rows = torch.from_numpy(draw(self.work, len(self.x), self.rng))
        for index in rows.split(self.work.batch):
            yield self.x[index], self.y[index]
