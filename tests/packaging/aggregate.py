"""Aggregates with the fedplus that this Python imports, and prints the results as JSON.

Tests run this file in other environments. NumPy arrays come first: they load the kernels while JAX
has no CPU client yet.
"""

import json
import warnings


def main():
    import jax.numpy as jnp
    import numpy as np

    import fedplus as fp
    from fedplus.aggregation import kernels

    rules = (fp.Mean(), fp.CoordinateMedian(), fp.Moreau(fp.L1(0.1)), fp.Moreau(fp.L2(0.1)))
    models = np.random.default_rng(0).normal(size=(20, 6)).astype(np.float32)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        results = [rule(array(models)) for array in (np.asarray, jnp.asarray) for rule in rules]
        report = {
            "file": fp.__file__,
            "kernels": kernels.available(),
            "w": [np.asarray(result.w).tolist() for result in results],
        }
    messages = [str(w.message) for w in caught if w.category is kernels.KernelWarning]
    print(json.dumps(report | {"warnings": messages}))


if __name__ == "__main__":
    main()
