"""fluke's FedAvg, SCAFFOLD, Ditto, APFL and pFedMe: models in memory, evaluation off."""

import sys
import warnings
from importlib.metadata import version

import torch
from clock import Clock, arguments
from fluke import DDict, FlukeENV
from fluke.algorithms.apfl import APFL
from fluke.algorithms.ditto import Ditto
from fluke.algorithms.fedavg import FedAVG
from fluke.algorithms.pfedme import PFedMe, PFedMeOptimizer
from fluke.algorithms.scaffold import SCAFFOLD
from fluke.data import FastDataLoader
from fluke.server import EarlyStopping
from torch_parts import THREADS, Minibatches, loss_class, loss_on, make_model, tensors
from workloads import METHODS

CLASSES = {
    "fedavg": FedAVG, "scaffold": SCAFFOLD, "ditto": Ditto, "apfl": APFL, "pfedme": PFedMe
}  # fmt: skip


class Loader(FastDataLoader):
    """fluke's loader with a round's minibatches for an epoch: it has no rounds counted in steps."""

    def __init__(self, x, y, minibatches):
        super().__init__(x, y, num_labels=work.classes, batch_size=work.batch)
        self.minibatches = minibatches

    def __iter__(self):
        return iter(self.minibatches)

    def __len__(self):
        return len(self.minibatches)


class Given:
    """The parties' data as they are, where fluke asks for a splitter."""

    def __init__(self, loaders):
        self.loaders = loaders

    def assign(self, n_clients, batch_size):
        """Training data, and no test data."""
        return (self.loaders, [None] * n_clients), None


class Ticks:
    """Stops when all is measured."""

    def end_round(self, round):  # noqa: A002
        """Called by fluke."""
        if clock.tick():
            raise EarlyStopping(round)


warnings.simplefilter("ignore")
asked = arguments(tuple(CLASSES))
work, settings = asked.workload, METHODS[asked.method]
data, rows = tensors(work)
model = make_model(work)
losses = [loss_on(work, model, rows)]
clock = Clock(asked.seconds, THREADS, torch.set_num_threads)
FlukeENV().set_seed(0)
FlukeENV().set_inmemory(True)
FlukeENV().set_eval_cfg(pre_fit=False, post_fit=False, locals=False, server=False)
client = {
    "batch_size": work.batch,
    "local_epochs": 1,
    "loss": loss_class(work),
    "optimizer": {"name": "SGD", "lr": work.eta},
    "scheduler": {"name": "StepLR", "step_size": 1, "gamma": 1},
}
server = {"weighted": True}
if asked.method == "ditto":
    client |= {"model": model, "tau": 1, "lam": settings["lam"]}
elif asked.method == "apfl":
    client |= {"model": model, "lam": settings["alpha"]}
    server |= {"tau": 1}
elif asked.method == "pfedme":
    client["k"] = settings["inner"]
    client["optimizer"] = {"name": PFedMeOptimizer, "lr": work.eta, "lamda": settings["lam"]}
    server["beta"] = settings["beta"]
loaders = [Loader(x, y, Minibatches(work, x, y, k)) for k, (x, y) in enumerate(data)]
federation = CLASSES[asked.method](
    work.parties, Given(loaders), DDict(client=DDict(client), server=DDict(server), model=model)
)
federation.attach(Ticks())
federation.run(sys.maxsize, work.active / work.parties)
losses.append(loss_on(work, federation.server.model, rows))
clock.report("fluke", version("fluke-fl"), asked, losses)
