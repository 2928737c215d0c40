"""scikit-learn's side of a party: an estimator with ``partial_fit``, followed by the pull of Fed+.

Federated are ``coef_`` and ``intercept_`` of linear models (``SGDClassifier``, ``SGDRegressor``) and
``coefs_`` and ``intercepts_`` of networks (``MLPClassifier``, ``MLPRegressor``).

.. code-block:: python

    steady = SGDClassifier(loss="log_loss", learning_rate="constant", eta0=eta)
    estimator = begun(steady, features=64, classes=range(10))
    party = Party(message, context)
    put_arrays(estimator, party.start)
    pulled = Pull(estimator, party)
    for x, y in batches:
        pulled.partial_fit(x, y)
    return party.reply(arrays(estimator), {"num-examples": n})

κ counts a call of ``partial_fit`` as a step: give it one minibatch. (``SGDClassifier`` and
``SGDRegressor`` go through it sample by sample, the networks take it at once.)
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from fedplus._pull import PullTarget, require_same_shapes
from fedplus._types import Host
from fedplus.check import require

LINEAR, LAYERED = ("coef_", "intercept_"), ("coefs_", "intercepts_")


def initialise(estimator: Any, features: int, classes: Iterable[Any] | None = None) -> Any:
    """The estimator with all its arrays in place, which scikit-learn makes when it sees data.

    Args:
        estimator: With ``partial_fit``. It is changed.
        features: Of a sample.
        classes: All labels that any party may have; None for a regression.
    """
    batch = getattr(estimator, "batch_size", 1)
    blank = np.zeros((batch if isinstance(batch, int) else 1, features))
    if classes is None:
        estimator.partial_fit(blank, np.zeros(len(blank)))
    else:
        labels = np.asarray(list(classes))
        estimator.partial_fit(blank, np.repeat(labels[:1], len(blank)), classes=labels)
    for name in LINEAR:
        if hasattr(estimator, name):
            getattr(estimator, name)[...] = 0.0
    return estimator


class Pull:
    """An estimator whose every ``partial_fit`` is followed by the pull (Alg. 1, l. 13).

    Args:
        estimator: As ``begun`` gives it.
        party: Where κ and the anchor come from.
    """

    def __init__(self, estimator: Any, party: PullTarget) -> None:
        self.estimator, self._kappa, self._anchor = estimator, party.kappa, party.anchor
        require_same_shapes(self._anchor, _shapes(estimator), "parameters")

    def partial_fit(self, x: Any, y: Any, **more: Any) -> "Pull":
        """The estimator's, then w ← κ·w + (1 − κ)·(w̃ + v_k)."""
        self.estimator.partial_fit(x, y, **more)
        for name, array in _views(self.estimator).items():
            array *= self._kappa
            array += (1 - self._kappa) * self._anchor[name]
        return self


def arrays(estimator: Any) -> dict[str, Host]:
    """The parameters by name."""
    return {name: np.array(array, np.float32) for name, array in _views(estimator).items()}


def put_arrays(estimator: Any, arrays: Mapping[str, Host]) -> None:
    """Set the parameters."""
    require_same_shapes(arrays, _shapes(estimator), "parameters")
    for name, array in _views(estimator).items():
        array[...] = arrays[name]


def _shapes(estimator: Any) -> dict[str, tuple[int, ...]]:
    return {name: array.shape for name, array in _views(estimator).items()}


def _views(estimator: Any) -> dict[str, Host]:
    """The estimator's own arrays, not copies."""
    average = getattr(estimator, "average", False)
    require(not average, "estimator", f"one with average={average}", "one without average")
    found = {name: getattr(estimator, name) for name in LINEAR if hasattr(estimator, name)}
    for name in LAYERED:
        layers = enumerate(getattr(estimator, name, ()))
        found |= {f"{name}/{number}": array for number, array in layers}
    require(
        bool(found), "estimator", type(estimator).__name__,
        "one with coef_ and intercept_, or coefs_ and intercepts_",
        "Give it to begun first: scikit-learn makes these arrays when it sees data.",
    )  # fmt: skip
    return found
