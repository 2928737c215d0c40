"""What an experiment is: data, model, methods, training; as TOML, checked by pydantic.

A specification asks for every method with every seed. What it leaves out is filled in by
``defaults.filled``, so that a run's own ``spec.toml`` says everything.
"""

import math
from typing import Annotated, Any, Literal

import pydantic
from pydantic import AfterValidator, ConfigDict, Field

from fedplus.check import SettingError, suggestion
from fedplus.experiments.toml_source import TomlSource

Whole = Annotated[int, Field(ge=1)]
Seed = Annotated[int, Field(ge=0, lt=2**32)]
Number = Annotated[float, Field(allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1)]


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("one line of text")
    return text


def _different(seeds: list[int]) -> list[int]:
    if len(set(seeds)) < len(seeds):
        raise ValueError("different whole numbers")
    return seeds


class _Table(pydantic.BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class _Open(_Table):
    """A table with settings of its own beside the named ones."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)

    @property
    def settings(self) -> dict[str, Any]:
        """All keys that have no meaning here."""
        return dict(self.__pydantic_extra__ or {})


class Data(_Open):
    """A federation by name, or a folder with a file a party; other keys are its settings."""

    name: str | None = None
    folder: str | None = None
    seed: Seed | None = None
    """By default the run's own."""
    first: Whole | None = None
    """Only so many of its parties, from the first on; by default all."""
    standardise: bool = False
    judged_on: Literal["test", "validation", "train"] = "test"
    """Which samples the models are judged on."""


class Model(_Open):
    """A built-in model; other keys are its settings, such as ``hidden``."""

    name: Literal["auto", "linear", "logistic", "mlp", "cnn", "lstm", "eiie"] = "auto"


class Method(_Open):
    """A method by name; other keys are its settings, such as ``eta``."""

    name: str
    label: Annotated[str, AfterValidator(_printable)] | None = Field(
        default=None, min_length=1, max_length=60
    )
    """How tables and plots call it."""


class Stragglers(_Table):
    """As in ``fedplus.simulation.Stragglers``."""

    share: Share = 0.9
    drop: bool = False


class Fault(_Open):
    """Parties (by number) and their attack; other keys are the attack's settings."""

    parties: list[Annotated[int, Field(ge=0)]] = Field(min_length=1)
    attack: str


class Train(_Table):
    """As in ``fedplus.simulate``."""

    rounds: Whole | None = None
    cohort: Whole | None = None
    steps: Whole | list[Whole] | None = None
    epochs: Positive | list[Positive] | None = None
    batch_size: Whole | None = None
    weights: Literal["size"] | list[Annotated[Number, Field(ge=0)]] | None = None
    stragglers: Stragglers | None = None
    faults: list[Fault] = []
    evaluate_every: Whole | None = None
    path: list[Number] = []
    objective: bool = False
    each: Literal["auto", "vmap", "map"] = "auto"
    checkpoint_every: Whole | None = None


class Reference(_Table):
    """Each party on its own, to compare with: same rounds and steps."""

    local: bool = True
    eta: Positive | None = None


class Spec(_Table):
    """An experiment."""

    version: Literal[1] = 1
    title: Annotated[str, AfterValidator(_printable)] = ""
    data: Data
    model: Model = Model()
    train: Train = Train()
    reference: Reference = Reference()
    methods: list[Method] = Field(min_length=1)
    seeds: Annotated[list[Seed], AfterValidator(_different)] = Field(default=[0], min_length=1)

    def one(self, method: int, seed: int) -> "Spec":
        """The same with one method and one seed."""
        data = self.data.model_copy(
            update={"seed": seed if self.data.seed is None else self.data.seed}
        )
        chosen = [self.methods[method]]
        return self.model_copy(update={"methods": chosen, "seeds": [seed], "data": data})


def parse_spec(content: dict[str, Any], source: TomlSource) -> Spec:
    """A specification from TOML's tables.

    Raises:
        SettingError: File, line, what is wrong and what is allowed.
    """
    try:
        return Spec.model_validate(content)
    except pydantic.ValidationError as error:
        raise SettingError(_told(error.errors()[0], source)) from error


def to_toml(spec: Spec) -> str:
    """The specification as TOML, everything in it that is not None."""
    import tomli_w

    return tomli_w.dumps(_plain(spec.model_dump(exclude_none=True)))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items() if v is not None}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    return value


def _told(error: Any, source: TomlSource) -> str:
    place = tuple(part for part in error["loc"] if not _is_branch(part))
    name = ".".join(map(str, place)) or "the specification"
    where, kind, got = source.where(place), error["type"], error["input"]
    if kind == "extra_forbidden":
        allowed = sorted(_fields_at(place[:-1]))
        hint = suggestion(str(place[-1]), allowed)
        return f"{where}{name} is not known, allowed are: {', '.join(allowed)}. {hint}".rstrip()
    if kind == "missing":
        return f"{where}{name} is missing. {_EXAMPLES.get(str(place[-1]), 'Give it.')}"
    said = error["msg"].removeprefix("Input ").removeprefix("should be ")
    said = said.removeprefix("Value error, ")
    said = "a table" if kind in ("model_type", "model_attributes_type", "dict_type") else said
    shown = "nothing" if got is None or (isinstance(got, float) and math.isnan(got)) else repr(got)
    return f"{where}{name} must be {said}, got {shown[:80]}."


_EXAMPLES = {
    "data": 'E.g. data = { name = "digits-robust" }.',
    "methods": 'E.g. [[methods]] with name = "fedavg+".',
    "name": 'E.g. name = "fedavg+".',
    "parties": "E.g. parties = [0, 3].",
    "attack": 'E.g. attack = "sign_flip".',
}


def _is_branch(part: str | int) -> bool:
    """Whether this part of pydantic's place is the name of a type in a union, not a key."""
    kinds = ("function-", "list[", "literal[", "constrained")
    is_kind = isinstance(part, str) and (part in ("int", "float", "str") or part.startswith(kinds))
    return bool(is_kind)


def _fields_at(place: tuple[str | int, ...]) -> set[str]:
    tables: dict[str, type[pydantic.BaseModel]] = {
        "train": Train, "reference": Reference, "stragglers": Stragglers,
    }  # fmt: skip
    kind = tables.get(str(place[-1]), Spec) if place else Spec
    return set(kind.model_fields)
