"""``Federation``: the parties' names and their training, test and validation samples.

Its class methods build one from arrays, one data set, a data frame, a folder of files or a Hugging Face
data set. The modules that do the work are ``tables.py``, ``folders.py`` and ``hugging_face.py``.
"""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Unpack

import jax
import numpy as np
import numpy.typing as npt

from fedplus._types import NumpyArray
from fedplus.check import SettingError, require, require_distinct
from fedplus.data.holdout import (
    PARTITION,
    VALIDATION,
    SplitRows,
    Splitting,
    hold_out_rows,
    require_splitting,
    split_rows,
)
from fedplus.data.metadata import Metadata
from fedplus.data.partition import Partitioner
from fedplus.data.preprocessing import Preprocessing, TableSettings, Task
from fedplus.data.scaling import Moments, Scaling, Standardise
from fedplus.data.split import Pair, Split

MAX_INT32 = 2**31 - 1


class FrameSettings(TableSettings, Splitting, total=False):
    """The settings of tables: how columns become inputs, and which samples are set aside."""


class Federation(NamedTuple):
    """Parties with samples for training and samples for evaluation.

    From arrays, one pair (x, y) per party:

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> parties = [(rng.normal(size=(n, 3)), rng.integers(0, 2, n)) for n in (40, 7, 300)]
    >>> federation = Federation.from_arrays(parties, test_share=0.2)
    >>> federation.parties, federation.train.size.tolist(), federation.test.size.tolist()
    (3, [32, 6, 240], [8, 1, 60])

    All constructors take the settings of ``Splitting`` (``test_share``, ``validation_share``,
    ``small``, ``least``, ``seed``, ``name``). ``fedplus.data.load`` loads published data sets by name.
    """

    name: str
    train: Split
    test: Split
    validation: Split | None
    names: tuple[str, ...]
    """The parties' names."""
    info: Metadata = Metadata()

    @property
    def parties(self) -> int:
        """The number N of parties."""
        return len(self.train.size)

    @classmethod
    def from_arrays(
        cls, train: Sequence[Pair], test: Sequence[Pair] | None = None, *,
        validation: Sequence[Pair] | None = None, names: Sequence[str] | None = None,
        **split: Unpack[Splitting],
    ) -> "Federation":  # fmt: skip
        """Build a federation from one pair (x, y) per party.

        Args:
            train: (x, y) of each party: inputs (n_k, ...) and labels (n_k, ...).
            test: Pairs for evaluation; by default a share of each party's ``train``.
            validation: Pairs to choose settings on; by default a share of ``train``.
            names: The parties' names; by default 0, 1, 2, ...
            **split: See ``Splitting``.
        """
        require_splitting(split)
        require(len(train) > 0, "train", "no parties", "(x, y) of at least one party")
        names = tuple(map(str, range(len(train)) if names is None else names))
        require(
            len(names) == len(set(names)) == len(train), "names", names,
            f"{len(train)} different names, one per party",
        )  # fmt: skip
        for part, parties in (("train", train), ("test", test), ("validation", validation)):
            if parties is not None:
                _require_pairs(parties, part, names)
        training = Split.from_parties(train)
        rows_of_parties = np.split(np.arange(len(training.x)), training.start[1:])
        rows = dict(zip(names, rows_of_parties, strict=True))
        if test is None:
            require(
                validation is None, "validation", "validation samples alone",
                "given together with test",
                "To set aside some of the training samples instead, set validation_share.",
            )  # fmt: skip
            return cls.from_partition(training.x, training.y, rows, **split)
        conflicting = {"test_share", "small", "least"} & set(split)
        require(
            not conflicting, "from_arrays", f"test samples and {', '.join(sorted(conflicting))}",
            "given either test samples or settings that set some aside",
        )  # fmt: skip
        held_out = None if validation is None else Split.from_parties(validation)
        if share := split.get("validation_share"):
            is_impossible = validation is not None or bool(training.size.min() < 2)
            require(
                not is_impossible, "validation_share", share,
                "given without validation samples, and with at least two training samples per party",
            )  # fmt: skip
            seed = (split.get("seed", 0), VALIDATION)
            kept, set_aside = hold_out_rows(training.y, rows, share, seed, leave=1)
            held_out = Split.from_rows(training.x, training.y, list(set_aside.values()))
            training = Split.from_rows(training.x, training.y, list(kept.values()))
        name = split.get("name", "federation")
        return cls(name, training, Split.from_parties(test), held_out, names)

    @classmethod
    def from_partition(
        cls, x: npt.ArrayLike, y: npt.ArrayLike, partition: Partitioner | Mapping[str, NumpyArray],
        **split: Unpack[Splitting],
    ) -> "Federation":  # fmt: skip
        """Build a federation by dividing one data set among parties.

        Args:
            x: Inputs (n, ...).
            y: Labels (n, ...).
            partition: A partitioner such as ``fedplus.data.partition.dirichlet(20, alpha=0.1)``, or
                each party's row numbers by its name.
            **split: See ``Splitting``.
        """
        require_splitting(split)
        x, y = np.asarray(x), np.asarray(y)
        _require_pairs([(x, y)], "data", ["all"])
        rng = np.random.default_rng((split.get("seed", 0), PARTITION))
        rows = partition(y, rng) if callable(partition) else partition
        rows = _checked_rows(rows, len(y))
        return gather_rows(x, y, split_rows(y, rows, split), split)

    @classmethod
    def from_frame(
        cls, frame: Any, *, party: str, target: str, **settings: Unpack[FrameSettings]
    ) -> "Federation":
        """Build a federation from a pandas or polars data frame with one sample per row.

        All columns except ``party`` and ``target`` are inputs. Unless ``settings`` say otherwise,
        columns of numbers are standardised, columns of texts become one input per value, missing
        values are an error, and a fifth of each party's rows is set aside for testing.
        ``info.preprocessing.summary`` says what was done.

        Args:
            frame: The frame.
            party: Column with the name of the party that has the sample.
            target: Column to predict.
            **settings: See ``TableSettings`` (``task``, ``drop``, ``categorical``, ``text``,
            ``missing``,
                ``standardise``) and ``Splitting``.
        """
        from fedplus.data.tables import federation_from_frame

        return federation_from_frame(frame, party, target, *_separate_settings(settings))

    @classmethod
    def from_file(
        cls, path: str | os.PathLike[str], *, party: str | None, target: str = "y",
        **settings: Unpack[FrameSettings],
    ) -> "Federation":  # fmt: skip
        """Build a federation from one CSV or Parquet file with a column that names each row's party.

        Args:
            path: The file. A CSV file has a header; its cells are separated by commas, or by
            semicolons,
                tabs or bars.
            party: As in ``from_frame``.
            target: Column to predict.
            **settings: As in ``from_frame``.
        """
        from fedplus.data.folders import federation_from_file

        return federation_from_file(path, party, target, *_separate_settings(settings))

    @classmethod
    def from_folder(
        cls, path: str | os.PathLike[str], *, target: str = "y", **settings: Unpack[FrameSettings]
    ) -> "Federation":
        """Build a federation from a folder with one CSV, Parquet or npz file per party.

        A party has the name of its file. Loading takes at most 4096 MB of memory, which is checked
        before it is allocated; the environment variable ``FEDPLUS_MAX_DATA_MB`` sets another limit.

        Args:
            path: The folder. A CSV file has a header, as in ``from_file``; an npz file holds arrays
            ``x``
                and ``y``.
            target: Column to predict; for npz files it is always ``y``.
            **settings: As in ``from_frame``. For npz files only ``task``, ``standardise`` (by default
                "no") and the settings of ``Splitting``.
        """
        from fedplus.data.folders import federation_from_folder

        return federation_from_folder(path, target, *_separate_settings(settings))

    @classmethod
    def from_hf(
        cls, dataset: Any, *, partition_by: Any, x: str | Sequence[str] | None = None,
        y: str = "label", task: Task | None = None, **split: Unpack[Splitting],
    ) -> "Federation":  # fmt: skip
        """Build a federation from a Hugging Face ``datasets.Dataset``.

        Args:
            dataset: The data set; images, sequences and numbers become arrays.
            partition_by: A column's name, or a partitioner of ``flwr_datasets``.
            x: Column, or columns of numbers, with the inputs; by default all but ``y`` and
                ``partition_by``.
            y: Column with the labels.
            task: As in ``from_frame``; ignored if the data set names its classes.
            **split: See ``Splitting``.
        """
        from fedplus.data.hugging_face import federation_from_dataset

        return federation_from_dataset(dataset, partition_by, x, y, task, split)

    def first(self, parties: int) -> "Federation":
        """Return the federation of the first ``parties`` parties.

        >>> import numpy as np
        >>> federation = Federation.from_arrays([(np.ones((5, 1)), np.arange(5))] * 3)
        >>> federation.first(2).names
        ('0', '1')
        """
        is_valid = isinstance(parties, int) and 1 <= parties <= self.parties
        require(is_valid, "first", parties, f"from 1 to {self.parties}, the number of parties")
        return self.select(range(parties))

    def select(self, parties: Sequence[int]) -> "Federation":
        """Return the federation of some parties, by index.

        >>> import numpy as np
        >>> federation = Federation.from_arrays([(np.ones((5, 1)), np.arange(5))] * 3)
        >>> federation.select([2, 0]).names
        ('2', '0')
        """
        require(len(parties) > 0, "select", "no parties", "called with at least one party")
        require_distinct(np.asarray(parties), "select", self.parties)
        validation = None if self.validation is None else self.validation.select(parties)
        train, test = self.train.select(parties), self.test.select(parties)
        names = tuple(self.names[k] for k in parties)
        outliers = tuple(name for name in self.info.outliers if name in names)
        info = dataclasses.replace(self.info, outliers=outliers)
        return self._replace(train=train, test=test, validation=validation, names=names, info=info)

    def standardise(
        self, like: "Federation | None" = None, by: Standardise = "pooled"
    ) -> "Federation":
        """Return the federation with inputs (x − mean)/deviation.

        Args:
            like: The federation over whose training samples the mean and the deviation are. None: this
                one.
            by: "pooled" for one mean and deviation over all parties, "party" for each party's own.
        """
        source = like or self
        pairs = zip(source.names, range(source.parties), strict=True)
        moments = {name: Moments.of(source.train.party(k)[0]) for name, k in pairs}
        has_gaps = any(
            (m.count < size).any()
            for m, size in zip(moments.values(), source.train.size, strict=True)
        )
        require(not has_gaps, "inputs", "NaN", "numbers before they are standardised")
        preprocessing = self.info.preprocessing or Preprocessing()
        are_numbers: Any = True
        if preprocessing.encoding is not None:
            are_numbers = preprocessing.encoding.are_numbers
        scaling = Scaling.fit(moments, are_numbers, by)

        def scale(split: Split) -> Split:
            if not scaling.parties:
                x = scaling.apply(split.x)
            else:
                parts = (split.party(k)[0] for k in range(self.parties))
                x = np.concatenate([
                    scaling.of_party(name).apply(part)
                    for name, part in zip(self.names, parts, strict=True)
                ])  # fmt: skip
            return Split.from_parties([(x, split.y)])._replace(start=split.start, size=split.size)

        before = preprocessing.scaling
        combined = scaling if before is None else before.then(scaling)
        info = dataclasses.replace(
            self.info, preprocessing=dataclasses.replace(preprocessing, scaling=combined)
        )
        validation = None if self.validation is None else scale(self.validation)
        train, test = scale(self.train), scale(self.test)
        return self._replace(train=train, test=test, validation=validation, info=info)

    def map_inputs(self, function: Any) -> "Federation":
        """Return the federation with ``function`` applied to the inputs of every split.

        Args:
            function: (n, ...) ↦ (n, ...): all inputs of a split to the new ones.
        """

        def apply(split: Split) -> Split:
            pair = (np.asarray(function(split.x)), split.y)
            return Split.from_parties([pair])._replace(start=split.start, size=split.size)

        validation = None if self.validation is None else apply(self.validation)
        info = dataclasses.replace(self.info, preprocessing=None)
        train, test = apply(self.train), apply(self.test)
        return self._replace(train=train, test=test, validation=validation, info=info)


