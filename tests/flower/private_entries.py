"""A search for the entries of a model in what a server receives or writes."""

import numpy as np


def contains(content, array):
    """Return True if two adjacent entries of an array are in the content, as bytes or as text."""
    entries = np.ravel(array)
    pairs = (entries[i : i + 2].tobytes() for i in range(entries.size - 1))
    texts = (repr(float(x))[:9].encode() for x in entries)
    return any(pair in content for pair in pairs) or any(text in content for text in texts)
