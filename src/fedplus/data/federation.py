"""A federation: who the parties are, and what each of them holds."""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, Unpack

import jax
import numpy as np
import numpy.typing as npt

from fedplus._types import Host
from fedplus.check import SettingError, require
from fedplus.data.holdout import (
    PARTITION,
    VALIDATION,
    Divided,
    Splitting,
    hold_out_rows,
    require_splitting,
    split_rows,
)
from fedplus.data.metadata import Metadata
from fedplus.data.partition import Partitioner
from fedplus.data.split import Pair, Split

Missing = Literal["refuse", "mean"]
Task = Literal["classification", "regression"]
MOST = 2**31 - 1


class Federation(NamedTuple):
    """Parties with data to learn from and data to be judged on.

    From what each party holds:

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> parties = [(rng.normal(size=(n, 3)), rng.integers(0, 2, n)) for n in (40, 7, 300)]
    >>> federation = Federation.from_arrays(parties, test_share=0.2)
    >>> federation.parties, federation.train.size.tolist(), federation.test.size.tolist()
    (3, [32, 6, 240], [8, 1, 60])

    All ways to make one take the settings of ``Splitting`` (``test_share``, ``validation_share``,
    ``small``, ``least``, ``seed``, ``name``). ``fedplus.data.load`` has federations ready made.
    """

    name: str
    train: Split
    test: Split
    validation: Split | None
    names: tuple[str, ...]
    """One a party."""
    info: Metadata = Metadata()

    @property
    def parties(self) -> int:
        """N."""
        return len(self.train.size)

    @classmethod
    def from_arrays(
        cls, train: Sequence[Pair], test: Sequence[Pair] | None = None, *,
        validation: Sequence[Pair] | None = None, names: Sequence[str] | None = None,
        **split: Unpack[Splitting],
    ) -> "Federation":  # fmt: skip
        """A federation of the parties' (x, y).

        Args:
            train: (x, y) of each party: inputs (n_k, ...) and labels (n_k, ...).
            test: The same, to be judged on; by default a share of each party's ``train``.
            validation: The same, to choose settings on; by default a share of ``train``.
            names: The parties' names; by default 0, 1, 2, ...
            **split: See ``Splitting``.
        """
        require_splitting(split)
        require(len(train) > 0, "train", "no parties", "(x, y) of at least one party")
        names = tuple(map(str, range(len(train)) if names is None else names))
        require(
            len(names) == len(set(names)) == len(train), "names", names,
            f"{len(train)} different names, one a party",
        )  # fmt: skip
        for part, parties in (("train", train), ("test", test), ("validation", validation)):
            if parties is not None:
                _require_pairs(parties, part, names)
        whole = Split.of(train)
        every = np.split(np.arange(len(whole.x)), whole.start[1:])
        rows = dict(zip(names, every, strict=True))
        if test is None:
            require(
                validation is None, "validation", "samples without test samples",
                "given together with test", "Or ask for a validation_share.",
            )  # fmt: skip
            return cls.from_partition(whole.x, whole.y, rows, **split)
        spare = {"test_share", "small", "least"} & set(split)
        require(
            not spare, "from_arrays", f"test samples and {', '.join(sorted(spare))}",
            "given either test samples or a way to set some aside",
        )  # fmt: skip
        held = None if validation is None else Split.of(validation)
        if share := split.get("validation_share"):
            both = validation is not None or bool(whole.size.min() < 2)
            require(
                not both, "validation_share", share,
                "given without validation samples, and with two training samples a party at least",
            )  # fmt: skip
            seed = (split.get("seed", 0), VALIDATION)
            kept, aside = hold_out_rows(whole.y, rows, share, seed, leave=1)
            held = Split.taken(whole.x, whole.y, list(aside.values()))
            whole = Split.taken(whole.x, whole.y, list(kept.values()))
        return cls(split.get("name", "federation"), whole, Split.of(test), held, names)

    @classmethod
    def from_partition(
        cls, x: npt.ArrayLike, y: npt.ArrayLike, how: Partitioner | Mapping[str, Host],
        **split: Unpack[Splitting],
    ) -> "Federation":  # fmt: skip
        """A federation of one data set: see ``fedplus.data.partition`` for ways to deal it out.

        Args:
            x: (n, ...): inputs.
            y: (n, ...): labels.
            how: A partitioner, such as ``partition.dirichlet(20, alpha=0.1)``, or each party's rows.
            **split: See ``Splitting``.
        """
        require_splitting(split)
        x, y = np.asarray(x), np.asarray(y)
        _require_pairs([(x, y)], "data", ["the whole"])
        rng = np.random.default_rng((split.get("seed", 0), PARTITION))
        rows = _checked(how(y, rng) if callable(how) else how, len(y))
        return gather_rows(x, y, split_rows(y, rows, split), split)

    @classmethod
    def from_frame(
        cls, frame: Any, *, party: str, target: str, task: Task | None = None,
        missing: Missing = "refuse", **split: Unpack[Splitting],
    ) -> "Federation":  # fmt: skip
        """A federation of a pandas or polars data frame, a row a sample.

        Args:
            frame: Its columns, beside the two below, are the inputs, and hold numbers.
            party: Column that says whose sample it is.
            target: Column to predict.
            task: "classification" or "regression". By default texts and up to 20 different whole
                numbers are classes, and numbers with a fraction are regressed on; with more
                different whole numbers it has to be given.
            missing: "mean": a missing input becomes the mean of the training samples' ones.
            **split: See ``Splitting``.
        """
        from fedplus.data.tables import federation_from_frame

        return federation_from_frame(frame, party, target, task, missing, split)

    @classmethod
    def from_folder(
        cls, path: str | os.PathLike[str], *, target: str = "y",
        task: Task | None = None, missing: Missing = "refuse", **split: Unpack[Splitting],
    ) -> "Federation":  # fmt: skip
        """A federation of a folder with one CSV, Parquet or npz file a party, named after it.

        Loading takes at most 4096 MB of memory, which is checked before it is taken;
        ``FEDPLUS_MAX_DATA_MB`` in the environment sets another limit.

        Args:
            path: The folder. A CSV file has a header; an npz file holds arrays ``x`` and ``y``.
            target: Column to predict; of npz files it is always ``y``.
            task: As in ``from_frame``.
            missing: As in ``from_frame``.
            **split: See ``Splitting``.
        """
        from fedplus.data.folders import federation_from_folder

        return federation_from_folder(path, target, task, missing, split)

    @classmethod
    def from_hf(
        cls, dataset: Any, *, partition_by: Any, x: str | Sequence[str] | None = None,
        y: str = "label", task: Task | None = None, **split: Unpack[Splitting],
    ) -> "Federation":  # fmt: skip
        """A federation of a Hugging Face ``datasets.Dataset``.

        Args:
            dataset: In memory or memory-mapped; images, sequences and numbers become arrays.
            partition_by: A column's name, or a partitioner of ``flwr_datasets``.
            x: Column, or columns of numbers, with the inputs; by default all but ``y`` and
                ``partition_by``.
            y: Column with the labels.
            task: As in ``from_frame``; without meaning where the data set names its classes.
            **split: See ``Splitting``.
        """
        from fedplus.data.hugging_face import federation_from_dataset

        return federation_from_dataset(dataset, partition_by, x, y, task, split)

    def first(self, parties: int) -> "Federation":
        """The first so many parties, with all that they hold.

        >>> import numpy as np
        >>> whole = Federation.from_arrays([(np.ones((5, 1)), np.arange(5))] * 3)
        >>> whole.first(2).names
        ('0', '1')
        """
        most = self.parties
        ok = isinstance(parties, int) and 1 <= parties <= most
        require(ok, "first", parties, f"from 1 to {most}, the parties that there are")
        validation = None if self.validation is None else self.validation.first(parties)
        train, test = self.train.first(parties), self.test.first(parties)
        names = self.names[:parties]
        outliers = tuple(name for name in self.info.outliers if name in names)
        info = dataclasses.replace(self.info, outliers=outliers)
        return self._replace(train=train, test=test, validation=validation, names=names, info=info)

    def standardise(self) -> "Federation":
        """Inputs less their mean, over their standard deviation, both of all training samples."""
        x = self.train.x
        mean, spread = x.mean(0, dtype=float), x.std(0, dtype=float)
        constant = spread <= 1e-6 * np.maximum(np.abs(mean), np.finfo(np.float32).tiny)
        spread = np.where(constant, 1, spread)
        return self.map_inputs(lambda x: ((x - mean) / spread).astype(np.float32))

    def map_inputs(self, function: Any) -> "Federation":
        """The same function of the inputs of every split."""

        def changed(split: Split) -> Split:
            pair = (np.asarray(function(split.x)), split.y)
            return Split.of([pair])._replace(start=split.start, size=split.size)

        validation = None if self.validation is None else changed(self.validation)
        return self._replace(
            train=changed(self.train), test=changed(self.test), validation=validation
        )


