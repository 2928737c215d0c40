"""Specifications and runs of FedProx's federations, on which Figure 4 and the scaling study train."""

import sys
from collections.abc import Iterator, Sequence
from typing import Any

from papers.fed_plus.specs import load_spec, select_methods, spec_names
from papers.fed_plus.study import StudyOptions
from papers.fed_plus.training import ended_runs, train_specs

from fedplus.experiments.run_folder import RunFolder
from fedplus.experiments.spec import Spec

PREFIX = "figure4-"
GPU_DATA_SET = "sent140"
"""The data set that is trained on a GPU: a CPU would take hours for its LSTM."""
MAX_SEEDS = 3
QUICK_SPEC = "figure4-synthetic"
"""The specification of a quick trial."""
SERVERS: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "dropped": (("fedavg",), {"weights": "size", "drop": True}),
    "by-size": (("fedprox", "rfa"), {"weights": "size"}),
}
"""Methods whose authors use another server than Algorithm 1: parties are weighted by their samples, and
in FedProx's comparison FedAvg drops stragglers. The other methods use every reply, equally weighted."""
QUICK_MODELS: dict[str, dict[str, Any]] = {"sent140": {"model.hidden": 16}}
METHOD_ORDER = ("local", "fedavg", "fedprox", "rfa", "comed", "fedavg+", "fedgeomed+", "fedcomed+")


def with_shared_folder(options: StudyOptions) -> StudyOptions:
    """Return the options with the folder that both studies share, and at most ``MAX_SEEDS`` seeds."""
    return options._replace(
        folder=options.folder.parent / "figure4", seeds=options.seeds[:MAX_SEEDS]
    )


def data_sets(options: StudyOptions) -> list[str]:
    """Return the data sets that ``--only`` selects; without it a quick trial has one."""
    names = [name for name in spec_names(PREFIX) if options.only in name]
    is_trial = options.quick and not options.only
    return [name.removeprefix(PREFIX) for name in names if not is_trial or name == QUICK_SPEC]


def is_trained_here(options: StudyOptions, data: str) -> bool:
    """Return whether a data set is trained with these options: Sent140 only on a GPU or by name."""
    return data != GPU_DATA_SET or options.device == "gpu" or data in options.only


def quick_settings(data: str) -> dict[str, Any]:
    """Return the settings of a quick trial."""
    return {"train.rounds": 4, "train.evaluate_every": 2, **QUICK_MODELS.get(data, {})}


def specs_by_folder(
    options: StudyOptions, data: str, settings: dict[str, Any] | None = None
) -> dict[str, Spec]:
    """Return the specifications of a data set by folder name, one for each kind of server.

    Args:
        options: Options of the study.
        data: Name of the data set.
        settings: Settings that replace those of the specification; they must set ``data.first``.
    """
    overrides = (quick_settings(data) if options.quick else {}) | (settings or {})
    spec = load_spec(f"{PREFIX}{data}", overrides, options.seeds[:MAX_SEEDS])
    spec = select_methods(spec, options)
    folder = data if settings is None else f"{data}-first-{overrides.get('data.first')}"
    server_of = {method: server for server, (methods, _) in SERVERS.items() for method in methods}
    specs = {}
    for server in (None, *SERVERS):
        methods = [method for method in spec.methods if server_of.get(method.name) == server]
        if methods:
            name = folder if server is None else f"{folder}-{server}"
            specs[name] = _with_server(spec.model_copy(update={"methods": methods}), server)
    return specs


def _with_server(spec: Spec, server: str | None) -> Spec:
    if server is None:
        return spec
    settings, stragglers = SERVERS[server][1], spec.train.stragglers
    assert stragglers is not None
    stragglers = stragglers.model_copy(update={"drop": settings.get("drop", False)})
    update = {"weights": settings["weights"], "stragglers": stragglers}
    return spec.model_copy(update={"train": spec.train.model_copy(update=update)})


def train_data_sets(
    options: StudyOptions, specs_of_data: Sequence[tuple[str, dict[str, Spec]]]
) -> None:
    """Train the runs that have not ended, all in one set of jobs.

    Args:
        options: Options of the study.
        specs_of_data: Pairs of a data set and its specifications by folder name.
    """
    skipped = [data for data, _ in specs_of_data if not is_trained_here(options, data)]
    for data in dict.fromkeys(skipped):
        message = f"{data}: skipped, because its LSTM needs a GPU: --device gpu, or --only {data}"
        print(message, file=sys.stderr, flush=True)
    shared = with_shared_folder(options)
    shared.folder.mkdir(parents=True, exist_ok=True)
    for slim in (False, True):  # The LSTM's runs are slim: each party's model has 3 MB.
        specs = {
            name: spec
            for data, of_data in specs_of_data
            if is_trained_here(options, data) and (data == GPU_DATA_SET) == slim
            for name, spec in of_data.items()
        }
        train_specs(shared, specs, slim=slim)


def finished_runs(
    options: StudyOptions, specs: dict[str, Spec]
) -> Iterator[tuple[str, str, list[RunFolder]]]:
    """Yield name, label and finished runs of each method, in the order of ``METHOD_ORDER``."""
    by_method: dict[str, tuple[str, list[RunFolder]]] = {}
    for name, spec in specs.items():
        for run in ended_runs(spec, with_shared_folder(options).folder / name):
            if run.status["state"] == "finished":
                method, label = run.status["method"], run.status["label"]
                by_method.setdefault(method, (label, []))[1].append(run)
    for method in sorted(by_method, key=METHOD_ORDER.index):
        yield method, *by_method[method]
