"""What is filled in where a specification is silent.

How long and with which learning rate to train is known for each data set: from the paper, or from
FedProx's set-ups, which the paper uses. Other settings of a method follow from the learning rate. They
are a place to start, not tuned for every data set: ``fedplus.tune`` chooses on validation samples.

No data set has a default cohort: unless the user sets ``cohort``, all parties train in every round.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from fedplus.data import SETS
from fedplus.experiments.spec import Method, Spec, Train
from fedplus.methods import METHODS, lookup_method

PULL = 0.01
"""ησ, so that κ = 1/(1 + ησ) = 0.99, well inside the range that the paper recommends."""


class Training(NamedTuple):
    """How a data set is trained by default."""

    eta: float
    rounds: int
    batch_size: int = 20
    steps: int | None = None
    epochs: int | None = None


ANY = Training(eta=0.02, rounds=100, steps=20)
TRAINING = {
    "digits-robust": Training(eta=0.02, rounds=150, steps=20),
    "digits-personal": Training(eta=0.02, rounds=150, steps=20),
    "mnist-robust": Training(eta=0.02, rounds=500, steps=20),
    "mnist-personal": Training(eta=0.02, rounds=500, steps=20),
    "synthetic-regression": Training(eta=1e-4, rounds=500, batch_size=10, steps=20),
    "synthetic": Training(eta=0.01, rounds=200, batch_size=10, epochs=20),
    "mnist": Training(eta=0.03, rounds=100, batch_size=10, epochs=20),
    "femnist": Training(eta=0.003, rounds=200, batch_size=10, epochs=20),
    "femnist-standin": Training(eta=0.003, rounds=200, batch_size=10, epochs=20),
    "sent140": Training(eta=0.3, rounds=800, batch_size=10, epochs=20),
    "sent140-standin": Training(eta=0.3, rounds=100, batch_size=10, epochs=1),
    "mnist-writers": Training(eta=0.03, rounds=100, batch_size=10, steps=20),
}
CHOSEN: dict[str, dict[str, dict[str, Any]]] = {
    # On validation images: examples/choose.py.
    "digits-robust": {"fedcomed+": {"sigma": 5.0}},
}
"""Settings that differ from a method's usual ones on one data set.

Only settings without a default in Python may stand here. The data set's card and the output of
``fedplus run`` and ``fedplus compare`` name them.
"""
LABELS = {
    "local": "local SGD", "fedavg": "FedAvg", "fedprox": "FedProx", "rfa": "RFA",
    "comed": "coordinate median", "fedavg+": "FedAvg+", "fedgeomed+": "FedGeoMed+",
    "fedcomed+": "FedCoMed+", "hybrid": "hybrid Fed+", "scaffold": "SCAFFOLD", "pfedme": "pFedMe",
    "perfedavg": "Per-FedAvg", "apfl": "APFL", "ditto": "Ditto", "l2gd": "L2GD",
    "hypcluster": "HypCluster", "mapper": "MAPPER", "fedfomo": "FedFomo", "fedsplit": "FedSplit",
}  # fmt: skip
"""How papers spell them."""
USUAL = ("fedavg", "fedprox", "rfa", "comed", "fedavg+", "fedgeomed+", "fedcomed+")
"""What ``fedplus compare`` compares, beside local training."""


def default_training(data: str | None) -> Training:
    """For a data set by name; for one of the user's own, what is usual."""
    return TRAINING.get(data or "", ANY)


def required_settings(name: str, eta: float, data: str | None = None) -> dict[str, Any]:
    """Return the settings of a method that have no default in Python; ``presets`` has the others."""
    sigma = PULL / eta
    radius = lookup_method("fedgeomed+").settings["delta"]
    usual: dict[str, dict[str, Any]] = {
        "fedprox": {"eta": eta, "sigma": sigma},
        "fedavg+": {"eta": eta, "sigma": sigma},
        "fedgeomed+": {"eta": eta, "sigma": sigma},
        "fedcomed+": {"eta": eta, "sigma": sigma},
        "hybrid": {"eta": eta, "sigma": sigma, "parts": {"*": {"psi": "l2", "delta": radius}}},
        "scaffold": {"eta_l": eta},
        "pfedme": {"eta": eta, "lam": 15.0, "eta_inner": eta},
        "perfedavg": {"alpha": eta, "beta": eta},
        "ditto": {"eta": eta, "lam": sigma},
        "l2gd": {"alpha": eta, "lam": sigma},
        "mapper": {"eta": eta, "eta_c": eta},
        "fedsplit": {"s": 1.0, "eta": eta},
    }
    found = usual.get(name, {"eta": eta})
    return found | CHOSEN.get(data or "", {}).get(name, {})


def describe_tuned_settings(data: str | None, methods: Sequence[Method] | None = None) -> str:
    """Say which settings were chosen for this data set, e.g. "FedCoMed+: sigma = 5".

    Args:
        data: Name of the data set.
        methods: Of a specification that is filled in: only settings that these methods really have
            are named. By default all.

    Returns:
        One line, or an empty text if nothing was chosen for this data set.
    """
    chosen = CHOSEN.get(data or "", {})
    if methods is not None:
        has = {one.name: one.settings for one in methods}
        chosen = {
            name: settings
            for name, settings in chosen.items()
            if name in has and all(has[name].get(k) == v for k, v in settings.items())
        }
    return "; ".join(
        f"{LABELS[name]}: " + ", ".join(f"{key} = {value:g}" for key, value in settings.items())
        for name, settings in chosen.items()
    )


def fill_defaults(spec: Spec) -> Spec:
    """The specification with every default in it; names that nobody knows are left to ``build``."""
    usual = default_training(spec.data.name)
    train = spec.train.model_dump(exclude_none=True)
    effort = (
        {} if {"steps", "epochs"} & set(train) else {"steps": usual.steps, "epochs": usual.epochs}
    )
    given = {"rounds": usual.rounds, "batch_size": usual.batch_size, **effort}
    methods = [_filled(one, usual.eta, spec.data.name) for one in spec.methods]
    eta = spec.reference.eta or _rate(methods[0], usual.eta)
    data = spec.data
    if data.name in SETS:
        known = {k: v for k, v in SETS[data.name].settings.items() if v is not None}
        data = type(data).model_validate(known | data.model_dump(exclude_none=True))
    return spec.model_copy(
        update={
            "data": data,
            "train": Train.model_validate(given | train),
            "methods": methods,
            "reference": spec.reference.model_copy(update={"eta": eta}),
        }
    )


def _filled(one: Method, eta: float, data: str | None) -> Method:
    if one.name not in METHODS:
        return one
    own = {
        name: list(default) if isinstance(default, tuple) else default
        for name, default in lookup_method(one.name).settings.items()
        if isinstance(default, (bool, int, float, str, tuple))
    }
    label = one.label or LABELS[one.name]
    return Method.model_validate(
        {
            **own,
            **required_settings(one.name, _rate(one, eta), data),
            **one.settings,
            "name": one.name,
            "label": label,
        }
    )


def _rate(one: Method, eta: float) -> float:
    rate = one.settings.get("eta", one.settings.get("eta_l", eta))
    return float(rate) if isinstance(rate, (int, float)) and rate > 0 else eta
