"""A federation: who the parties are, and what each of them holds."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from fedplus._check import SettingError, require

Pair = tuple[npt.ArrayLike, npt.ArrayLike]
Host = np.ndarray[Any, np.dtype[Any]]
ALIGNMENT = 64


class Split(NamedTuple):
    """Samples of all parties, one party's after the other's: no padding, however uneven they are.

    Party k holds rows ``start[k] : start[k] + size[k]``.
    """

    x: Host
    """(n, ...): inputs."""
    y: Host
    """(n, ...): labels."""
    start: Host
    """(N,)"""
    size: Host
    """(N,)"""

    @classmethod
    def of(cls, parties: Sequence[Pair]) -> "Split":
        """Join the parties' (x, y)."""
        xs = [np.asarray(x) for x, _ in parties]
        ys = [np.asarray(y) for _, y in parties]
        size = np.array([len(x) for x in xs], dtype=np.int32)
        start = np.concatenate([[0], np.cumsum(size[:-1], dtype=np.int64)]).astype(np.int32)
        return cls(_joined(xs), _joined(ys), start, size)

    def party(self, k: int) -> tuple[Host, Host]:
        """One party's inputs and labels."""
        rows = slice(int(self.start[k]), int(self.start[k]) + int(self.size[k]))
        return self.x[rows], self.y[rows]


def on_device(array: Host) -> jax.Array:
    """For JAX to compute with; on a CPU without a copy where the memory allows it."""
    in_place = array.flags.c_contiguous and array.ctypes.data % ALIGNMENT == 0 and array.size > 0
    if in_place and array.flags.writeable and jax.default_backend() == "cpu":
        return jnp.from_dlpack(array)
    return jnp.asarray(array)


class Federation(NamedTuple):
    """Parties with data to learn from and data to be judged on.

    Make one with ``Federation.of``, from what each party holds:

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> parties = [(rng.normal(size=(n, 3)), rng.integers(0, 2, n)) for n in (40, 7, 300)]
    >>> federation = Federation.of(parties, test_share=0.2)
    >>> federation.parties, federation.train.size.tolist(), federation.test.size.tolist()
    (3, [32, 6, 240], [8, 1, 60])
    """

    name: str
    train: Split
    test: Split
    validation: Split | None
    names: tuple[str, ...]
    """One a party."""

    @property
    def parties(self) -> int:
        """N."""
        return len(self.train.size)

    @classmethod
    def of(
        cls, train: Sequence[Pair], test: Sequence[Pair] | None = None, *,
        validation: Sequence[Pair] | None = None, test_share: float = 0.2,
        validation_share: float = 0.0, names: Sequence[str] | None = None,
        name: str = "federation", seed: int = 0,
    ) -> "Federation":  # fmt: skip
        """A federation of the parties' (x, y).

        Args:
            train: (x, y) of each party: inputs (n_k, ...) and labels (n_k, ...).
            test: The same, to be judged on; by default a random ``test_share`` of each party's.
            validation: The same, to choose settings on; by default a random ``validation_share``.
            test_share: Share of each party's samples to set aside, at least one sample.
            validation_share: Likewise; 0 sets none aside.
            names: The parties' names; by default 0, 1, 2, ...
            name: The federation's, for reports.
            seed: Of the random shares.
        """
        require(len(train) > 0, "Federation.of train", "no parties", "(x, y) of at least one party")
        names = tuple(names) if names is not None else tuple(map(str, range(len(train))))
        require(
            len(names) == len(set(names)) == len(train), "Federation.of names", names,
            f"{len(train)} different names, one a party",
        )  # fmt: skip
        for part, parties in (("train", train), ("test", test), ("validation", validation)):
            if parties is not None:
                _require_pairs(parties, part, names)
        rng = np.random.default_rng(seed)
        if validation is None and validation_share:
            train, validation = _set_aside(train, validation_share, "validation_share", names, rng)
        if test is None:
            train, test = _set_aside(train, test_share, "test_share", names, rng)
        held = None if validation is None else Split.of(validation)
        return cls(name, Split.of(train), Split.of(test), held, names)


def _set_aside(
    parties: Sequence[Pair], share: float, name: str, names: Sequence[str],
    rng: np.random.Generator,
) -> tuple[list[Pair], list[Pair]]:  # fmt: skip
    require(0 < share < 1, name, share, "between 0 and 1", "Or give the samples themselves.")
    kept: list[Pair] = []
    aside: list[Pair] = []
    for who, (x, y) in zip(names, parties, strict=True):
        x, y = np.asarray(x), np.asarray(y)
        order, cut = rng.permutation(len(x)), max(1, round(share * len(x)))
        require(
            cut < len(x), f"party {who!r}", f"{len(x)} samples", f"larger to set {share:g} aside",
            "Drop the party, or give its test samples yourself.",
        )  # fmt: skip
        kept.append((x[order[cut:]], y[order[cut:]]))
        aside.append((x[order[:cut]], y[order[:cut]]))
    return kept, aside


def _require_pairs(parties: Sequence[Pair], part: str, names: Sequence[str]) -> None:
    require(
        len(parties) == len(names), f"Federation.of {part}", f"{len(parties)} parties",
        f"(x, y) of each of the {len(names)} parties",
    )  # fmt: skip
    first: tuple[tuple[int, ...], tuple[int, ...]] | None = None
    for who, pair in zip(names, parties, strict=True):
        try:
            x, y = (np.asarray(a) for a in pair)
        except (TypeError, ValueError) as error:
            raise SettingError(
                f"{part} of party {who!r} must be a pair (x, y): {error}."
            ) from error
        require(
            x.ndim >= 1 and y.ndim >= 1 and len(x) == len(y), f"{part} of party {who!r}",
            f"x of shape {x.shape} and y of shape {y.shape}", "one label a sample",
        )  # fmt: skip
        require(
            len(x) > 0, f"{part} of party {who!r}", "no samples", "at least one sample",
            "Drop the party.",
        )  # fmt: skip
        shapes = x.shape[1:], y.shape[1:]
        first = first or shapes
        require(
            shapes == first, f"{part} of party {who!r}", f"samples of shapes {shapes}",
            f"of the shapes that the other parties' have, {first}",
        )  # fmt: skip
        for what, array in (("inputs", x), ("labels", y)):
            if np.issubdtype(array.dtype, np.floating):
                require(
                    bool(np.isfinite(array).all()), f"{part} of party {who!r}",
                    f"NaN or Inf in its {what}", "finite",
                )  # fmt: skip


def _joined(arrays: Sequence[Host]) -> Host:
    """One array in the precision that JAX computes in: float32 and int32, or 64 bits under x64.

    It begins at a multiple of 64 bytes, so that JAX can use it in place on a CPU.
    """
    kind = np.result_type(*arrays)
    kind = np.dtype(jax.dtypes.canonicalize_dtype(np.int32 if kind.kind == "b" else kind))
    shape = (sum(map(len, arrays)), *arrays[0].shape[1:])
    count = math.prod(shape)
    memory = np.empty(count * kind.itemsize + ALIGNMENT, np.uint8)
    first = -memory.ctypes.data % ALIGNMENT
    whole = memory[first : first + count * kind.itemsize].view(kind).reshape(shape)
    return np.concatenate(arrays, out=whole, casting="same_kind")
