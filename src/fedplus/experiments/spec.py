"""The specification of an experiment: data, model, methods and training; TOML checked by pydantic.

An experiment runs every method with every seed. ``defaults.fill_defaults`` adds all settings that are
left out, so the ``spec.toml`` in a run folder is complete.
"""

import math
from typing import Annotated, Any, Literal

import pydantic
from pydantic import AfterValidator, ConfigDict, Field

from fedplus.check import SettingError, suggest
from fedplus.experiments.toml_source import TomlSource

PositiveInt = Annotated[int, Field(ge=1)]
Seed = Annotated[int, Field(ge=0, lt=2**32)]
FiniteFloat = Annotated[float, Field(allow_inf_nan=False)]
PositiveFloat = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1)]


def _require_printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("one line of text")
    return text


def _require_distinct(seeds: list[int]) -> list[int]:
    if len(set(seeds)) < len(seeds):
        raise ValueError("different whole numbers")
    return seeds


class _Table(pydantic.BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class _OpenTable(_Table):
    """A table that allows further keys, which are settings of the chosen data set, method, etc."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)

    @property
    def settings(self) -> dict[str, Any]:
        """Return the further keys and their values."""
        return dict(self.__pydantic_extra__ or {})


class Data(_OpenTable):
    """A data set by name, a folder with one file per party, or one file with a column of parties.

    Other keys are its settings.
    """

    name: str | None = None
    folder: str | None = None
    file: str | None = None
    seed: Seed | None = None
    """Seed of the data; by default the seed of the run."""
    first: PositiveInt | None = None
    """Use only this many parties, from the first on; by default all."""
    standardise: bool | Literal["pooled", "party", "no"] | None = None
    """See ``TableSettings``; by default tables are standardised, and arrays are not."""
    judged_on: Literal["test", "validation", "train"] = "test"
    """The samples on which models are evaluated."""


class Model(_OpenTable):
    """A built-in model; other keys are its settings, such as ``hidden``."""

    name: str = "auto"
    """A name in ``build.MODELS``, which checks it."""


class Method(_OpenTable):
    """A method by name; other keys are its settings, such as ``eta``."""

    name: str
    label: Annotated[str, AfterValidator(_require_printable)] | None = Field(
        default=None, min_length=1, max_length=60
    )
    """Name of the method in tables and plots."""


class Stragglers(_Table):
    """The arguments of ``fedplus.simulation.Stragglers``."""

    share: Share = 0.9
    drop: bool = False


class Fault(_OpenTable):
    """Faulty parties, by index, and their attack; other keys are the attack's settings."""

    parties: list[Annotated[int, Field(ge=0)]] = Field(min_length=1)
    attack: str


class Train(_Table):
    """The arguments of ``fedplus.simulate``, which documents them."""

    rounds: PositiveInt | None = None
    cohort: PositiveInt | None = None
    steps: PositiveInt | list[PositiveInt] | None = None
    epochs: PositiveFloat | list[PositiveFloat] | None = None
    batch_size: PositiveInt | None = None
    weights: Literal["size"] | list[Annotated[FiniteFloat, Field(ge=0)]] | None = None
    stragglers: Stragglers | None = None
    faults: list[Fault] = []
    evaluate_every: PositiveInt | None = None
    path: list[FiniteFloat] = []
    objective: bool = False
    each: Literal["auto", "vmap", "map"] = "auto"
    checkpoint_every: PositiveInt | None = None


class Reference(_Table):
    """Local training of each party for comparison, with the same rounds and steps."""

    local: bool = True
    eta: PositiveFloat | None = None


class Evaluation(_Table):
    """Metrics of each party's final model on its test samples; see ``party_metrics``."""

    metrics: list[str] | None = Field(default=None, min_length=1)
    """Names in ``models.metrics.METRICS``; by default some that fit the task."""
    resamples: Annotated[int, Field(ge=0, le=100_000)] | None = None
    """Resamples for the bootstrap intervals; by default 200, and none for more than 50 parties."""


class NewParties(_Table):
    """Parties that are held out of the training and join afterwards: ``count`` of them, or ``names``.

    ``new_parties.hold_out`` checks them, because that needs the data.
    """

    count: PositiveInt | None = None
    """The number of parties, which the seed of the run chooses."""
    names: list[str] | None = Field(default=None, min_length=1)
    steps: PositiveInt | None = None
    """Local steps per round; by default ``train.steps``."""
    rounds: PositiveInt = 10


class Spec(_Table):
    """The specification of an experiment."""

    version: Literal[1] = 1
    title: Annotated[str, AfterValidator(_require_printable)] = ""
    data: Data
    model: Model = Model()
    train: Train = Train()
    reference: Reference = Reference()
    evaluation: Evaluation = Evaluation()
    new_parties: NewParties | None = None
    methods: list[Method] = Field(min_length=1)
    seeds: Annotated[list[Seed], AfterValidator(_require_distinct)] = Field(
        default=[0], min_length=1
    )

    def for_run(self, method: int, seed: int) -> "Spec":
        """Return the specification of one run: the method with this index, and one seed."""
        data = self.data.model_copy(
            update={"seed": seed if self.data.seed is None else self.data.seed}
        )
        methods = [self.methods[method]]
        return self.model_copy(update={"methods": methods, "seeds": [seed], "data": data})


def parse_spec(content: dict[str, Any], source: TomlSource) -> Spec:
    """Check the tables of a TOML file and return the specification.

    Args:
        content: The tables.
        source: The file that they come from, for error messages.

    Raises:
        SettingError: A value is not valid. The message names the file, the line and what is allowed.
    """
    try:
        return Spec.model_validate(content)
    except pydantic.ValidationError as error:
        raise SettingError(_error_message(error.errors()[0], source)) from error


def to_toml(spec: Spec) -> str:
    """Return the specification as TOML, without entries that are None."""
    import tomli_w

    return tomli_w.dumps(_without_none(spec.model_dump(exclude_none=True)))


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(k): _without_none(v) for k, v in value.items() if v is not None}
    if isinstance(value, (list, tuple)):
        return [_without_none(v) for v in value]
    return value


