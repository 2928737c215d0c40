"""All methods by the names that people use, with what a user needs to choose one."""

import inspect
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from fedplus import baselines, presets
from fedplus.algorithm import AbstractAlgorithm, FedPlus
from fedplus.check import SettingError, lookup, require
from fedplus.local import OPTIMIZERS


class Method(NamedTuple):
    """A method and its costs for a party. A model is the unit of ``keeps`` and ``sends``."""

    name: str
    make: Callable[..., AbstractAlgorithm[Any]]
    """The preset or the class of the baseline."""
    summary: str
    used_model: str
    """The model that a party uses, and that is therefore evaluated: "own", "global" or "adapted" (w̃
    after local steps of the party)."""
    keeps: str
    """The number of models that a party stores between rounds."""
    sends: str
    """The number of models that a party sends per round."""
    gradients: str
    """The number of gradients that a party computes per round of E steps."""
    source: str

    @property
    def settings(self) -> dict[str, Any]:
        """The default of each setting; ``inspect.Parameter.empty`` if it is required.

        A preset also has the settings ``COMMON``, which all presets share.
        """
        return self._common | self._parameters

    @property
    def own_settings(self) -> dict[str, Any]:
        """The defaults of the settings that this method does not share with most others.

        For a preset these are the parameters of its function. For a baseline, parameters with a name
        of ``COMMON``, such as ``optimizer``, are left out.
        """
        parameters = self._parameters.items()
        return {name: x for name, x in parameters if self.is_preset or name not in COMMON}

    @property
    def _parameters(self) -> dict[str, Any]:
        parameters = inspect.signature(self.make).parameters
        return {name: parameter.default for name, parameter in parameters.items()}

    @property
    def is_preset(self) -> bool:
        """True for settings of Algorithm 1, False for other methods."""
        return not inspect.isclass(self.make)

    @property
    def _common(self) -> dict[str, Any]:
        if not self.is_preset:
            return {}
        # If parties send nothing, these settings have no effect.
        not_applicable = (
            {} if self.sends != "0" else set(COMMON) - {"optimizer", "keep_optimizer_state"}
        )
        return {name: x.default for name, x in COMMON.items() if name not in not_applicable}

    @property
    def meanings(self) -> dict[str, str]:
        """The meaning of each setting, from the docstring of the preset or baseline, or ``COMMON``.

        >>> lookup_method("fedavg").meanings["eta"]
        'Learning rate η > 0.'
        """
        own = parse_args_section(inspect.getdoc(self.make) or "")
        return {name: own.get(name) or COMMON[name].meaning for name in self.settings}

    def __call__(self, **settings: Any) -> AbstractAlgorithm[Any]:
        """Make the method with these settings.

        Raises:
            SettingError: A setting does not exist, or a required one is missing.
        """
        parameters = inspect.signature(self.make).parameters
        for name in settings:
            allowed = f"one of: {', '.join(self.settings)}"
            require(name in self.settings, f"setting of {self.name}", name, allowed)
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
        method = self.make(**{k: value for k, value in settings.items() if k in parameters})
        common = {
            name: value
            for name, value in settings.items()
            if name not in parameters and value is not COMMON[name].default
        }
        if common:
            assert isinstance(method, FedPlus)
            method = method.replace(**common)
        return method


class CommonSetting(NamedTuple):
    """A setting that every preset takes besides its own."""

    default: Any
    meaning: str


