"""The model, a party's training steps, and the evaluation, with PyTorch."""

from collections.abc import Iterable
from typing import Any

import torch
from fedplus.flower import Party
from fedplus.torch import Pull, arrays, buffers, put_arrays, put_buffers
from torch.nn.functional import cross_entropy

from fedapp.data import CLASSES, FEATURES

BATCH = 20


def make_network() -> torch.nn.Module:
    """Return a module. Its parameters are federated; buffers (BatchNorm) stay with the party."""
    return torch.nn.Sequential(
        torch.nn.Linear(FEATURES, 32), torch.nn.ReLU(), torch.nn.Linear(32, CLASSES)
    )


def initial_model() -> dict[str, Any]:
    """Return the model with which the federation starts."""
    torch.manual_seed(0)
    return arrays(make_network())


def train_model(party: Party, x: Any, y: Any, steps: Iterable[int], rng: Any) -> tuple[Any, Any]:
    """Do the party's steps; return its new model, and extra arrays that stay with the party."""
    model = make_network()
    put_arrays(model, party.start)
    put_buffers(model, party.extra)
    optimizer = Pull(torch.optim.SGD(model.parameters(), lr=party.eta), model, party)
    model.train()
    for _ in steps:
        rows = rng.choice(len(y), BATCH)
        optimizer.zero_grad()
        cross_entropy(model(torch.as_tensor(x[rows])), torch.as_tensor(y[rows]).long()).backward()
        optimizer.step()
    return arrays(model), buffers(model)


def evaluate(w: Any, extra: Any, x: Any, y: Any) -> tuple[float, float]:
    """Return the accuracy and the loss of a model."""
    model = make_network()
    put_arrays(model, w)
    put_buffers(model, extra)
    model.eval()
    with torch.no_grad():
        logits, labels = model(torch.as_tensor(x)), torch.as_tensor(y).long()
        accuracy = (logits.argmax(1) == labels).float().mean()
        return accuracy.item(), cross_entropy(logits, labels).item()
