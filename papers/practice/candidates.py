"""The candidates of a method: combinations of the values in ``grids.toml``."""

import itertools
from typing import Any

import numpy as np
from papers.practice.federations import Spec, load_grids
from papers.practice.methods import Method

DIGITS = 4
"""Significant digits of a candidate's settings."""


def grid_values(rule: dict[str, Any], base: float) -> list[Any]:
    """Return the values that a rule of ``grids.toml`` stands for.

    >>> grid_values({"times": [0.1, 1.0]}, base=0.5), grid_values({"geometric": [1, 100, 3]}, base=2)
    ([0.05, 0.5], [2.0, 20.0, 200.0])
    """
    if "values" in rule:
        return list(rule["values"])
    times = np.geomspace(*rule["geometric"]).tolist() if "geometric" in rule else rule["times"]
    return [float(f"{base * factor:.{DIGITS}g}") for factor in times]


def grid_of(spec: Spec, grid: str) -> dict[str, list[Any]]:
    """Return the values of each setting; η and δ are multiples of the federation's."""
    bases = {"eta": spec.eta, "delta": spec.delta}
    rules = load_grids()["grid"][grid]
    return {name: grid_values(rule, bases.get(name, 1.0)) for name, rule in rules.items()}


def draw_candidates(spec: Spec, method: Method) -> list[dict[str, Any]]:
    """Return the candidates: all combinations, or as many drawn at random as the budget allows.

    Methods with the same grid have the same candidates. With a warm-up, each of them gets a share of
    the rounds; the shares are equally frequent.
    """
    budget = load_grids()["budget"]
    grid = grid_of(spec, method.grid)
    candidates = [
        dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())
    ]
    rng = np.random.default_rng(budget["draw_seed"])
    order = rng.permutation(len(candidates))[: budget["candidates"]]
    candidates = [candidates[i] for i in order.tolist()]
    if not method.warm_up:
        return candidates
    shares = load_grids()["warm_up"]["shares"]
    drawn = rng.permutation(np.resize(shares, len(candidates))).tolist()
    return [
        {**candidate, "share": share} for candidate, share in zip(candidates, drawn, strict=True)
    ]


def settings_at_edge(spec: Spec, method: Method, settings: dict[str, Any]) -> list[str]:
    """Return the settings whose value is the least or the largest of the grid."""
    grid = grid_of(spec, method.grid)
    return [
        name
        for name, values in grid.items()
        if len(set(values)) > 2 and settings[name] in (min(values), max(values))
    ]