COMMON: dict[str, CommonSetting] = {
    "aggregate": CommonSetting(
        None,
        'The aggregator of the parties\' models, as a table such as { name = "krum" } or, in Python, '
        "an object such as fedplus.Krum(). By default the method's own.",
    ),
    "join": CommonSetting(
        "current",
        'How a party takes part for the first time. "current": it starts at the current global '
        'model, and is aggregated from then on. "first": it starts at the first model, which is '
        "aggregated for it from the first round on, as printed in Algorithm 1 (Deviation D18 in "
        "docs/deviations.md).",
    ),
    "optimizer": CommonSetting(
        "sgd",
        f"The optimizer of local steps: {', '.join(OPTIMIZERS)} or, in Python, a function from a "
        "learning rate to an Optax transformation, such as optax.adam. Its updates for the learning "
        "rate 1 are multiplied by η.",
    ),
    "keep_optimizer_state": CommonSetting(
        False,
        "Whether each party keeps the state of its optimizer from round to round. Otherwise every "
        "round begins with a new state, and a party stores nothing.",
    ),
    "server_optimizer": CommonSetting(
        None,
        "How the global model moves to the aggregate, as a table such as "
        '{ name = "adam", eta = 0.1 } or, in Python, an object of fedplus.server_optimizer. By default '
        "the method's own.",
    ),
    "fine_tune": CommonSetting(
        0,
        "The number of gradient steps, without a pull, with which a party adapts its model before it "
        "uses it. All layers are adapted.",
    ),
    "fine_tune_eta": CommonSetting(
        None,
        "The learning rate of the fine-tuning. By default the η of the first round, and of the layer "
        "where it is largest.",
    ),
}
"""The settings of ``FedPlus`` and ``LocalSolve`` that every preset takes besides its own. If
``aggregate`` is None, the preset keeps its own aggregator."""


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
            "layers", presets.layers, "Fed+ with a ψ, σ, λ and η for each group of layers", "own",
            "1", "1, without private layers", "E", FED_PLUS,
        ),
        Method(
            "fedavg-ft", presets.fedavg_ft, "FedAvg, fine-tuned by each party", "adapted", "0", "1",
            "E", "Ogier du Terrail et al., FLamby, NeurIPS 2022",
        ),
        Method(
            "fedavg-decay", presets.fedavg_decay, "FedAvg with a decreasing learning rate", "global",
            "0", "1", "E", "Li et al., On the Convergence of FedAvg on Non-IID Data, ICLR 2020",
        ),
        Method(
            "local-fixed-point", presets.local_fixed_point, "relaxed local steps, then the mean",
            "global", "0", "1", "E",
            "Malinovsky et al., From Local SGD to Local Fixed-Point Methods, ICML 2020",
        ),
        Method(
            "fedavgm", presets.fedavgm, "FedAvg with momentum on the server", "global", "0", "1", "E",
            "Hsu, Qi and Brown, Measuring the Effects of Non-Identical Data Distribution, 2019",
        ),
        Method(
            "fedadam", presets.fedadam, "FedAvg with Adam on the server", "global", "0", "1", "E",
            "Reddi et al., Adaptive Federated Optimization, ICLR 2021",
        ),
        Method(
            "fedyogi", presets.fedyogi, "FedAvg with Yogi on the server", "global", "0", "1", "E",
            "Reddi et al., Adaptive Federated Optimization, ICLR 2021",
        ),
        Method(
            "fedadagrad", presets.fedadagrad, "FedAvg with Adagrad on the server", "global", "0", "1",
            "E", "Reddi et al., Adaptive Federated Optimization, ICLR 2021",
        ),
        Method(
            "fedper", presets.fedper, "a private head on a shared body", "own", "1",
            "the body of the model", "E",
            "Arivazhagan et al., Federated Learning with Personalization Layers, 2019",
        ),
        Method(
            "fedrep", presets.fedrep, "FedPer, with steps of the head before steps of the body", "own",
            "1", "the body of the model", "E",
            "Collins et al., Exploiting Shared Representations for Personalized FL, ICML 2021",
        ),
        Method(
            "lg-fedavg", presets.lg_fedavg, "a shared head on a private body", "own", "1",
            "the head of the model", "E", "Liang et al., Think Locally, Act Globally, 2020",
        ),
        Method(
            "fedbabu", presets.fedbabu, "FedAvg of the body with a fixed head, then fine-tuning",
            "adapted", "0", "the body of the model", "E", "Oh, Kim and Yun, FedBABU, ICLR 2022",
        ),
        Method(
            "mr-mtl", presets.mr_mtl, "personal models, regularised towards their mean", "own", "1",
            "1", "E", "Liu et al., On Privacy and Personalization in Cross-Silo FL, NeurIPS 2022",
        ),
        Method(
            "localupdate", baselines.LocalUpdate, "a weighted sum of the gradients of local steps",
            "global", "0", "1", "E",
            "Charles and Konečný, On the Outsized Importance of Learning Rates, 2020",
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
            "1", "1, and receives m", "E, and m + 1 losses",
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
    Ditto(eta=0.1, lam=0.5, aggregate=None, optimizer='sgd')
    """
    return lookup(name, METHODS, "method")
