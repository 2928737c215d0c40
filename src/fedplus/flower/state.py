"""What the server knows between rounds, in memory and on disk."""

import dataclasses
import uuid
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from fedplus._check import require
from fedplus._checkpoint import Checkpoint, save
from fedplus._types import Host
from fedplus.flower.kept import last_good
from fedplus.flower.records import Shapes


@dataclasses.dataclass
class ServerState:
    """w̃, W and how far the federation is."""

    shapes: Shapes
    federation: str
    """A name that parties keep their models under; a server that goes on keeps it."""
    first: Host
    """The first w̃, which is the model of a party that has not replied yet."""
    w_global: Host
    models: dict[int, Host] = dataclasses.field(default_factory=dict)
    """The last model of each party, by its node."""
    done: int = 0
    """Rounds, skipped ones too."""
    skipped: int = 0

    @classmethod
    def begun(cls, arrays: Mapping[str, Host]) -> "ServerState":
        """Of a new federation."""
        shapes = Shapes.of(arrays)
        first = shapes.flat(arrays)
        return cls(shapes, uuid.uuid4().hex, first, first)

    @classmethod
    def restored(cls, arrays: Mapping[str, Host], folder: Path) -> "ServerState":
        """Of the federation whose checkpoint is there; of a new one if there is none."""
        found = last_good(folder)
        if found is None:
            return cls.begun(arrays)
        shapes = Shapes.of(arrays)
        require(
            found.settings["shapes"] == shapes.told(), "folder", f"{folder} of another model",
            "one of this model's, or a new one",
        )  # fmt: skip
        kept = found.arrays
        nodes = kept["nodes"].astype(np.uint64).tolist()
        return cls(
            shapes, found.settings["federation"], kept["first"], kept["w_global"],
            dict(zip(nodes, kept["models"], strict=True)), found.round, found.settings["skipped"],
        )  # fmt: skip

    def save(self, folder: Path) -> None:
        """Keep it; the last two are kept."""
        nodes = sorted(self.models)
        none = np.zeros((0, self.w_global.size), np.float32)
        arrays = {
            "w_global": self.w_global,
            "first": self.first,
            "nodes": np.array(nodes, np.uint64),
            "models": np.stack([self.models[node] for node in nodes]) if nodes else none,
        }
        told = {
            "shapes": self.shapes.told(), "federation": self.federation, "skipped": self.skipped,
        }  # fmt: skip
        save(folder, Checkpoint(self.done, told, arrays))
