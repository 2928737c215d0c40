"""PyTorch adapter for parties: any ``torch.optim`` optimizer, followed by the pull of Fed+.

Parameters are federated. Buffers, such as the statistics of BatchNorm, stay with the party, because
they describe its own data; ``buffers`` and ``put_buffers`` save and restore them:

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

from fedplus._pull import PullTarget, parameter_pulls, require_same_shapes
from fedplus._types import NumpyArray


class Pull:
    """A PyTorch optimizer whose every step is followed by the pull of Fed+ (Alg. 1, l. 13).

    w ← κ·w + (1 − κ)·(w̃ + v_k)

    If the method has settings by layer, each parameter is pulled with its own κ; a layer with a smaller
    η takes a smaller share of the step. A layer that is not trained in a step stays as it is, and its
    gradient is set to zero before the optimizer's step, so that it gathers no momentum.

    Args:
        optimizer: An optimizer of the model's parameters. Its learning rate should be the method's η,
            ``party.eta``, which determines κ.
        model: The module.
        party: The party, which provides κ and the anchor w̃ + v_k.

    Attributes:
        optimizer: The wrapped optimizer, for example for a learning-rate scheduler.

    Raises:
        SettingError: The model's parameters have other names or shapes than the party's model.
    """

    def __init__(
        self, optimizer: torch.optim.Optimizer, model: torch.nn.Module, party: PullTarget
    ) -> None:
        anchor = party.anchor
        parameters = dict(model.named_parameters())
        shapes = {name: parameter.shape for name, parameter in parameters.items()}
        require_same_shapes(anchor, shapes, "parameters")
        self.optimizer = optimizer
        self._step = 0
        pulls = parameter_pulls(party)
        self._pulled = [
            (parameter, torch.as_tensor(anchor[name]).to(parameter), pulls[name])
            for name, parameter in parameters.items()
        ]

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Reset the gradients, as the optimizer does."""
        self.optimizer.zero_grad(set_to_none)

    def step(self, closure: Any = None) -> Any:
        """Do a step of the optimizer, then the pull; return the loss of the closure, if any."""

        def with_cleared() -> Any:
            loss = closure()
            self._clear_waiting_gradients()
            return loss

        before = {
            parameter: parameter.detach().clone()
            for parameter, _, pull in self._pulled
            if pull.needs_before
        }
        self._clear_waiting_gradients()
        loss = self.optimizer.step() if closure is None else self.optimizer.step(with_cleared)
        with torch.no_grad():
            for parameter, anchor, pull in self._pulled:
                if pull.needs_before:
                    share = pull.share if pull.is_trained(self._step) else 0.0
                    parameter.copy_(before[parameter].lerp(parameter, share))
                if pull.is_trained(self._step):
                    parameter.lerp_(anchor, 1 - pull.kappa)
        self._step += 1
        return loss

    def _clear_waiting_gradients(self) -> None:
        """Set the gradients of the layers that are not trained in this step to zero."""
        for parameter, _, pull in self._pulled:
            if parameter.grad is not None and not pull.is_scheduled(self._step):
                parameter.grad.zero_()


def arrays(model: torch.nn.Module) -> dict[str, NumpyArray]:
    """Return the parameters by name, as float32."""
    return {name: _to_numpy(parameter) for name, parameter in model.named_parameters()}


def put_arrays(model: torch.nn.Module, arrays: Mapping[str, NumpyArray]) -> None:
    """Set the parameters.

    Raises:
        SettingError: The arrays have other names or shapes.
    """
    _copy_into(dict(model.named_parameters()), arrays, "parameters")


def buffers(model: torch.nn.Module) -> dict[str, NumpyArray]:
    """Return the buffers by name."""
    return {name: _to_numpy(buffer) for name, buffer in model.named_buffers()}


def put_buffers(model: torch.nn.Module, arrays: Mapping[str, NumpyArray]) -> None:
    """Set the buffers; without any arrays, as for a new party, they stay as they are.

    Raises:
        SettingError: The arrays have other names or shapes.
    """
    if arrays:
        _copy_into(dict(model.named_buffers()), arrays, "buffers")


def _to_numpy(tensor: torch.Tensor) -> NumpyArray:
    on_cpu = tensor.detach().cpu()
    return np.array((on_cpu.float() if on_cpu.is_floating_point() else on_cpu).numpy())


def _copy_into(
    tensors: Mapping[str, torch.Tensor], arrays: Mapping[str, NumpyArray], kind: str
) -> None:
    require_same_shapes(arrays, {name: tensor.shape for name, tensor in tensors.items()}, kind)
    with torch.no_grad():
        for name, tensor in tensors.items():
            tensor.copy_(torch.as_tensor(np.asarray(arrays[name])))
