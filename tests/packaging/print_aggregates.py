"""Script that aggregates with the installed fedplus and prints the results as JSON.

Tests run it in other environments. NumPy arrays come first, so that the kernels are loaded before JAX
has a CPU backend.
"""

import json
import warnings


def main():
    import jax.numpy as jnp
    import numpy as np

    import fedplus as fp
    from fedplus.aggregation import kernels

    aggregators = (fp.Mean(), fp.CoordinateMedian(), fp.Moreau(fp.L1(0.1)), fp.Moreau(fp.L2(0.1)))
    models = np.random.default_rng(0).normal(size=(20, 6)).astype(np.float32)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        arrays = [np.asarray(models), jnp.asarray(models)]
        results = [aggregator(array) for array in arrays for aggregator in aggregators]
        report = {
            "file": fp.__file__,
            "kernels": kernels.available(),
            "w": [np.asarray(result.w).tolist() for result in results],
        }
    messages = [str(w.message) for w in caught if w.category is kernels.KernelWarning]
    print(json.dumps(report | {"warnings": messages}))


if __name__ == "__main__":
    main()