def _separate_settings(settings: Any) -> tuple[TableSettings, Splitting]:
    """Return the settings of the table and those of the split."""
    known = (*TableSettings.__annotations__, *Splitting.__annotations__)
    for name in settings:
        require(name in known, "setting", name, f"one of: {', '.join(known)}")
    split: Any = {k: v for k, v in settings.items() if k in Splitting.__annotations__}
    table: Any = {k: v for k, v in settings.items() if k not in split}
    return table, split


def gather_rows(x: NumpyArray, y: NumpyArray, parts: SplitRows, split: Splitting) -> Federation:
    """Build the federation of each party's rows for training, testing and validation."""
    train, test, validation = (
        None if part is None else Split.from_rows(x, y, list(part.values())) for part in parts
    )
    assert train is not None
    assert test is not None
    return Federation(split.get("name", "federation"), train, test, validation, tuple(parts[0]))


def _has_32_bits() -> bool:
    """Return True if JAX computes with 32 bits."""
    return bool(jax.dtypes.canonicalize_dtype(np.int64) == np.int32)


def _checked_rows(rows: Mapping[str, Any], samples: int) -> dict[str, NumpyArray]:
    """Return each party's row numbers; each must exist and belong to one party only."""
    arrays = {str(name): np.asarray(numbers) for name, numbers in rows.items()}
    require(bool(arrays), "parties", "none", "at least one")
    for name, array in arrays.items():
        is_valid = array.ndim == 1 and (array.dtype.kind in "iu" or array.size == 0)
        shown = f"{array.dtype} of shape {array.shape}"
        require(is_valid, f"rows of party {name!r}", shown, "row numbers")
    joined = np.concatenate([array.astype(np.int64) for array in arrays.values()])
    is_inside = joined.size == 0 or bool(joined.min() >= 0 and joined.max() < samples)
    require(is_inside, "rows", "some that do not exist", f"from 0 to {samples - 1}")
    is_distinct = len(np.unique(joined)) == len(joined)
    require(is_distinct, "rows", "a row that is listed twice", "each of one party only")
    return {name: array.astype(np.int64) for name, array in arrays.items()}


