"""The client of ``peer_flower.py``, in a separate module so that Ray's actors can import it."""

import functools

import numpy as np
import torch
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from torch_parts import Minibatches, loss_class, make_model
from workloads import WORKLOADS

client_app = ClientApp()


@functools.cache
def party(name, folder, k):
    """Return the minibatches of party k; all Ray actors map the same files of samples."""
    torch.set_num_threads(1)
    starts = np.load(f"{folder}/starts.npy")
    x, y = (np.load(f"{folder}/{part}.npy", mmap_mode="c") for part in "xy")
    mine = slice(starts[k], starts[k + 1])
    return Minibatches(WORKLOADS[name], torch.from_numpy(x[mine]), torch.from_numpy(y[mine]), k)


@functools.cache
def model_for(name):
    """Return the model of a workload; each Ray actor has one."""
    return make_model(WORKLOADS[name])


@client_app.train()
def train(message, context):
    """Train one party for a round, and return its model."""
    config = message.content["config"]
    minibatches = party(config["name"], config["folder"], context.node_config["partition-id"])
    work = minibatches.work
    model, loss = model_for(work.name), loss_class(work)()
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    optimizer = torch.optim.SGD(model.parameters(), lr=work.eta)
    for x, y in minibatches:
        optimizer.zero_grad()
        loss(model(x), y).backward()
        optimizer.step()
    content = {
        "arrays": ArrayRecord(model.state_dict()),
        "metrics": MetricRecord({"num-examples": len(minibatches.x)}),
    }
    return Message(RecordDict(content), reply_to=message)
