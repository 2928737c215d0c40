"""Time FedAvg as a plain loop over the parties in PyTorch, without a framework."""

import numpy as np
import torch
from clock import Clock, arguments
from torch_parts import THREADS, Minibatches, loss_class, loss_on, make_model, tensors

options = arguments()
work = options.workload
data, rows = tensors(work)
model = make_model(work)
loss = loss_class(work)()
parties = [Minibatches(work, x, y, k) for k, (x, y) in enumerate(data)]
parameters = list(model.parameters())
rng = np.random.default_rng(0)


@torch.no_grad()
def one_round(w):
    """Train a random cohort from w, and return the mean of its models, weighted by samples."""
    cohort = rng.choice(work.parties, work.active, replace=False)
    total = sum(len(parties[k].x) for k in cohort)
    mean = [torch.zeros_like(p) for p in w]
    for k in cohort:
        torch._foreach_copy_(parameters, w)
        for x, y in parties[k]:
            with torch.enable_grad():
                gradient = torch.autograd.grad(loss(model(x), y), parameters)
            torch._foreach_add_(parameters, gradient, alpha=-work.eta)
        torch._foreach_add_(mean, parameters, alpha=len(parties[k].x) / total)
    return mean


losses = [loss_on(work, model, rows)]
clock = Clock(options.seconds, THREADS, torch.set_num_threads)
w = [p.detach().clone() for p in parameters]
done = False
while not done:
    w = one_round(w)
    done = clock.tick()
with torch.no_grad():
    torch._foreach_copy_(parameters, w)
losses.append(loss_on(work, model, rows))
clock.report("torch_loop", torch.__version__, options, losses)