def _require_pairs(parties: Sequence[Pair], part: str, names: Sequence[str]) -> None:
    require(
        len(parties) == len(names), part, f"{len(parties)} parties",
        f"(x, y) of each of the {len(names)} parties",
    )  # fmt: skip
    first: tuple[tuple[int, ...], tuple[int, ...]] | None = None
    for name, pair in zip(names, parties, strict=True):
        try:
            x, y = (np.asarray(a) for a in pair)
        except (TypeError, ValueError) as error:
            raise SettingError(
                f"{part} of party {name!r} must be a pair (x, y): {error}."
            ) from error
        require(
            x.ndim >= 1 and y.ndim >= 1 and len(x) == len(y), f"{part} of party {name!r}",
            f"x of shape {x.shape} and y of shape {y.shape}", "one label per sample",
        )  # fmt: skip
        require(
            len(x) > 0, f"{part} of party {name!r}", "no samples", "at least one sample",
            "Drop the party.",
        )  # fmt: skip
        shapes = x.shape[1:], y.shape[1:]
        first = first or shapes
        require(
            shapes == first, f"{part} of party {name!r}", f"samples of shapes {shapes}",
            f"of the same shapes as the other parties' samples, {first}",
        )  # fmt: skip
        for kind, array in (("inputs", x), ("labels", y)):
            require(
                array.dtype.kind in "biuf", f"{part} of party {name!r}",
                f"{kind} of type {array.dtype}", "numbers",
            )  # fmt: skip
            if array.dtype.kind in "iu" and array.size and _has_32_bits():
                fits = bool(array.max() <= MAX_INT32 and array.min() >= -MAX_INT32)
                require(
                    fits, f"{part} of party {name!r}", f"{kind} beyond ±{MAX_INT32}", "of 32 bits",
                    "Number them from 0.",
                )  # fmt: skip
            if array.dtype.kind == "f":
                require(
                    bool(np.isfinite(array).all()), f"{part} of party {name!r}",
                    f"NaN or Inf in its {kind}", "finite",
                )  # fmt: skip
