"""All methods by the names that people use, with what a user needs to choose one."""

import inspect
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from fedplus import baselines, presets
from fedplus.algorithm import AbstractAlgorithm
from fedplus.check import SettingError, lookup, require


class Method(NamedTuple):
    """A method and its costs for a party."""

    name: str
    make: Callable[..., AbstractAlgorithm[Any]]
    """The preset or the class of the baseline."""
    summary: str
    judged: str
    """The model that a party uses: "own", "global" or "adapted" (the global one after a step)."""
    keeps: str
    """The number of models that a party stores between rounds."""
    sends: str
    """The number of models that a party sends per round."""
    gradients: str
    """The number of gradients that a party computes per round of E steps."""
    source: str

    @property
    def settings(self) -> dict[str, Any]:
        """The default of each setting; ``inspect.Parameter.empty`` if it is required."""
        parameters = inspect.signature(self.make).parameters
        return {name: parameter.default for name, parameter in parameters.items()}

    @property
    def meanings(self) -> dict[str, str]:
        """The meaning of each setting, from the docstring of the preset or baseline.

        >>> lookup_method("fedavg").meanings["eta"]
        'Learning rate η > 0.'
        """
        return parse_args_section(inspect.getdoc(self.make) or "")

    def __call__(self, **settings: Any) -> AbstractAlgorithm[Any]:
        """Make the method with these settings.

        Raises:
            SettingError: A setting does not exist, or a required one is missing.
        """
        parameters = inspect.signature(self.make).parameters
        for name in settings:
            allowed = f"one of: {', '.join(parameters)}"
            require(name in parameters, f"setting of {self.name}", name, allowed)
        missing = [
            name
            for name, parameter in parameters.items()
            if parameter.default is parameter.empty and name not in settings
        ]
        if missing:
            got = f"only {', '.join(settings)}" if settings else "none"
            is_number = parameters[missing[0]].annotation in (float, "float")
            example = f" E.g. {missing[0]}=0.1." if is_number else ""
            names = " and ".join(", ".join(missing).rsplit(", ", 1))
            raise SettingError(f"settings of {self.name} must include {names}, got {got}.{example}")
        return self.make(**settings)


def parse_args_section(docstring: str) -> dict[str, str]:
    r"""Return the entries of the section "Args:" of a Google-style docstring.

    >>> parse_args_section("Args:\n    a: The first,\n        long.\n    b: The second.")
    {'a': 'The first, long.', 'b': 'The second.'}
    """
    section = re.search(r"^Args:\n((?:[ ]+.*\n|\n)*)", docstring + "\n", re.MULTILINE)
    entries = re.split(r"^ {4}(\w+): ", section[1], flags=re.MULTILINE)[1:] if section else []
    return {
        name: " ".join(text.split()) for name, text in zip(entries[::2], entries[1::2], strict=True)
    }


FED_PLUS = "Kundu, Yu, Wynter and Lim, Robustness and Personalization in Federated Learning"
METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method(
            "local", presets.local_sgd, "every party on its own", "own", "1", "0", "E",
            f"{FED_PLUS}, Table 1",
        ),
        Method(
            "fedavg", presets.fedavg, "mean of the parties' models", "global", "0", "1", "E",
            "McMahan et al., Communication-Efficient Learning of Deep Networks, AISTATS 2017",
        ),
        Method(
            "rfa", presets.rfa, "geometric median of the parties' models", "global", "0", "1", "E",
            "Pillutla, Kakade and Harchaoui, Robust Aggregation for Federated Learning, 2019",
        ),
        Method(
            "comed", presets.coordinate_median, "coordinatewise median of the parties' models",
            "global", "0", "1", "E",
            "Yin, Chen, Kannan and Bartlett, Byzantine-Robust Distributed Learning, ICML 2018",
        ),
        Method(
            "fedprox", presets.fedprox, "FedAvg with a pull to the global model", "global", "0",
            "1", "E", "Li et al., Federated Optimization in Heterogeneous Networks, MLSys 2020",
        ),
        Method(
            "fedavg+", presets.fedavg_plus, "Fed+ with the mean", "own", "1", "1", "E", FED_PLUS
        ),
        Method(
            "fedgeomed+", presets.fedgeomed_plus, "Fed+ with the δ-geometric median", "own", "1",
            "1", "E", FED_PLUS,
        ),
        Method(
            "fedcomed+", presets.fedcomed_plus, "Fed+ with the δ-coordinatewise median", "own",
            "1", "1", "E", FED_PLUS,
        ),
        Method(
            "hybrid", presets.hybrid, "Fed+ with a ψ for each group of layers", "own", "1", "1",
            "E", FED_PLUS,
        ),
        Method(
            "scaffold", baselines.Scaffold, "FedAvg with control variates against drift", "global",
            "1", "2", "E (option 1: 2E)",
            "Karimireddy et al., SCAFFOLD: Stochastic Controlled Averaging, ICML 2020",
        ),
        Method(
            "pfedme", baselines.PFedMe, "personal models by Moreau envelopes", "own", "1", "1",
            "E · inner",
            "Dinh, Tran and Nguyen, Personalized Federated Learning with Moreau Envelopes, 2020",
        ),
        Method(
            "perfedavg", baselines.PerFedAvg,
            "a global model that fits a party after one step on its data",
            "adapted", "0", "1", "4E (first-order: 2E)",
            "Fallah, Mokhtari and Ozdaglar, Personalized Federated Learning: MAML, NeurIPS 2020",
        ),
        Method(
            "apfl", baselines.APFL, "a learned mixture of a personal and the global model", "own", "1",
            "1", "2E", "Deng, Kamani and Mahdavi, Adaptive Personalized Federated Learning, 2020",
        ),
        Method(
            "ditto", baselines.Ditto, "a personal model, pulled towards FedAvg's global model", "own",
            "1", "1", "2E", "Li, Hu, Beirami and Smith, Ditto, ICML 2021",
        ),
        Method(
            "l2gd", baselines.L2GD, "local steps or steps to the mean, chosen at random",
            "own", "1", "p · E", "(1 − p) · E",
            "Hanzely and Richtárik, Federated Learning of a Mixture of Global and Local Models, 2020",
        ),
        Method(
            "hypcluster", baselines.HypCluster, "a few models, each party takes the best", "own",
            "0", "1", "E, and q · E losses",
            "Mansour, Mohri, Ro and Suresh, Three Approaches for Personalization, 2020",
        ),
        Method(
            "mapper", baselines.Mapper, "a personal and a central model, interpolated", "own", "1",
            "1", "Λ · E + E, and Λ · E losses",
            "Mansour, Mohri, Ro and Suresh, Three Approaches for Personalization, 2020",
        ),
        Method(
            "fedfomo", baselines.FedFomo, "a party takes from others' models what helps it", "own",
            "1", "1 (and is sent m)", "E, and m + 1 losses",
            "Zhang et al., Personalized Federated Learning with First Order Model Optimization, 2021",
        ),
        Method(
            "fedsplit", baselines.FedSplit, "operator splitting with the right fixed points",
            "global", "1", "1", "E",
            "Pathak and Wainwright, FedSplit, NeurIPS 2020",
        ),
    )
}  # fmt: skip


def lookup_method(name: str) -> Method:
    """Return the method of this name.

    Raises:
        SettingError: No method has this name; the message suggests one.

    >>> lookup_method("ditto")(eta=0.1, lam=0.5)
    Ditto(eta=0.1, lam=0.5, aggregate=None)
    """
    return lookup(name, METHODS, "method")
