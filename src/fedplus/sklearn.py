"""scikit-learn adapter for parties: an estimator with ``partial_fit``, followed by the pull of Fed+.

The federated parameters are ``coef_`` and ``intercept_`` of linear models (``SGDClassifier``,
``SGDRegressor``), and ``coefs_`` and ``intercepts_`` of networks (``MLPClassifier``, ``MLPRegressor``).

.. code-block:: python

    estimator = SGDClassifier(loss="log_loss", learning_rate="constant", eta0=eta)
    initialise(estimator, features=64, classes=range(10))
    party = Party(message, context)
    put_arrays(estimator, party.start)
    pull = Pull(estimator, party)
    for x, y in batches:
        pull.partial_fit(x, y)
    return party.reply(arrays(estimator), {"num-examples": n})

κ counts a call of ``partial_fit`` as one step, so give it one minibatch. (``SGDClassifier`` and
``SGDRegressor`` process a minibatch sample by sample, networks all at once.)
"""

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from fedplus._pull import PullTarget, parameter_pulls, require_same_shapes
from fedplus._types import NumpyArray
from fedplus.check import require

LINEAR, LAYERED = ("coef_", "intercept_"), ("coefs_", "intercepts_")
OPTIMIZER, BACKPROP = "_optimizer", "_backprop"
"""A network's optimizer, which it creates in ``partial_fit``, and its method that returns gradients."""


def initialise(estimator: Any, features: int, classes: Iterable[Any] | None = None) -> Any:
    """Create the arrays of an estimator, which scikit-learn does only when it sees data.

    Args:
        estimator: An estimator with ``partial_fit``. It is changed in place.
        features: The number of features of a sample.
        classes: All labels that any party may have; None for a regression.

    Returns:
        The same estimator. The parameters of linear models are zero, and a network's optimizer has
        no momentum.
    """
    batch_size = getattr(estimator, "batch_size", 1)
    x = np.zeros((batch_size if isinstance(batch_size, int) else 1, features))
    if classes is None:
        estimator.partial_fit(x, np.zeros(len(x)))
    else:
        labels = np.asarray(list(classes))
        estimator.partial_fit(x, np.repeat(labels[:1], len(x)), classes=labels)
    for name in LINEAR:
        if hasattr(estimator, name):
            getattr(estimator, name)[...] = 0.0
    if hasattr(estimator, OPTIMIZER):  # It has done a step with the zeros above.
        delattr(estimator, OPTIMIZER)
    return estimator


class Pull:
    """An estimator whose every ``partial_fit`` is followed by the pull of Fed+ (Alg. 1, l. 13).

    w ← κ·w + (1 − κ)·(w̃ + v_k)

    If the method has settings by layer, each parameter is pulled with its own κ; a layer with a smaller
    η takes a smaller share of the step. A layer that is not trained in a step stays as it is, and its
    gradient is set to zero, so that the momentum of a network's optimizer does not contain it.

    Args:
        estimator: An estimator that ``initialise`` has returned.
        party: The party, which provides κ and the anchor w̃ + v_k.

    Raises:
        SettingError: The estimator's parameters have other names or shapes than the party's model.
    """

    def __init__(self, estimator: Any, party: PullTarget) -> None:
        self.estimator, self._anchor, self._step = estimator, party.anchor, 0
        self._pulls = parameter_pulls(party)
        require_same_shapes(self._anchor, _shapes(estimator), "parameters")

    def partial_fit(self, x: Any, y: Any, **options: Any) -> "Pull":
        """Fit the estimator to one minibatch, then pull its parameters."""
        before = {
            name: array.copy()
            for name, array in _parameters(self.estimator).items()
            if self._pulls[name].needs_before
        }
        with self._zero_waiting_gradients():
            self.estimator.partial_fit(x, y, **options)
        for name, array in _parameters(self.estimator).items():
            pull = self._pulls[name]
            array[...] = pull.apply(before.get(name), array, self._anchor[name], self._step)
        self._step += 1
        return self

    @contextlib.contextmanager
    def _zero_waiting_gradients(self) -> Iterator[None]:
        """Let a network use gradients of zero for the layers that are not trained in this step."""
        waiting = [n for n, pull in self._pulls.items() if not pull.is_scheduled(self._step)]
        if not (waiting and hasattr(self.estimator, LAYERED[0])):
            yield
            return
        backprop = getattr(self.estimator, BACKPROP)

        def backprop_scheduled(*args: Any) -> Any:
            loss, *gradients = backprop(*args)
            for kind, arrays in zip(LAYERED, gradients, strict=True):
                for number, array in enumerate(arrays):
                    if f"{kind}/{number}" in waiting:
                        array[...] = 0.0
            return loss, *gradients

        setattr(self.estimator, BACKPROP, backprop_scheduled)
        try:
            yield
        finally:
            delattr(self.estimator, BACKPROP)


def arrays(estimator: Any) -> dict[str, NumpyArray]:
    """Return the parameters by name, as float32."""
    return {name: np.array(array, np.float32) for name, array in _parameters(estimator).items()}


def put_arrays(estimator: Any, arrays: Mapping[str, NumpyArray]) -> None:
    """Set the parameters.

    Raises:
        SettingError: The arrays have other names or shapes.
    """
    require_same_shapes(arrays, _shapes(estimator), "parameters")
    for name, array in _parameters(estimator).items():
        array[...] = arrays[name]


def _shapes(estimator: Any) -> dict[str, tuple[int, ...]]:
    return {name: array.shape for name, array in _parameters(estimator).items()}


def _parameters(estimator: Any) -> dict[str, NumpyArray]:
    """Return the estimator's own arrays by name, without copying them."""
    average = getattr(estimator, "average", False)
    require(not average, "estimator", f"one with average={average}", "one without average")
    parameters = {name: getattr(estimator, name) for name in LINEAR if hasattr(estimator, name)}
    for name in LAYERED:
        layers = enumerate(getattr(estimator, name, ()))
        parameters |= {f"{name}/{number}": array for number, array in layers}
    require(
        bool(parameters), "estimator", type(estimator).__name__,
        "one with coef_ and intercept_, or coefs_ and intercepts_",
        "Call initialise first: scikit-learn creates these arrays only when it sees data.",
    )  # fmt: skip
    return parameters
