"""What is known of a federation beside its samples."""

import dataclasses

from fedplus._types import Host


@dataclasses.dataclass(frozen=True)
class Metadata:
    """For the card, the pictures and the model; training itself needs none of it."""

    classes: tuple[str, ...] = ()
    """What label 0, 1, ... means; none where labels are numbers to predict."""
    outliers: tuple[str, ...] = ()
    """Names of the parties made unlike the rest."""
    image: tuple[int, ...] = ()
    """Shape of an input as a picture, where it is one."""
    words: tuple[str, ...] = ()
    """What token 0, 1, ... stands for, where inputs are tokens."""
    embedding: Host | None = dataclasses.field(default=None, repr=False, compare=False)
    """(V, F): a frozen vector a token, for ``models.lstm(embedding=...)``."""
    summary: str = ""
    source: str = ""
    licence: str = ""
    differences: str = ""
    """How it differs from the paper's set of that name, or that the paper has none."""
    settings: str = ""
    """With which it was loaded."""
    stand_in_for: str = ""
    """The set that this one stands in for: say so wherever its results are shown."""
