"""Time pfl-research's FedAvg and SCAFFOLD in its simulated backend: one process, tensors in memory.

SCAFFOLD uses the faster of pfl's two options. It was seen to diverge on A10 after some tens of rounds.
"""

import logging
import os
import sys
from importlib.metadata import version

import numpy as np

os.environ.setdefault("PFL_PYTORCH_DEVICE", "cpu")

import torch
from clock import Clock, arguments
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.algorithm.scaffold import SCAFFOLD, SCAFFOLDParams
from pfl.callback.base import TrainingProcessCallback
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.pytorch import PyTorchTensorDataset
from pfl.data.sampling import get_user_sampler
from pfl.data.user_state import InMemoryUserStateStorage
from pfl.hyperparam import NNTrainHyperParams
from pfl.metrics import Metrics
from pfl.model.pytorch import PyTorchModel
from torch_parts import THREADS, loss_class, loss_on, make_model, tensors
from workloads import draw

logging.disable(logging.CRITICAL)
options = arguments(("fedavg", "scaffold"))
work = options.workload
data, rows = tensors(work)
module = make_model(work)
losses = [loss_on(work, module, rows)]
loss = loss_class(work)()
module.loss = lambda x, y: loss(module(x), y)
module.metrics = lambda x, y: {}  # pfl calls it in iteration 0 at any evaluation frequency.
clock = Clock(options.seconds, THREADS, torch.set_num_threads)
rng = np.random.default_rng(0)


def rows_of(k):
    """Return the samples that party k uses in a round, so that one epoch is the work of the round."""
    x, y = data[k]
    index = torch.from_numpy(draw(work, len(x), rng))
    return PyTorchTensorDataset((x[index], y[index]), user_id=str(k))


class RoundTimer(TrainingProcessCallback):
    """Callback that stops pfl when enough rounds have been timed."""

    def after_central_iteration(self, aggregate_metrics, model, *, central_iteration):
        """Return whether to stop, and no metrics."""
        return clock.tick(), Metrics()


federated = FederatedDataset(rows_of, get_user_sampler("minimize_reuse", range(work.parties)))
model = PyTorchModel(module, torch.optim.SGD, torch.optim.SGD(module.parameters(), lr=1.0))
general = {
    "central_num_iterations": sys.maxsize,
    "evaluation_frequency": sys.maxsize,
    "train_cohort_size": work.active,
    "val_cohort_size": 0,
}
if options.method == "scaffold":
    algorithm = SCAFFOLD()
    parameters = SCAFFOLDParams(
        **general,
        population=work.parties,
        use_gradient_as_control_variate=False,
        user_state_storage=InMemoryUserStateStorage(),
    )
else:
    algorithm, parameters = FederatedAveraging(), NNAlgorithmParams(**general)
algorithm.run(
    parameters,
    SimulatedBackend(training_data=federated, val_data=None),
    model,
    NNTrainHyperParams(
        local_batch_size=work.batch, local_num_epochs=1, local_learning_rate=work.eta
    ),
    callbacks=[RoundTimer()],
    send_metrics_to_platform=False,
)
losses.append(loss_on(work, module, rows))
clock.report("pfl", version("pfl"), options, losses)
