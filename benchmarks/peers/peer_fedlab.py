"""Time FedLab's FedAvg and SCAFFOLD in its standalone pipeline, with its serial trainer in one process.

The Ditto of FedLab 1.3.0 cannot run: it calls the module ``tqdm``, and reads attributes that are never
set.
"""

import logging
import sys
from importlib.metadata import version

import torch
import without_torchvision  # noqa: F401
from clock import Clock, arguments
from fedlab.contrib.algorithm import (
    FedAvgSerialClientTrainer,
    FedAvgServerHandler,
    ScaffoldSerialClientTrainer,
    ScaffoldServerHandler,
)
from fedlab.contrib.dataset.basic_dataset import FedDataset
from fedlab.core.standalone import StandalonePipeline
from torch_parts import THREADS, Minibatches, loss_class, loss_on, make_model, tensors

METHODS = {
    "fedavg": (FedAvgSerialClientTrainer, FedAvgServerHandler),
    "scaffold": (ScaffoldSerialClientTrainer, ScaffoldServerHandler),
}


class Parties(FedDataset):
    """Data set that gives FedLab the parties' minibatches in place of data loaders."""

    def __init__(self, made):
        super().__init__()
        self.made, self.num = made, len(made)

    def get_dataloader(self, id, batch_size=None, type="train"):  # noqa: A002
        """Return the minibatches of party ``id``."""
        return self.made[id]


class Timed(StandalonePipeline):
    """FedLab's training loop, with the clock in place of its evaluation."""

    def evaluate(self):
        """Record the end of a round, and stop the loop if enough rounds have been timed."""
        if clock.tick():
            self.handler.global_round = self.handler.round


logging.disable(logging.CRITICAL)
options = arguments(tuple(METHODS))
work = options.workload
data, rows = tensors(work)
model = make_model(work)
losses = [loss_on(work, model, rows)]
clock = Clock(options.seconds, THREADS, torch.set_num_threads)
trainer_class, handler_class = METHODS[options.method]
trainer = trainer_class(model, work.parties)
trainer.setup_dataset(Parties([Minibatches(work, x, y, k) for k, (x, y) in enumerate(data)]))
trainer.setup_optim(1, work.batch, work.eta)
trainer.criterion = loss_class(work)()
handler = handler_class(model, sys.maxsize, work.active / work.parties)
if options.method == "scaffold":
    handler.setup_optim(1.0)
Timed(handler, trainer).main()
losses.append(loss_on(work, handler.model, rows))
clock.report("fedlab", version("fedlab"), options, losses)
