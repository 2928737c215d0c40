"""The method, which the server sends to the parties.

``fp.presets`` has others: fedavg_plus, fedcomed_plus, fedavg, rfa, coordinate_median, fedprox, ...
"""

import fedplus as fp

ETA = 0.1
"""The learning rate of a party's steps. It may be a schedule, e.g. ``fp.schedules.Cosine``."""
LABEL = "FedGeoMed+"


def make_method() -> "fp.FedPlus":
    """Return the method with its settings."""
    return fp.presets.fedgeomed_plus(eta=ETA, sigma=0.5, delta=0.3)
