"""``DataSet``: a data set that can be loaded by name, and the checks of its settings."""

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any

from fedplus.check import require, require_integer, require_number
from fedplus.data.federation import Federation
from fedplus.data.files import Source


@dataclasses.dataclass(frozen=True)
class DataSet:
    """The name of a data set, the function that builds it, and facts for its card.

    Args:
        name: Name by which it is loaded.
        make: Function (seed=..., settings) ↦ Federation; it is deterministic.
        summary: One line that describes it.
        source: Who published the data.
        licence: Licence of the data.
        differences: How it differs from the paper's data set, or that the paper has none.
        needs: The data it needs; each item lists alternative sources of the same data.
        stand_in_for: Name of the data set that it replaces.
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
        """Names and defaults of all settings except the seed."""
        parameters = inspect.signature(self.make).parameters
        return {name: p.default for name, p in parameters.items() if name != "seed"}

    def load(self, seed: int, **settings: Any) -> Federation:
        """Build the federation, with its metadata.

        Args:
            seed: Seed of all random choices.
            **settings: Settings that differ from their defaults.

        Raises:
            SettingError: A setting does not exist or has a wrong value.
            DataError: A file is absent or damaged.
        """
        require_integer("seed", seed, 0, kinds=int)
        for name, value in settings.items():
            known = ", ".join(self.settings) or "none"
            require(name in self.settings, f"setting of {self.name}", name, f"one of: {known}")
            require_same_kind(value, self.settings[name], f"{self.name}'s {name}")
        federation = self.make(seed=seed, **settings)
        used = {"seed": seed} | self.settings | settings
        info = dataclasses.replace(
            federation.info, summary=self.summary, source=self.source, licence=self.licence,
            differences=self.differences, stand_in_for=self.stand_in_for,
            settings=", ".join(f"{name}={value}" for name, value in used.items()),
        )  # fmt: skip
        return federation._replace(name=self.name, info=info)


def require_same_kind(value: Any, default: Any, name: str) -> None:
    """Raise unless the value is of the default's kind: counts are at least 1, shares below 1."""
    if isinstance(default, str):
        require(isinstance(value, str), name, repr(value), "a text")
    elif isinstance(default, int):
        require_integer(name, value, kinds=int)
    elif value is not None or default is not None:
        require_number(value, name, least=0)
        if name.endswith("share"):
            is_allowed = name.endswith("validation_share") or value > 0
            require(is_allowed and value < 1, name, value, "a share between 0 and 1")
