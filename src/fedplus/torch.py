"""PyTorch's side of a party: any ``torch.optim`` optimizer, followed by the pull of Fed+.

Parameters are federated; buffers, such as the statistics of BatchNorm, stay with the party: they
describe its own data. ``buffers`` and ``put_buffers`` keep them over restarts:

.. code-block:: python

    party = Party(message, context)
    put_arrays(model, party.start)
    put_buffers(model, party.extra)
    optimizer = Pull(torch.optim.SGD(model.parameters(), lr=0.02), model, party)
    for x, y in batches:
        optimizer.zero_grad()
        loss(model(x), y).backward()
        optimizer.step()
    return party.reply(arrays(model), {"num-examples": n}, extra=buffers(model))
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from fedplus._pull import PullTarget, require_same_shapes
from fedplus._types import Host


class Pull:
    """An optimizer whose every step is followed by w ← κ·w + (1 − κ)·(w̃ + v_k) (Alg. 1, l. 13).

    Args:
        optimizer: Over the model's parameters. Its learning rate should be the method's η, which
            sets κ.
        model: The module.
        party: Where κ and the anchor come from.

    What wants the optimizer itself, such as a learning-rate scheduler, takes ``.optimizer``.
    """

    def __init__(
        self, optimizer: torch.optim.Optimizer, model: torch.nn.Module, party: PullTarget
    ) -> None:
        anchor = party.anchor
        named = dict(model.named_parameters())
        require_same_shapes(anchor, {name: p.shape for name, p in named.items()}, "parameters")
        self.optimizer = optimizer
        self._share = 1 - party.kappa
        self._pairs = [
            (parameter, torch.as_tensor(anchor[name]).to(parameter))
            for name, parameter in named.items()
        ]

    def zero_grad(self, set_to_none: bool = True) -> None:
        """As the optimizer's."""
        self.optimizer.zero_grad(set_to_none)

    def step(self, closure: Any = None) -> Any:
        """The optimizer's step, then the pull."""
        loss = self.optimizer.step() if closure is None else self.optimizer.step(closure)
        with torch.no_grad():
            for parameter, anchor in self._pairs:
                parameter.lerp_(anchor, self._share)
        return loss


def arrays(model: torch.nn.Module) -> dict[str, Host]:
    """The parameters by name, as float32."""
    return {n: _host(p) for n, p in model.named_parameters()}


def put_arrays(model: torch.nn.Module, arrays: Mapping[str, Host]) -> None:
    """Set the parameters."""
    _put(dict(model.named_parameters()), arrays, "parameters")


def buffers(model: torch.nn.Module) -> dict[str, Host]:
    """The buffers by name."""
    return {n: _host(b) for n, b in model.named_buffers()}


def put_buffers(model: torch.nn.Module, arrays: Mapping[str, Host]) -> None:
    """Set the buffers; none at all, as of a party that is new, leaves them as they are."""
    if arrays:
        _put(dict(model.named_buffers()), arrays, "buffers")


def _host(tensor: torch.Tensor) -> Host:
    there = tensor.detach().cpu()
    whole = there.float() if there.is_floating_point() else there
    return np.array(whole.numpy())


def _put(tensors: Mapping[str, torch.Tensor], arrays: Mapping[str, Host], what: str) -> None:
    require_same_shapes(arrays, {name: tensor.shape for name, tensor in tensors.items()}, what)
    with torch.no_grad():
        for name, tensor in tensors.items():
            tensor.copy_(torch.as_tensor(np.asarray(arrays[name])))
