"""The experiments' specifications (``specs/*.toml``) and the paper's numbers (``published.toml``)."""

import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from papers.fed_plus.study import StudyOptions

from fedplus.check import lookup, require
from fedplus.experiments.cli_spec import spec_from_command
from fedplus.experiments.spec import Spec

SPECS = Path(__file__).with_name("specs")
PUBLISHED = Path(__file__).with_name("published.toml")


def spec_names(prefix: str = "") -> list[str]:
    """Return the sorted names of the specifications that start with ``prefix``."""
    names = sorted(path.stem for path in SPECS.glob("*.toml"))
    return [name for name in names if name.startswith(prefix)]


def spec_path(name: str) -> Path:
    """Return the path of a specification's file."""
    return lookup(name, {known: SPECS / f"{known}.toml" for known in spec_names()}, "specification")


def load_spec(name: str, settings: Mapping[str, Any] | None = None, seeds: Any = None) -> Spec:
    """Read a specification by name.

    Args:
        name: Name of the file without ``.toml``.
        settings: Settings that replace the file's, e.g. ``{"train.rounds": 20}``.
        seeds: Seeds that replace the file's.
    """
    return spec_from_command(str(spec_path(name)), settings=settings, seeds=seeds)[0]


def select_methods(spec: Spec, options: StudyOptions, always: str = "") -> Spec:
    """Return the specification with only the selected methods, and the method named ``always``."""
    selected = options.selected_methods
    if not selected:
        return spec
    methods = [method for method in spec.methods if method.name in (*selected, always)]
    allowed = ", ".join(dict.fromkeys(method.name for method in spec.methods))
    require(bool(methods), "--methods", ", ".join(selected), f"one or more of: {allowed}")
    return spec.model_copy(update={"methods": methods})


def select_specs(specs: Mapping[str, Spec], options: StudyOptions) -> dict[str, Spec]:
    """Return the specifications whose names contain the text of ``--only``."""
    return {name: spec for name, spec in specs.items() if options.only in name}


@cache
def published_results() -> dict[str, Any]:
    """Return the numbers and settings that the paper states, from ``published.toml``."""
    return tomllib.loads(PUBLISHED.read_text(encoding="utf-8"))


def published_table2() -> Iterator[tuple[str, dict[str, float]]]:
    """Yield the name of each data set in Table 2 and its scores by method."""
    for row in published_results()["table2"]["rows"]:
        yield row["spec"], row["scores"]
