# ruff: noqa: E402
"""Time FedJAX's FedAvg and APFL, with the faster of its backends.

In one trial on two busy cores, ``jit`` on one device took less than half the time of ``pmap`` on one
device per core for logistic regression. For the LSTM, ``pmap`` took about three quarters of the time of
``jit``.
"""

import os

from clock import Clock, arguments

options = arguments(("fedavg", "apfl"))
work = options.workload
BACKEND = "pmap" if work.model == "lstm" else "jit"
devices = os.cpu_count() if BACKEND == "pmap" else 1
os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={devices}"
os.environ["JAX_PLATFORMS"] = "cpu"

from importlib.metadata import version

import fedjax
import haiku as hk
import jax
import jax.numpy as jnp
import optax
from fedjax.algorithms import apfl, fed_avg
from workloads import HIDDEN, METHODS, check_rows, federation


def forward(batch):
    """Return the logits of a batch."""
    x = batch["x"]
    if work.model == "logistic":
        return hk.Linear(work.classes, w_init=jnp.zeros)(x)
    layers = hk.DeepRNN([hk.LSTM(HIDDEN), hk.LSTM(HIDDEN)])
    states, _ = hk.dynamic_unroll(
        layers, x, layers.initial_state(x.shape[0]), time_major=False, unroll=1
    )
    return hk.Linear(1)(states[:, -1])[:, 0]


def train_loss(batch, logits):
    """Return the loss of each row of a batch."""
    if work.model == "logistic":
        return optax.softmax_cross_entropy_with_integer_labels(logits, batch["y"])
    return optax.sigmoid_binary_cross_entropy(logits, batch["y"])


def loss_on(params):
    """Return the mean loss on the check rows, which shows whether a model has trained."""
    batch = {"x": rows[0], "y": rows[1]}
    return train_loss(batch, model.apply_for_train(params, batch, None)).mean()


data = federation(work)
rows = check_rows(data)
model = fedjax.create_model_from_haiku(
    hk.transform(forward), {"x": data[0][0][: work.batch]}, train_loss
)
clients = fedjax.InMemoryFederatedData(
    {b"%06d" % k: {"x": x, "y": y} for k, (x, y) in enumerate(data)}
)
sampler = fedjax.client_samplers.UniformGetClientSampler(clients, work.active, seed=0)
batches = fedjax.ShuffleRepeatBatchHParams(
    batch_size=work.batch, num_epochs=work.epochs, num_steps=work.steps
)
grad, sgd = fedjax.model_grad(model), fedjax.optimizers.sgd(work.eta)
server = fedjax.optimizers.sgd(1.0)
fedjax.set_for_each_client_backend(BACKEND)
if options.method == "apfl":
    algorithm = apfl.adaptive_personalized_federated_learning(
        grad, sgd, server, batches, METHODS["apfl"]["alpha"]
    )
else:
    algorithm = fed_avg.federated_averaging(grad, sgd, server, batches)
state = algorithm.init(model.init(jax.random.PRNGKey(0)))
losses = [loss_on(state.params)]
clock = Clock(options.seconds)
number, done = 0, False
while not done:
    sampler.set_round_num(number)
    state, _ = algorithm.apply(state, sampler.sample())
    jax.block_until_ready(state.params)
    number, done = number + 1, clock.tick()
losses.append(loss_on(state.params))
clock.report("fedjax", version("fedjax"), options, losses, jax=jax.__version__, setting=BACKEND)
