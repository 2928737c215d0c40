"""The scikit-learn adapter agrees with the formulas."""

import numpy as np
import pytest
from sklearn.linear_model import SGDClassifier, SGDRegressor
from sklearn.neural_network import MLPClassifier

import fedplus as fp
from fedplus import sklearn as adapter
from linear_federation import FixedTarget, half_arrays


@pytest.mark.parametrize(
    ("make", "classes"),
    [
        (lambda: SGDClassifier(loss="log_loss", random_state=0), [0, 1, 2]),
        (lambda: SGDClassifier(loss="log_loss", random_state=0), [0, 1]),
        (lambda: SGDRegressor(random_state=0), None),
        (lambda: MLPClassifier((4,), random_state=0, batch_size=8), [0, 1, 2]),
    ],
)
def test_partial_fit_is_the_estimators_followed_by_the_pull(make, classes):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(8, 3))
    y = rng.normal(size=8) if classes is None else np.resize(classes, 8)
    estimator, twin = (adapter.initialise(make(), 3, classes) for _ in range(2))
    pull = adapter.Pull(estimator, FixedTarget(0.8, half_arrays(adapter.arrays(estimator))))
    for _ in range(3):
        pull.partial_fit(x, y)
        twin.partial_fit(x, y)
        pulled = {n: 0.8 * a + 0.2 * 0.5 for n, a in adapter.arrays(twin).items()}
        adapter.put_arrays(twin, pulled)
    for name, array in adapter.arrays(twin).items():
        np.testing.assert_allclose(adapter.arrays(estimator)[name], array, rtol=1e-4)
    np.testing.assert_allclose(estimator.predict(x), twin.predict(x), rtol=1e-4)


def test_an_uninitialised_estimator_is_refused():
    with pytest.raises(
        fp.SettingError, match=r"estimator must be one with coef_.*Call initialise first"
    ):
        adapter.arrays(SGDClassifier())


def test_an_averaging_estimator_is_refused():
    """Its steps do not start from its coef_."""
    with pytest.raises(fp.SettingError, match="estimator must be one without average"):
        adapter.arrays(adapter.initialise(SGDClassifier(average=True), 4, "ab"))


def test_linear_estimators_start_at_zero():
    estimator = adapter.initialise(SGDClassifier(), 4, "ab")
    assert {n: a.tolist() for n, a in adapter.arrays(estimator).items()} == {
        "coef_": [[0.0] * 4], "intercept_": [0.0],
    }  # fmt: skip
    assert estimator.predict(np.ones((1, 4)))[0] in ("a", "b")
