"""A data set that can be loaded by name."""

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any

from fedplus.check import require, require_integer, require_number
from fedplus.data.federation import Federation
from fedplus.data.files import Source


@dataclasses.dataclass(frozen=True)
class DataSet:
    """Its name, how it is made, and what a reader has to know of it.

    Args:
        name: By which it is loaded.
        make: (seed=..., settings) ↦ Federation, deterministic.
        summary: One line.
        source: Who published the data.
        licence: Of the data.
        differences: From the paper's set, or that the paper has none.
        needs: Of each thing it needs, the sources that have it.
        stand_in_for: The set it stands in for.
    """

    name: str
    make: Callable[..., Federation]
    summary: str
    source: str
    licence: str
    differences: str
    needs: tuple[tuple[Source, ...], ...] = ()
    stand_in_for: str = ""

    @property
    def settings(self) -> dict[str, Any]:
        """Names and defaults of what can be set beside the seed."""
        given = inspect.signature(self.make).parameters
        return {name: p.default for name, p in given.items() if name != "seed"}

    def load(self, seed: int, **settings: Any) -> Federation:
        """Make the federation, and say of it what is known."""
        require_integer("seed", seed, 0, kinds=int)
        for name, value in settings.items():
            known = ", ".join(self.settings) or "none"
            require(name in self.settings, f"setting of {self.name}", name, f"one of: {known}")
            require_like(value, self.settings[name], f"{self.name}'s {name}")
        made = self.make(seed=seed, **settings)
        used = {"seed": seed} | self.settings | settings
        info = dataclasses.replace(
            made.info, summary=self.summary, source=self.source, licence=self.licence,
            differences=self.differences, stand_in_for=self.stand_in_for,
            settings=", ".join(f"{name}={value}" for name, value in used.items()),
        )  # fmt: skip
        return made._replace(name=self.name, info=info)


def require_like(value: Any, default: Any, name: str) -> None:
    """Require a value of the default's kind: counts are at least 1, shares below 1."""
    if isinstance(default, str):
        require(isinstance(value, str), name, repr(value), "a text")
    elif isinstance(default, int):
        require_integer(name, value, kinds=int)
    elif value is not None or default is not None:
        require_number(value, name, least=0)
        if name.endswith("share"):
            low = name.endswith("validation_share") or value > 0
            require(low and value < 1, name, value, "a share between 0 and 1")
