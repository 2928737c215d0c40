"""The interfaces of the baselines."""

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
    """A method whose personal part is the difference between a party's model and the global model."""

    @override
    def local_models(self, state: StateT) -> Matrix:
        """Return the models that the parties use, as those after their local steps are not stored."""
        return self.models(state)

    @override
    def personal_parts(self, state: StateT, parties: Array) -> Matrix:
        return self.models(state, parties) - self.w_global(state)


class AbstractLocalAdaptation(ABC):
    """A method whose parties adapt a model to their own samples before they use it."""

    @abstractmethod
    def adapt(self, models: Matrix, batches: Batch, grad: Grad, each: Each = jax.vmap) -> Matrix:
        """Return (K, d), the models that parties use after adaptation.

        Args:
            models: (K, d), the models before adaptation.
            batches: One minibatch per party, as in ``Work.batches``.
            grad: (w, batch) ↦ ∇f_k(w) on that batch.
            each: Maps a function over the parties.
        """
