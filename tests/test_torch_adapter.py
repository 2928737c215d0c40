"""The PyTorch adapter agrees with the formulas and with the NumPy party."""

import numpy as np
import pytest
from flwr.clientapp import ClientApp

import fedplus as fp
from fedplus.flower import FedPlus, InProcessGrid, Party
from linear_federation import FEATURES, PARTIES, STEPS, FixedTarget, make_app, samples, zeros

torch = pytest.importorskip("torch")
adapter = pytest.importorskip("fedplus.torch")

METHOD = fp.presets.fedgeomed_plus(eta=0.1, sigma=0.5)


@pytest.mark.parametrize("make", [
    lambda p: torch.optim.SGD(p, lr=0.1),
    lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    lambda p: torch.optim.Adam(p, lr=0.1),
])  # fmt: skip
def test_a_step_of_torch_is_the_optimizers_step_followed_by_the_pull(make):
    torch.manual_seed(0)
    model, twin = torch.nn.Linear(3, 2), torch.nn.Linear(3, 2)
    adapter.put_arrays(twin, adapter.arrays(model))
    anchor = {n: np.full(p.shape, 0.25, np.float32) for n, p in model.named_parameters()}
    pull = adapter.Pull(make(model.parameters()), model, FixedTarget(0.8, anchor))
    plain = make(twin.parameters())
    x = torch.randn(5, 3)
    for _ in range(4):
        for net, optimizer in ((model, pull), (twin, plain)):
            optimizer.zero_grad()
            net(x).square().sum().backward()
            optimizer.step()
        with torch.no_grad():
            for p in twin.parameters():
                p.mul_(0.8).add_(0.2 * 0.25)
    for name, array in adapter.arrays(model).items():
        np.testing.assert_allclose(array, adapter.arrays(twin)[name], atol=1e-6)


def test_step_returns_the_loss_of_a_closure():
    model = torch.nn.Linear(1, 1)
    anchor = adapter.arrays(model)
    optimizer = adapter.Pull(torch.optim.LBFGS(model.parameters()), model, FixedTarget(0.9, anchor))

    def closure():
        optimizer.zero_grad()
        loss = model(torch.ones(2, 1)).square().sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() >= 0


def test_buffers_stay_with_the_party():
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    model(torch.randn(8, 3))
    assert not set(adapter.arrays(model)) & set(adapter.buffers(model))
    other = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    adapter.put_buffers(other, {})
    adapter.put_buffers(other, adapter.buffers(model))
    assert other[1].num_batches_tracked == 1
    np.testing.assert_array_equal(other[1].running_mean, model[1].running_mean)
    with pytest.raises(fp.SettingError, match=r"^the names of the parameters must be .*, got x"):
        adapter.put_arrays(model, {"x": np.zeros(1)})
    with pytest.raises(fp.SettingError, match=r"must be 0\.weight"):
        adapter.Pull(
            torch.optim.SGD(model.parameters(), lr=1), model, FixedTarget(1, {"x": np.zeros(1)})
        )


def test_a_federation_with_torch_equals_one_with_numpy(tmp_path):
    data = samples()
    app = ClientApp()

    @app.train()
    def train(message, context):
        k = context.node_config["partition-id"]
        party = Party(message, context, tmp_path / "torch" / str(k))
        model = torch.nn.Linear(FEATURES, 1)
        adapter.put_arrays(model, party.start)
        optimizer = adapter.Pull(torch.optim.SGD(model.parameters(), lr=0.1), model, party)
        x, y = (torch.as_tensor(a) for a in data[k])
        for _ in range(STEPS):
            optimizer.zero_grad()
            (0.5 * (model(x)[:, 0] - y).square().mean()).backward()
            optimizer.step()
        return party.reply(adapter.arrays(model), {"num-examples": len(x)})

    with_torch, with_numpy = FedPlus(METHOD, rounds=5), FedPlus(METHOD, rounds=5)
    with_torch.run(InProcessGrid(app, PARTIES), zeros())
    with_numpy.run(InProcessGrid(make_app(METHOD, tmp_path / "numpy"), PARTIES), zeros())
    np.testing.assert_allclose(with_torch.state.w_global, with_numpy.state.w_global, atol=1e-5)
