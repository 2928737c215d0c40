"""Defaults of a specification: the training of each data set, and a method's required settings.

Each data set has a number of rounds, local work and a learning rate, which ``fedplus data card`` shows.
They are those of the paper or of FedProx's experiments where these have the data set (fewer rounds for
the stand-in of Sent140), our choice for the digits and MNIST's writers, and ``OWN_DATA`` for all
others. ``required_settings`` has values for settings without a default in Python, most of which follow
from the learning rate. They are a place to start; ``fedplus.tune`` chooses on validation samples.

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
    """How a data set is trained unless the user sets it."""

    eta: float
    rounds: int
    batch_size: int = 20
    steps: int | None = None
    epochs: int | None = None


OWN_DATA = Training(eta=0.02, rounds=100, steps=20)
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
TUNED: dict[str, dict[str, dict[str, Any]]] = {
    # On validation images: examples/choose.py.
    "digits-robust": {"fedcomed+": {"sigma": 5.0}},
}
"""Settings that were tuned for one data set.

Only settings without a default in Python may stand here. The data set's card and the output of
``fedplus run`` and ``fedplus compare`` name them.
"""
LABELS = {
    "local": "local SGD", "fedavg": "FedAvg", "fedprox": "FedProx", "rfa": "RFA",
    "comed": "coordinate median", "fedavg+": "FedAvg+", "fedgeomed+": "FedGeoMed+",
    "fedcomed+": "FedCoMed+", "hybrid": "hybrid Fed+", "scaffold": "SCAFFOLD", "pfedme": "pFedMe",
    "perfedavg": "Per-FedAvg", "apfl": "APFL", "ditto": "Ditto", "l2gd": "L2GD",
    "layers": "Fed+ by layer", "fedavg-ft": "FedAvg + fine-tuning",
    "fedavg-decay": "FedAvg, decaying η", "local-fixed-point": "Local Fixed Point",
    "fedavgm": "FedAvgM", "fedadam": "FedAdam",
    "fedyogi": "FedYogi", "fedadagrad": "FedAdagrad", "fedper": "FedPer", "fedrep": "FedRep",
    "lg-fedavg": "LG-FedAvg", "fedbabu": "FedBABU", "mr-mtl": "MR-MTL", "localupdate": "LocalUpdate",
    "hypcluster": "HypCluster", "mapper": "MAPPER", "fedfomo": "FedFomo", "fedsplit": "FedSplit",
}  # fmt: skip
"""The names of the methods as papers spell them."""
COMPARED = ("fedavg", "fedprox", "rfa", "comed", "fedavg+", "fedgeomed+", "fedcomed+")
"""The methods that ``fedplus compare`` trains besides local training."""


def default_training(data: str | None) -> Training:
    """Return the training of a data set, or that of the user's own data if it has no name."""
    return TRAINING.get(data or "", OWN_DATA)


def describe_training(data: str | None) -> str:
    """Describe the default training of a data set in one line.

    >>> describe_training("digits-robust")
    '150 rounds of 20 steps, batch size 20, eta = 0.02, all parties in every round'
    """
    training = default_training(data)
    work = f"{training.steps} steps" if training.steps else f"{training.epochs} epochs"
    return (
        f"{training.rounds} rounds of {work}, batch size {training.batch_size}, "
        f"eta = {training.eta:g}, all parties in every round"
    )


