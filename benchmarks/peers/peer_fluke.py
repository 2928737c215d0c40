"""Time fluke's FedAvg, SCAFFOLD, Ditto, APFL and pFedMe, with models in memory and no evaluation."""

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
    """Data loader whose epoch is the minibatches of a round, because fluke cannot count steps."""

    def __init__(self, x, y, minibatches):
        super().__init__(x, y, num_labels=work.classes, batch_size=work.batch)
        self.minibatches = minibatches

    def __iter__(self):
        return iter(self.minibatches)

    def __len__(self):
        return len(self.minibatches)


class FixedSplit:
    """Data splitter that returns the parties' data unchanged."""

    def __init__(self, loaders):
        self.loaders = loaders

    def assign(self, n_clients, batch_size):
        """Return the parties' training data, and no test data."""
        return (self.loaders, [None] * n_clients), None


class RoundTimer:
    """Observer that stops fluke when enough rounds have been timed."""

    def end_round(self, round):  # noqa: A002
        """Record the end of a round; fluke calls this."""
        if clock.tick():
            raise EarlyStopping(round)


warnings.simplefilter("ignore")
options = arguments(tuple(CLASSES))
work, settings = options.workload, METHODS[options.method]
data, rows = tensors(work)
model = make_model(work)
losses = [loss_on(work, model, rows)]
clock = Clock(options.seconds, THREADS, torch.set_num_threads)
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
if options.method == "ditto":
    client |= {"model": model, "tau": 1, "lam": settings["lam"]}
elif options.method == "apfl":
    client |= {"model": model, "lam": settings["alpha"]}
    server |= {"tau": 1}
elif options.method == "pfedme":
    client["k"] = settings["inner"]
    client["optimizer"] = {"name": PFedMeOptimizer, "lr": work.eta, "lamda": settings["lam"]}
    server["beta"] = settings["beta"]
loaders = [Loader(x, y, Minibatches(work, x, y, k)) for k, (x, y) in enumerate(data)]
federation = CLASSES[options.method](
    work.parties,
    FixedSplit(loaders),
    DDict(client=DDict(client), server=DDict(server), model=model),
)
federation.attach(RoundTimer())
federation.run(sys.maxsize, work.active / work.parties)
losses.append(loss_on(work, federation.server.model, rows))
clock.report("fluke", version("fluke-fl"), options, losses)