def _error_message(error: Any, source: TomlSource) -> str:
    key_path = tuple(part for part in error["loc"] if not _is_type_name(part))
    name = ".".join(map(str, key_path)) or "the specification"
    where, kind, got = source.location(key_path), error["type"], error["input"]
    if kind == "extra_forbidden":
        known = sorted(_fields_at(key_path[:-1]))
        hint = suggest(str(key_path[-1]), known)
        return f"{where}{name} is not known, allowed are: {', '.join(known)}. {hint}".rstrip()
    if kind == "missing":
        return f"{where}{name} is missing. {_EXAMPLES.get(str(key_path[-1]), 'Add it.')}"
    allowed = error["msg"].removeprefix("Input ").removeprefix("should be ")
    allowed = allowed.removeprefix("Value error, ")
    if kind in ("model_type", "model_attributes_type", "dict_type"):
        allowed = "a table"
    shown = "nothing" if got is None or (isinstance(got, float) and math.isnan(got)) else repr(got)
    return f"{where}{name} must be {allowed}, got {shown[:80]}."


_EXAMPLES = {
    "data": 'E.g. data = { name = "digits-robust" }.',
    "methods": 'E.g. [[methods]] with name = "fedavg+".',
    "name": 'E.g. name = "fedavg+".',
    "parties": "E.g. parties = [0, 3].",
    "attack": 'E.g. attack = "sign_flip".',
}


def _is_type_name(part: str | int) -> bool:
    """Return whether a part of pydantic's error location is a type of a union, rather than a key."""
    prefixes = ("function-", "list[", "literal[", "constrained")
    return isinstance(part, str) and (part in ("int", "float", "str") or part.startswith(prefixes))


def _fields_at(key_path: tuple[str | int, ...]) -> set[str]:
    tables: dict[str, type[pydantic.BaseModel]] = {
        "train": Train, "reference": Reference, "new_parties": NewParties, "stragglers": Stragglers,
        "evaluation": Evaluation,
    }  # fmt: skip
    table = tables.get(str(key_path[-1]), Spec) if key_path else Spec
    return set(table.model_fields)