def required_settings(name: str, eta: float, data: str | None = None) -> dict[str, Any]:
    """Return values for the settings of a method that have no default in Python.

    Args:
        name: Name of the method.
        eta: Learning rate.
        data: Name of the data set, for settings that were tuned for it.
    """
    sigma = PULL / eta
    radius = lookup_method("fedgeomed+").settings["delta"]
    by_method: dict[str, dict[str, Any]] = {
        "fedprox": {"eta": eta, "sigma": sigma},
        "fedavg+": {"eta": eta, "sigma": sigma},
        "fedgeomed+": {"eta": eta, "sigma": sigma},
        "fedcomed+": {"eta": eta, "sigma": sigma},
        "hybrid": {"eta": eta, "sigma": sigma, "parts": {"*": {"psi": "l2", "delta": radius}}},
        "layers": {"eta": eta, "parts": {"*": {"psi": "l2", "delta": radius, "sigma": sigma}}},
        "mr-mtl": {"eta": eta, "lam": sigma},
        "localupdate": {"eta": eta, "gamma": eta},
        "scaffold": {"eta_l": eta},
        "pfedme": {"eta": eta, "lam": 15.0, "eta_inner": eta},
        "perfedavg": {"alpha": eta, "beta": eta},
        "ditto": {"eta": eta, "lam": sigma},
        "l2gd": {"alpha": eta, "lam": sigma},
        "mapper": {"eta": eta, "eta_c": eta},
        "fedsplit": {"s": 1.0, "eta": eta},
    }
    return by_method.get(name, {"eta": eta}) | TUNED.get(data or "", {}).get(name, {})


def describe_tuned_settings(data: str | None, methods: Sequence[Method] | None = None) -> str:
    """Describe the settings that were tuned for a data set, e.g. "FedCoMed+: sigma = 5".

    Args:
        data: Name of the data set.
        methods: The methods of a complete specification. Only settings with which they really run
            are described. By default all tuned settings are.

    Returns:
        One line, or an empty string if nothing was tuned for this data set.
    """
    tuned = TUNED.get(data or "", {})
    if methods is not None:
        used = {method.name: method.settings for method in methods}
        tuned = {
            name: settings
            for name, settings in tuned.items()
            if name in used and all(used[name].get(k) == v for k, v in settings.items())
        }
    return "; ".join(
        f"{LABELS[name]}: " + ", ".join(f"{key} = {value:g}" for key, value in settings.items())
        for name, settings in tuned.items()
    )


def fill_defaults(spec: Spec) -> Spec:
    """Return the specification with every default filled in.

    Names that do not exist are left as they are; ``build`` rejects them with a message.
    """
    training = default_training(spec.data.name)
    given = spec.train.model_dump(exclude_none=True)
    train: dict[str, int | None] = {"rounds": training.rounds, "batch_size": training.batch_size}
    if "steps" not in given and "epochs" not in given:
        train |= {"steps": training.steps, "epochs": training.epochs}
    methods = [_fill_method(method, training.eta, spec.data.name) for method in spec.methods]
    eta = spec.reference.eta or _learning_rate(methods[0], training.eta)
    filled_train = Train.model_validate(train | given)
    new_parties = spec.new_parties
    if new_parties and new_parties.steps is None and isinstance(filled_train.steps, int):
        new_parties = new_parties.model_copy(update={"steps": filled_train.steps})
    data = spec.data
    if data.name in SETS:
        defaults = {k: v for k, v in SETS[data.name].settings.items() if v is not None}
        data = type(data).model_validate(defaults | data.model_dump(exclude_none=True))
    return spec.model_copy(
        update={
            "data": data,
            "train": filled_train,
            "new_parties": new_parties,
            "methods": methods,
            "reference": spec.reference.model_copy(update={"eta": eta}),
        }
    )


def _fill_method(method: Method, eta: float, data: str | None) -> Method:
    if method.name not in METHODS:
        return method
    defaults = {
        name: list(default) if isinstance(default, tuple) else default
        for name, default in lookup_method(method.name).own_settings.items()
        if isinstance(default, (bool, int, float, str, tuple))
    }
    required = required_settings(method.name, _learning_rate(method, eta), data)
    names = {"name": method.name, "label": method.label or LABELS[method.name]}
    return Method.model_validate({**defaults, **required, **method.settings, **names})


def _learning_rate(method: Method, default: float) -> float:
    eta = method.settings.get("eta", method.settings.get("eta_l", default))
    return float(eta) if isinstance(eta, (int, float)) and eta > 0 else default
