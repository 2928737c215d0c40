"""The server's knowledge between rounds, in memory and on disk."""

import dataclasses
import time
import uuid
from collections.abc import Iterable, Mapping
from logging import INFO, WARNING
from pathlib import Path
from typing import Any

import numpy as np
from flwr.common import log

from fedplus._checkpoint import Checkpoint, differences, save
from fedplus._types import Host
from fedplus.check import SettingError
from fedplus.flower.records import Shapes
from fedplus.flower.restore import latest_intact_checkpoint

MODEL = "model"
"""The setting that no federation can change: its models would not fit."""


@dataclasses.dataclass
class ServerState:
    """w̃, W and how far the federation is."""

    shapes: Shapes
    federation: str
    """A name that parties keep their models under; a server that goes on keeps it."""
    w_global: Host
    settings: dict[str, Any]
    """The settings of the method, by name."""
    models: dict[int, Host] = dataclasses.field(default_factory=dict)
    """The last accepted model of each party, by its node."""
    parties: list[int] = dataclasses.field(default_factory=list)
    """The nodes in the order of their first accepted reply, which is the order of the records."""
    identities: dict[int, str] = dataclasses.field(default_factory=dict)
    """SHA-256 of the secret that a party sends with its replies, by its node."""
    changes: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    """Each time that the federation continued with other settings: when, and what changed."""
    done: int = 0
    """Rounds, skipped ones too."""
    skipped: int = 0

    @classmethod
    def begun(cls, arrays: Mapping[str, Host], settings: Mapping[str, Any]) -> "ServerState":
        """Return the state of a new federation."""
        shapes = Shapes.of(arrays)
        return cls(shapes, uuid.uuid4().hex, shapes.flat(arrays), dict(settings))

    @classmethod
    def restored(
        cls, arrays: Mapping[str, Host], folder: Path, settings: Mapping[str, Any],
        allow_changes: bool,
    ) -> "ServerState":  # fmt: skip
        """Return the state of the federation whose checkpoint is there, or of a new one.

        Args:
            arrays: The first model, for its names and shapes.
            folder: The folder of checkpoints.
            settings: The settings of the method, by name.
            allow_changes: Whether to continue with other settings than before.

        Raises:
            SettingError: The settings differ and changes are not allowed, or the model differs.
        """
        found = latest_intact_checkpoint(folder)
        made = cls.begun(arrays, settings)
        if found is None:
            return made
        kept, told = found.arrays, found.settings
        made.changes = list(told.get("changes", ()))
        made._compare(told, found.round, folder, allow_changes)
        made.federation, made.skipped, made.done = told["federation"], told["skipped"], found.round
        made.w_global = kept["w_global"]
        nodes = kept["nodes"].astype(np.uint64).tolist()
        made.models = dict(zip(nodes, kept["models"], strict=True))
        made.identities = {int(node): value for node, value in told.get("identities", {}).items()}
        made.parties = list(map(int, told.get("parties", ())))
        if "first" in kept:  # Of the format before, which counted parties that had never replied.
            made.models = {
                node: w for node, w in made.models.items() if not np.array_equal(w, kept["first"])
            }
        return made

    def _compare(self, told: Mapping[str, Any], done: int, folder: Path, allowed: bool) -> None:
        """Compare the settings with those of the checkpoint; refuse changes unless allowed."""
        before = told.get("method", self.settings) | {MODEL: told["shapes"]}
        changed = differences(before, self.settings | {MODEL: self.shapes.told()})
        if not changed:
            return
        listed = "; ".join(f"{name} was {was}, is {now}" for name, was, now in changed)
        is_possible = all(name != MODEL for name, _, _ in changed)
        if not (allowed and is_possible):
            advice = (
                "To continue with the new settings, say so: allow_changes=True, or allow-changes=true "
                "in the run configuration."
            )
            raise SettingError(
                "folder must be of a federation with the same settings, got "
                f"{folder.parent}: {listed}. "
                "Restore the settings, or take another folder for a new federation. "
                f"{advice if is_possible else 'Another model needs another folder.'}"
            )
        log(WARNING, "Continuing after round %s with other settings, as allowed: %s", done, listed)
        when = time.strftime("%Y-%m-%dT%H:%M:%S%z")
        self.changes.append({"after_round": done, "when": when, "changed": changed})

    def forget(self, nodes: Iterable[int]) -> None:
        """Leave out the last models of these nodes."""
        for node in nodes:
            known = self.models.pop(node, None) is not None
            self.identities.pop(node, None)
            log(INFO, "forget: node %s %s", node, "is left out" if known else "has no model here")

    def owner(self, identity: str | None) -> int | None:
        """Return the node that has sent this identity before, or None."""
        return next((node for node, known in self.identities.items() if known == identity), None)

    def take(self, node: int, w: Host, identity: str | None) -> int | None:
        """Take a party's model; return the node whose place it takes if its key was replaced."""
        old = self.owner(identity) if identity is not None else None
        replaced = old if old != node else None
        if replaced is not None:
            self.models.pop(replaced, None)
            del self.identities[replaced]
            if replaced in self.parties and node not in self.parties:
                self.parties[self.parties.index(replaced)] = node
        if node not in self.parties:
            self.parties.append(node)
        if identity is not None:
            self.identities[node] = identity
        self.models[node] = w
        return replaced

    def save(self, folder: Path) -> None:
        """Write a checkpoint; the last two are kept."""
        nodes = sorted(self.models)
        none = np.zeros((0, self.w_global.size), np.float32)
        arrays = {
            "w_global": self.w_global,
            "nodes": np.array(nodes, np.uint64),
            "models": np.stack([self.models[node] for node in nodes]) if nodes else none,
        }
        told = {
            "shapes": self.shapes.told(), "federation": self.federation, "skipped": self.skipped,
            "method": self.settings, "changes": self.changes, "parties": self.parties,
            "identities": self.identities,
        }  # fmt: skip
        save(folder, Checkpoint(self.done, told, arrays))
