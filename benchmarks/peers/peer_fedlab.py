"""FedLab's FedAvg and SCAFFOLD in its standalone pipeline: serial trainer, one process.

Its Ditto (1.3.0) cannot run: it calls a module, ``tqdm``, and attributes that nothing sets.
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
    """The parties' minibatches, where FedLab asks for data loaders."""

    def __init__(self, made):
        super().__init__()
        self.made, self.num = made, len(made)

    def get_dataloader(self, id, batch_size=None, type="train"):  # noqa: A002
        """Party ``id``'s."""
        return self.made[id]


class Timed(StandalonePipeline):
    """FedLab's loop; where it evaluates, the clock ticks."""

    def evaluate(self):
        """End the loop when all is measured."""
        if clock.tick():
            self.handler.global_round = self.handler.round


logging.disable(logging.CRITICAL)
asked = arguments(tuple(METHODS))
work = asked.workload
data, rows = tensors(work)
model = make_model(work)
losses = [loss_on(work, model, rows)]
clock = Clock(asked.seconds, THREADS, torch.set_num_threads)
trainer_class, handler_class = METHODS[asked.method]
trainer = trainer_class(model, work.parties)
trainer.setup_dataset(Parties([Minibatches(work, x, y, k) for k, (x, y) in enumerate(data)]))
trainer.setup_optim(1, work.batch, work.eta)
trainer.criterion = loss_class(work)()
handler = handler_class(model, sys.maxsize, work.active / work.parties)
if asked.method == "scaffold":
    handler.setup_optim(1.0)
Timed(handler, trainer).main()
losses.append(loss_on(work, handler.model, rows))
clock.report("fedlab", version("fedlab"), asked, losses)
