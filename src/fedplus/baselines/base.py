"""What the baselines have in common as methods."""

from typing import TypeVar

from typing_extensions import override

from fedplus._types import Array, Matrix
from fedplus.algorithm import AbstractAlgorithm

StateT = TypeVar("StateT")


class AbstractBaseline(AbstractAlgorithm[StateT]):
    """A method whose personal part is just how a party's model differs from the global one."""

    @override
    def personal(self, state: StateT, parties: Array) -> Matrix:
        return self.models(state, parties) - self.w_global(state)
