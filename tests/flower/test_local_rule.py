"""The rule that the server sends to a party equals Local-Solve, with NumPy and without JAX."""

import subprocess
import sys

import jax.numpy as jnp
import numpy as np
import pytest
from flwr.app import ConfigRecord, Context, Message, MessageType, RecordDict
from hypothesis import given
from hypothesis import strategies as st

import fedplus as fp
from fedplus.flower import Party
from fedplus.flower.in_process_grid import set_sender
from fedplus.flower.local_rule import rule_from_message, rule_to_message
from fedplus.flower.records import Shapes, to_record
from linear_federation import zeros

set_sender()
LAYOUT = (("body/weight", 5), ("head", 3), ("body/bias", 2))
DELTA = st.floats(1e-3, 3.0)
SIMPLE = st.one_of(
    st.just(fp.Zero()), st.just(fp.Anchor()), DELTA.map(fp.Quadratic), DELTA.map(fp.L2),
    DELTA.map(fp.L1),
)  # fmt: skip
BLOCKS = st.tuples(SIMPLE, SIMPLE).map(
    lambda two: fp.Blocks({"body/*": two[0], "*": two[1]}, LAYOUT)
)
BOX = fp.Custom(lambda x: jnp.sum(0 * x), lambda x: jnp.clip(x, -0.1, 0.1))


def message(method, round_=1):
    config = {"server-round": round_, "fedplus-federation": "f"} | rule_to_message(method)
    w_global = {name: array + 0.5 for name, array in zeros().items()}
    content = RecordDict({"arrays": to_record(w_global), "config": ConfigRecord(config)})
    return Message(content, 1, MessageType.TRAIN)


def context():
    return Context(1, 1, {"partition-id": 0}, RecordDict(), {})


@given(
    st.one_of(SIMPLE, BLOCKS), st.floats(0.01, 1), st.floats(0.1, 1.0), st.floats(0, 1),
    st.integers(0, 99),
)  # fmt: skip
def test_start_anchor_and_kappa_equal_those_of_local_solve(psi, eta, sigma, lam, seed):
    local = fp.LocalSolve(psi, eta=eta, sigma=1 / eta * 0.05 * (1 + sigma), lam=lam)
    w_k, w_global = np.random.default_rng(seed).normal(size=(2, 10)).astype(np.float32)
    rule = rule_from_message(rule_to_message(fp.FedPlus(local)), LAYOUT)
    theta = local.psi.prox(jnp.asarray(w_k - w_global))
    np.testing.assert_allclose(rule.anchor(w_k, w_global), w_global + theta, atol=2e-6)
    np.testing.assert_allclose(rule.start(w_k, w_global), local.start(w_k, w_global), atol=2e-6)
    assert rule.kappa == pytest.approx(float(local.kappa))
    assert rule.eta == eta


def test_a_party_does_not_import_jax(tmp_path):
    """It runs in a process of its own, because Flower starts one for every message."""
    code = """
import sys
import numpy as np
from flwr.app import ConfigRecord, Context, Message, MessageType, RecordDict
import fedplus.sklearn
from fedplus.flower import Party
from fedplus.flower.records import to_record

class Request:
    content = RecordDict({
        "arrays": to_record({"w": np.ones(3, np.float32)}),
        "config": ConfigRecord({
            "server-round": 1, "fedplus-federation": "f", "fedplus-eta": 0.1, "fedplus-sigma": 0.5,
            "fedplus-lam": 0.0, "fedplus-psi": '[["*", "L2", 0.1]]',
        }),
    })

party = Party(Request(), Context(1, 1, {}, RecordDict(), {}), sys.argv[1])
assert party.pull(party.start)["w"].tolist() == [1, 1, 1]
print([name for name in ("jax", "optax", "scipy", "sklearn", "pandas") if name in sys.modules])
"""
    command = [sys.executable, "-c", code, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("[]\n", 0), done.stderr


def test_a_custom_psi_must_be_given_to_the_party(tmp_path):
    method = fp.FedPlus(fp.LocalSolve(BOX, eta=0.1, sigma=0.5))
    assert "fedplus-psi" not in rule_to_message(method)
    with pytest.raises(
        fp.SettingError, match=r"give the party the server's.*Party\(\.\.\., method"
    ):
        Party(message(method), context(), tmp_path)
    party = Party(message(method), context(), tmp_path, method=method)
    party.reply({name: array + 2 for name, array in zeros().items()})
    second = Party(message(method, round_=2), context(), tmp_path, method=method)
    assert second.anchor["bias"][0] == pytest.approx(0.5 + 0.1)
    with pytest.raises(fp.SettingError, match="method must be a FedPlus, got str"):
        Party(message(method), context(), tmp_path, method="fedgeomed+")


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"fedplus-psi": '[["*", "L7", 0.1]]'}, "server's ψ must be one of Zero.*got 'L7'"),
        ({"fedplus-psi": '[["*", "L2", -1]]'}, "server's δ must be"),
        ({"fedplus-psi": '[["*", "L1", 0]]'}, "server's δ must be a finite number > 0"),
        ({"fedplus-psi": '[["head", "L2", 1]]'}, "a cover of all parameters, got no pattern"),
        ({"fedplus-eta": -0.1}, "server's η must be a finite number ≥ 0, got -0.1"),
        ({"fedplus-lam": 2.0}, "server's λ must be"),
    ],
)
def test_invalid_settings_in_the_message_are_refused(changed, error):
    config = rule_to_message(fp.presets.fedgeomed_plus(eta=0.1, sigma=0.5)) | changed
    with pytest.raises(fp.SettingError, match=error):
        rule_from_message(config, Shapes.from_arrays(zeros()).layout)


def test_a_schedule_may_reach_a_learning_rate_of_0():
    method = fp.presets.fedprox(eta=fp.schedules.Linear(0.1, 0.0, rounds=3), sigma=0.5)
    rule = rule_from_message(rule_to_message(fp.at_round(method, 3)), LAYOUT)
    assert (rule.eta, rule.kappa) == (0, 1)
