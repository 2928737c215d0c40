"""Specifications and the paper's numbers, read from the files beside this one."""

import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from papers.fed_plus.study import Asked

from fedplus.check import lookup, require
from fedplus.experiments.cli_spec import spec_from_command
from fedplus.experiments.spec import Spec

SPECS = Path(__file__).with_name("specs")
PUBLISHED = Path(__file__).with_name("published.toml")


def names(prefix: str = "") -> list[str]:
    """Of the specifications that begin so."""
    found = sorted(path.stem for path in SPECS.glob("*.toml"))
    return [name for name in found if name.startswith(prefix)]


def path_of(name: str) -> Path:
    """The file of a specification."""
    return lookup(name, {one: SPECS / f"{one}.toml" for one in names()}, "specification")


def spec(name: str, settings: Mapping[str, Any] | None = None, seeds: Any = None) -> Spec:
    """A specification by name, with other settings and seeds than its own."""
    return spec_from_command(str(path_of(name)), settings=settings, seeds=seeds)[0]


def wanted(of: Spec, what: Asked, always: str = "") -> Spec:
    """The specification with the methods that are asked for, and one that is always there."""
    if not what.named:
        return of
    kept = [one for one in of.methods if one.name in (*what.named, always)]
    there = ", ".join(dict.fromkeys(one.name for one in of.methods))
    require(bool(kept), "--methods", ", ".join(what.named), f"one or more of: {there}")
    return of.model_copy(update={"methods": kept})


def chosen(of: Mapping[str, Spec], what: Asked) -> dict[str, Spec]:
    """Those that ``--only`` leaves."""
    return {name: one for name, one in of.items() if what.only in name}


@cache
def published() -> dict[str, Any]:
    """The paper's numbers."""
    return tomllib.loads(PUBLISHED.read_text(encoding="utf-8"))


def table2_rows() -> Iterator[tuple[str, dict[str, float]]]:
    """Data set (the specification's name without its prefix) and method ↦ the paper's figure."""
    for row in published()["table2"]["rows"]:
        yield row["spec"], row["scores"]
