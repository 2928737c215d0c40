"""The model, a party's steps, and how a model is judged: PyTorch."""

from collections.abc import Iterable
from typing import Any

import torch
from fedplus.flower import Party
from fedplus.torch import Pull, arrays, buffers, put_arrays, put_buffers
from torch.nn.functional import cross_entropy

from fedapp.data import CLASSES, FEATURES
from fedapp.method import ETA

BATCH = 20


def network() -> torch.nn.Module:
    """Any module. Its parameters are federated; buffers (BatchNorm's) stay with the party."""
    return torch.nn.Sequential(
        torch.nn.Linear(FEATURES, 32), torch.nn.ReLU(), torch.nn.Linear(32, CLASSES)
    )


def first() -> dict[str, Any]:
    """The model that the federation begins with."""
    torch.manual_seed(0)
    return arrays(network())


def trained(party: Party, x: Any, y: Any, work: Iterable[int], rng: Any) -> tuple[Any, Any]:
    """The party's steps: its new model, and what else it keeps."""
    model = network()
    put_arrays(model, party.start)
    put_buffers(model, party.extra)
    optimizer = Pull(torch.optim.SGD(model.parameters(), lr=ETA), model, party)
    model.train()
    for _ in work:
        rows = rng.choice(len(y), BATCH)
        optimizer.zero_grad()
        cross_entropy(model(torch.as_tensor(x[rows])), torch.as_tensor(y[rows]).long()).backward()
        optimizer.step()
    return arrays(model), buffers(model)


def judged(w: Any, kept: Any, x: Any, y: Any) -> tuple[float, float]:
    """Accuracy and loss."""
    model = network()
    put_arrays(model, w)
    put_buffers(model, kept)
    model.eval()
    with torch.no_grad():
        logits, labels = model(torch.as_tensor(x)), torch.as_tensor(y).long()
        right = (logits.argmax(1) == labels).float().mean()
        return right.item(), cross_entropy(logits, labels).item()
