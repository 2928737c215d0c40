"""The interfaces of the baselines."""

from typing import TypeVar

from typing_extensions import override

from fedplus._types import Array, Matrix
from fedplus.algorithm import AbstractAlgorithm

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
