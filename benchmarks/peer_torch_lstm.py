"""Train PyTorch's LSTM party after party; ``lstm.py`` runs this in PyTorch's own environment.

For each line on standard input it runs a round, and prints [wall seconds, CPU seconds].
"""

import json
import sys
import time

import torch

PARTIES, BATCH, TOKENS, FEATURES, HIDDEN = 10, 10, 25, 300, 256


class Net(torch.nn.Module):
    """Two LSTM layers, and a logit from the last token's state."""

    def __init__(self):
        super().__init__()
        self.lstm = torch.nn.LSTM(FEATURES, HIDDEN, 2, batch_first=True)
        self.head = torch.nn.Linear(HIDDEN, 1)

    def forward(self, x):  # noqa: D102
        return self.head(self.lstm(x)[0][:, -1])[:, 0]


threads, steps = int(sys.argv[1]), int(sys.argv[2])
torch.set_num_threads(threads)
nets = [Net() for _ in range(PARTIES)]
optimisers = [torch.optim.SGD(net.parameters(), lr=0.3) for net in nets]
x = torch.randn(PARTIES, BATCH, TOKENS, FEATURES)
y = torch.randint(0, 2, (PARTIES, BATCH)).float()
loss = torch.nn.functional.binary_cross_entropy_with_logits
for _ in sys.stdin:
    start, cpu = time.perf_counter(), time.process_time()
    for net, optimiser, inputs, labels in zip(nets, optimisers, x, y, strict=True):
        for _ in range(steps):
            optimiser.zero_grad()
            loss(net(inputs), labels).backward()
            optimiser.step()
    print(json.dumps([time.perf_counter() - start, time.process_time() - cpu]), flush=True)
