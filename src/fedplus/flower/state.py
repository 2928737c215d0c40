"""The server's state between rounds, in memory and on disk."""

import dataclasses
import time
import uuid
from collections.abc import Iterable, Mapping
from logging import INFO, WARNING
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flwr.common import log

from fedplus._checkpoint_file import Checkpoint, changed_settings, save
from fedplus._types import NumpyArray
from fedplus.check import SettingError
from fedplus.flower.records import Shapes
from fedplus.flower.restore import latest_intact_checkpoint

MODEL = "model"
"""The setting that a federation can never change, because its models would no longer fit."""
SERVER_PREFIX = "server/"
"""Prefix of the names of the arrays of the server's optimizer."""


@dataclasses.dataclass
class ServerState:
    """w̃, W, the parties and the progress of a federation."""

    shapes: Shapes
    federation: str
    """The name under which parties save their models; a restarted server keeps it."""
    w_global: NumpyArray
    settings: dict[str, Any]
    """The settings of the method, by name."""
    models: dict[int, NumpyArray] = dataclasses.field(default_factory=dict)
    """The last accepted model of each party, by node."""
    parties: list[int] = dataclasses.field(default_factory=list)
    """The nodes in the order of their first accepted reply, which is their order in the run folder."""
    identities: dict[int, str] = dataclasses.field(default_factory=dict)
    """The SHA-256 of the secret that a party sends with its replies, by node."""
    changes: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    """One entry for each time that the federation continued with other settings."""
    joined: set[int] = dataclasses.field(default_factory=set)
    """The nodes that had an accepted reply."""
    departed: set[int] = dataclasses.field(default_factory=set)
    """The nodes that were forgotten and had no accepted reply since."""
    replaced: set[int] = dataclasses.field(default_factory=set)
    """The old nodes of parties whose key was replaced; their new nodes count instead."""
    w_first: NumpyArray | None = None
    """The first model, if parties start from it (``join="first"``)."""
    server_state: Any = ()
    """The state of the server's optimizer."""
    rounds_done: int = 0
    """The number of rounds, including skipped ones."""
    rounds_skipped: int = 0

    @classmethod
    def create(cls, arrays: Mapping[str, NumpyArray], settings: Mapping[str, Any]) -> "ServerState":
        """Return the state of a new federation.

        Args:
            arrays: The first model, by name.
            settings: The settings of the method, by name.
        """
        shapes = Shapes.from_arrays(arrays)
        return cls(shapes, uuid.uuid4().hex, shapes.flatten(arrays), dict(settings))

    @classmethod
    def restore(
        cls, arrays: Mapping[str, NumpyArray], folder: Path, settings: Mapping[str, Any],
        allow_changes: bool,
    ) -> "ServerState":  # fmt: skip
        """Return the state from the newest checkpoint, or of a new federation if there is none.

        Args:
            arrays: The first model, for its names and shapes.
            folder: The folder of checkpoints.
            settings: The settings of the method, by name.
            allow_changes: Whether to continue if the settings have changed.

        Raises:
            SettingError: The settings differ and changes are not allowed, or the model differs.
        """
        checkpoint = latest_intact_checkpoint(folder)
        state = cls.create(arrays, settings)
        if checkpoint is None:
            return state
        saved_arrays, saved = checkpoint.arrays, checkpoint.settings
        state.rounds_done, state.rounds_skipped = checkpoint.round, saved["skipped"]
        state.changes = list(saved.get("changes", ()))
        state._check_settings(saved, folder, allow_changes)
        state.federation = saved["federation"]
        state.w_global = saved_arrays["w_global"]
        nodes = saved_arrays["nodes"].astype(np.uint64).tolist()
        state.models = dict(zip(nodes, saved_arrays["models"], strict=True))
        state.identities = {int(node): value for node, value in saved.get("identities", {}).items()}
        state.parties = list(map(int, saved.get("parties", ())))
        state.joined = set(saved.get("joined", (*nodes, *state.parties)))
        state.departed = set(saved.get("left", ()))
        state.replaced = set(saved.get("replaced", ()))
        state.w_first = saved_arrays.get("w_first")
        leaves = sorted(name for name in saved_arrays if name.startswith(SERVER_PREFIX))
        state.server_state = [saved_arrays[name] for name in leaves]
        if "first" in saved_arrays:  # The old format also has parties that have never replied.
            first = saved_arrays["first"]
            state.models = {
                node: w for node, w in state.models.items() if not np.array_equal(w, first)
            }
        return state

    def _check_settings(self, saved: Mapping[str, Any], folder: Path, allow_changes: bool) -> None:
        """Compare the settings with those of the checkpoint; refuse changes unless allowed."""
        before = saved.get("method", self.settings) | {MODEL: saved["shapes"]}
        changed = changed_settings(before, self.settings | {MODEL: self.shapes.to_json()})
        if not changed:
            return
        listed = "; ".join(f"{name} was {was}, is {now}" for name, was, now in changed)
        is_possible = all(name != MODEL for name, _, _ in changed)
        if not (allow_changes and is_possible):
            advice = (
                "To continue with the new settings, set allow_changes=True, or allow-changes=true in "
                "the run configuration."
            )
            raise SettingError(
                f"{folder.parent} belongs to a federation with other settings: {listed}. "
                "Restore the settings, or choose another folder for a new federation. "
                f"{advice if is_possible else 'Another model needs another folder.'}"
            )
        done = self.rounds_done
        log(WARNING, "Continuing after round %s with other settings, as allowed: %s", done, listed)
        when = time.strftime("%Y-%m-%dT%H:%M:%S%z")
        self.changes.append({"after_round": done, "when": when, "changed": changed})

    def forget(self, nodes: Iterable[int]) -> None:
        """Remove the last models of these nodes.

        Their identities stay, so that a party that returns with a new key is the same party.
        """
        for node in nodes:
            has_model = self.models.pop(node, None) is not None
            if node not in self.replaced:
                self.departed.add(node)
            log(
                INFO, "forget: node %s %s", node, "is removed" if has_model else "has no model here"
            )

    def init_server_optimizer(self, initial: Any) -> None:
        """Set the state of the server's optimizer: the saved one, or the initial one if none fits.

        Args:
            initial: The state before the first round.
        """
        leaves, structure = jax.tree.flatten(jax.tree.map(jnp.asarray, initial))
        saved = list(map(jnp.asarray, self.server_state))
        is_same = [(x.shape, x.dtype) for x in saved] == [(x.shape, x.dtype) for x in leaves]
        if saved and leaves and not is_same:
            log(WARNING, "The server's optimizer is another one and begins with a new state")
        self.server_state = jax.tree.unflatten(structure, saved) if is_same else initial

    def save(self, folder: Path) -> None:
        """Write a checkpoint to a folder, which keeps the last two."""
        nodes = sorted(self.models)
        empty = np.zeros((0, self.w_global.size), np.float32)
        arrays = {
            "w_global": self.w_global,
            "nodes": np.array(nodes, np.uint64),
            "models": np.stack([self.models[node] for node in nodes]) if nodes else empty,
        }
        if self.w_first is not None:
            arrays["w_first"] = self.w_first
        for i, leaf in enumerate(jax.tree.leaves(self.server_state)):
            arrays[f"{SERVER_PREFIX}{i:03d}"] = np.asarray(leaf)
        settings = {
            "shapes": self.shapes.to_json(), "federation": self.federation,
            "skipped": self.rounds_skipped, "method": self.settings, "changes": self.changes,
            "parties": self.parties, "identities": self.identities,
            "joined": sorted(self.joined), "left": sorted(self.departed),
            "replaced": sorted(self.replaced),
        }  # fmt: skip
        save(folder, Checkpoint(self.rounds_done, settings, arrays))
