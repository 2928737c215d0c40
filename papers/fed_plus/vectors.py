"""A model that a run has kept, as the one vector that methods and judges take."""

from pathlib import Path

import jax
import numpy as np

from fedplus._types import Host
from fedplus.models import Model, ravel


def vector_of(path: Path, model: Model) -> Host:
    """(d,): of a safetensors file."""
    from safetensors.numpy import load_file

    parts = load_file(path)
    layout = ravel(model.init(jax.random.key(0))).layout
    return np.concatenate([parts[name].ravel() for name, _ in layout])