def gather_rows(x: Host, y: Host, parts: Divided, split: Splitting) -> Federation:
    """Each party's rows for training, testing and validation, gathered."""
    train, test, held = (
        None if part is None else Split.taken(x, y, list(part.values())) for part in parts
    )
    assert train is not None
    assert test is not None
    return Federation(split.get("name", "federation"), train, test, held, tuple(parts[0]))


def _narrow() -> bool:
    """Whether JAX computes with 32 bits."""
    return bool(jax.dtypes.canonicalize_dtype(np.int64) == np.int32)


def _checked(rows: Mapping[str, Any], samples: int) -> dict[str, Host]:
    """Each party's rows as whole numbers, each within the data and of one party alone."""
    made = {str(who): np.asarray(mine) for who, mine in rows.items()}
    require(bool(made), "parties", "none", "at least one")
    for who, mine in made.items():
        ok = mine.ndim == 1 and (mine.dtype.kind in "iu" or mine.size == 0)
        require(ok, f"rows of party {who!r}", f"{mine.dtype} of shape {mine.shape}", "row numbers")
    every = np.concatenate([mine.astype(np.int64) for mine in made.values()])
    inside = every.size == 0 or bool(every.min() >= 0 and every.max() < samples)
    require(inside, "rows", "some that are not there", f"from 0 to {samples - 1}")
    once = len(np.unique(every)) == len(every)
    require(once, "rows", "some that two parties hold, or one twice", "each of one party alone")
    return {who: mine.astype(np.int64) for who, mine in made.items()}


def _require_pairs(parties: Sequence[Pair], part: str, names: Sequence[str]) -> None:
    require(
        len(parties) == len(names), part, f"{len(parties)} parties",
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
            require(
                array.dtype.kind in "biuf", f"{part} of party {who!r}",
                f"{what} of type {array.dtype}", "numbers",
            )  # fmt: skip
            if array.dtype.kind in "iu" and array.size and _narrow():
                fits = bool(array.max() <= MOST and array.min() >= -MOST)
                require(
                    fits, f"{part} of party {who!r}", f"{what} beyond ±{MOST}", "of 32 bits",
                    "Number them from 0.",
                )  # fmt: skip
            if array.dtype.kind == "f":
                require(
                    bool(np.isfinite(array).all()), f"{part} of party {who!r}",
                    f"NaN or Inf in its {what}", "finite",
                )  # fmt: skip
