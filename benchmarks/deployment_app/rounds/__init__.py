"""A Flower app whose parties take a single step, to measure the overhead of a round."""

METHODS = {"fedavg+": "fedavg_plus", "fedgeomed+": "fedgeomed_plus"}


def method(contender):
    """Return the fedplus method to compare with a contender."""
    from fedplus import presets

    return getattr(presets, METHODS[contender])(eta=0.1, sigma=0.5)
