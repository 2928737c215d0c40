"""What the baselines have in common as methods."""

from typing import TypeVar

from typing_extensions import override

from fedplus._types import Array, Matrix
from fedplus.algorithm import AbstractAlgorithm

StateT = TypeVar("StateT")


class AbstractBaseline(AbstractAlgorithm[StateT]):
    """A method whose personal part is just how a party's model differs from the global one."""

    @override
    def own(self, state: StateT) -> Matrix:
        """The models that the parties use: what their steps left is not kept."""
        return self.models(state)

    @override
    def personal(self, state: StateT, parties: Array) -> Matrix:
        return self.models(state, parties) - self.w_global(state)
