"""Which method: the same settings for the server and for every party.

``fp.presets`` has the others: fedavg_plus, fedcomed_plus, fedavg, rfa, coordinate_median, fedprox, ...
"""

import fedplus as fp

ETA = 0.1
"""The learning rate of a party's steps."""
LABEL = "FedGeoMed+"
METHOD = fp.presets.fedgeomed_plus(eta=ETA, sigma=0.5, delta=0.3)
