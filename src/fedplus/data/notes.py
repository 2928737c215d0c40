"""Notes on a federation that its user should read before the results."""

from collections.abc import Sequence

import numpy as np

from fedplus.data.card import class_counts
from fedplus.data.federation import Federation

MIN_TEST_SAMPLES = 20
"""With fewer test samples, one sample changes a party's accuracy by more than 5 points."""
MAX_SHOWN = 5
"""How many parties a note names."""


def data_notes(federation: Federation) -> list[str]:
    """Return what stands out: a single party, parties with one class, few test samples, identifiers."""
    notes = list(federation.info.notes)
    if federation.parties == 1:
        notes.append(
            f"There is a single party, {federation.names[0]!r}: nothing is federated. A column with "
            "the parties' names (in the shell: --set party=COLUMN) divides one file among them."
        )
    counts = class_counts(federation)
    if counts is not None:
        names = [federation.names[k] for k in np.flatnonzero((counts > 0).sum(1) == 1)]
        if names:
            notes.append(f"All samples of {_parties(names)} have the same class.")
    few = np.flatnonzero(federation.test.size < MIN_TEST_SAMPLES)
    if len(few):
        names = [federation.names[k] for k in few]
        notes.append(
            f"Fewer than {MIN_TEST_SAMPLES} test samples at {_parties(names)}: their scores say little."
        )
    return notes


def _parties(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:MAX_SHOWN])
    more = f" and {len(names) - MAX_SHOWN} more" if len(names) > MAX_SHOWN else ""
    return f"{'party' if len(names) == 1 else 'parties'} {shown}{more}"
