"""Interfaces of the baselines."""

from abc import ABC, abstractmethod
from typing import TypeVar

import jax
from typing_extensions import override

from fedplus._types import Array, Matrix
from fedplus.algorithm import AbstractAlgorithm
from fedplus.local import Batch, Grad
from fedplus.work import Each

StateT = TypeVar("StateT")


class AbstractBaseline(AbstractAlgorithm[StateT]):
    """A method whose personal part is just how a party's model differs from the global one."""

    @override
    def local_models(self, state: StateT) -> Matrix:
        """Return the models that the parties use, because those after their steps are not kept."""
        return self.models(state)

    @override
    def personal_parts(self, state: StateT, parties: Array) -> Matrix:
        return self.models(state, parties) - self.w_global(state)


class AbstractAdapting(ABC):
    """A method whose parties adapt a model with their own samples before they use it."""

    @abstractmethod
    def adapt(self, models: Matrix, batches: Batch, grad: Grad, each: Each = jax.vmap) -> Matrix:
        """Return the models that parties use, (K, d): ``models`` adapted on one minibatch per party."""
