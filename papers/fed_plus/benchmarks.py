"""The federations of Figure 4 and of the scaling study: specifications, who trains what, and runs."""

import sys
from collections.abc import Iterator, Sequence
from typing import Any

from papers.fed_plus.specs import names, spec, wanted
from papers.fed_plus.study import Asked
from papers.fed_plus.training import runs_of, trained

from fedplus.experiments.run_folder import RunFolder
from fedplus.experiments.spec import Spec

PREFIX = "figure4-"
ON_GPU = "sent140"
"""A CPU would take hours for its LSTM."""
MOST_SEEDS = 3
TRIED = "figure4-synthetic"
"""The data set of a quick try."""
SERVERS: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "dropped": (("fedavg",), {"weights": "size", "drop": True}),
    "by-size": (("fedprox", "rfa"), {"weights": "size"}),
}
"""Methods whose authors have another server than Algorithm 1: parties count by their samples, and in
FedProx's comparison FedAvg drops stragglers. The others take every reply, and all count the same."""
QUICK: dict[str, dict[str, Any]] = {"sent140": {"model.hidden": 16}}


def shared(asked: Asked) -> Asked:
    """The same with the folder that both studies have together."""
    return asked._replace(folder=asked.folder.parent / "figure4", seeds=asked.seeds[:MOST_SEEDS])


def sets(asked: Asked) -> list[str]:
    """The data sets that ``--only`` leaves; without it a try has one."""
    there = [name for name in names(PREFIX) if asked.only in name]
    tried = asked.quick and not asked.only
    return [name.removeprefix(PREFIX) for name in there if not tried or name == TRIED]


def trains(asked: Asked, data: str) -> bool:
    """Whether this one is to be trained here."""
    return data != ON_GPU or asked.device == "gpu" or data in asked.only


def quick(data: str) -> dict[str, Any]:
    """The settings of a try."""
    return {"train.rounds": 4, "train.evaluate_every": 2, **QUICK.get(data, {})}


def specs_of(asked: Asked, data: str, settings: dict[str, Any] | None = None) -> dict[str, Spec]:
    """A data set's specifications by folder: one for each server."""
    given = (quick(data) if asked.quick else {}) | (settings or {})
    whole = wanted(spec(f"{PREFIX}{data}", given, asked.seeds[:MOST_SEEDS]), asked)
    first = given.get("data.first")
    folder = data if settings is None else f"{data}-first-{first}"
    apart = {method: server for server, (theirs, _) in SERVERS.items() for method in theirs}
    made = {}
    for server in (None, *SERVERS):
        methods = [one for one in whole.methods if apart.get(one.name) == server]
        if methods:
            name = folder if server is None else f"{folder}-{server}"
            made[name] = _served(whole.model_copy(update={"methods": methods}), server)
    return made


def _served(of: Spec, server: str | None) -> Spec:
    if server is None:
        return of
    way, late = SERVERS[server][1], of.train.stragglers
    assert late is not None
    late = late.model_copy(update={"drop": way.get("drop", False)})
    train = of.train.model_copy(update={"weights": way["weights"], "stragglers": late})
    return of.model_copy(update={"train": train})


def train(asked: Asked, of: Sequence[tuple[str, dict[str, Spec]]]) -> None:
    """Train what is not finished: data sets with specifications by folder, all side by side."""
    for data in dict.fromkeys(data for data, _ in of if not trains(asked, data)):
        told = f"{data}: left out, for its LSTM needs a GPU: --device gpu, or --only {data}"
        print(told, file=sys.stderr, flush=True)
    place = shared(asked)
    place.folder.mkdir(parents=True, exist_ok=True)
    kept = [(data == ON_GPU, specs) for data, specs in of if trains(asked, data)]
    for slim in (False, True):  # A party's LSTM has 3 MB, and its checkpoint as many.
        together = [one for is_large, specs in kept if is_large == slim for one in specs.items()]
        trained(place, dict(together), slim=slim)


def runs(asked: Asked, specs: dict[str, Spec]) -> Iterator[tuple[str, str, list[RunFolder]]]:
    """Method, label and finished runs, in the order of the specification's methods."""
    found: dict[str, tuple[str, list[RunFolder]]] = {}
    for name, one in specs.items():
        for run in runs_of(one, shared(asked).folder / name):
            if run.status["state"] == "finished":
                method, label = run.status["method"], run.status["label"]
                found.setdefault(method, (label, []))[1].append(run)
    for method in sorted(found, key=ORDER.index):
        yield method, *found[method]


ORDER = ("local", "fedavg", "fedprox", "rfa", "comed", "fedavg+", "fedgeomed+", "fedcomed+")
