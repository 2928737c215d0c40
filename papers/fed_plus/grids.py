"""Grids and budgets for tuning, read from ``tuning*.toml``, one file per study.

``tuning.toml`` is the file of Table 2 and the default. Most grids are multiples of the values that the
specification states.
"""

import itertools
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from fedplus.experiments.defaults import LABELS
from fedplus.experiments.runner import slug
from fedplus.experiments.spec import Method, Spec

TABLE2_RULES = "tuning"


@cache
def load_rules(rules_name: str = TABLE2_RULES) -> dict[str, Any]:
    """Read a file of grids and budgets; ``tuning.toml`` explains the format."""
    path = Path(__file__).with_name(f"{rules_name}.toml")
    return tomllib.loads(path.read_text(encoding="utf-8"))


def method_key(method: Method) -> str:
    """Return the key of a method in the rules: its name, or its label if it has one of its own."""
    has_default_label = method.label in (None, LABELS[method.name])
    return method.name if has_default_label else slug(str(method.label))


def method_grid(
    key: str, stated: Mapping[str, Any], rules_name: str = TABLE2_RULES
) -> dict[str, list[Any]]:
    """Return the values to try for each setting of a method.

    Args:
        key: Key of the method.
        stated: Settings of the method in the specification.
        rules_name: File of the rules, without ``.toml``.
    """
    return {
        setting: _values(rule, stated.get(setting))
        for setting, rule in load_rules(rules_name)["grid"][key].items()
    }


def _values(rule: Mapping[str, Any], stated: Any) -> list[Any]:
    """Return multiples of the stated value, all combinations, or the values that the rule lists."""
    if "times" in rule:
        return [stated * factor for factor in rule["times"]]
    if "each" in rule:
        combinations = itertools.product(*rule["each"].values())
        return [dict(zip(rule["each"], values, strict=True)) for values in combinations]
    return list(rule["values"])


def candidate_count(key: str, rules_name: str = TABLE2_RULES) -> int | None:
    """Return how many candidates a method has; None means its whole grid."""
    budget = load_rules(rules_name)["budget"]
    count = budget.get("candidates_of", {}).get(key, budget.get("candidates"))
    return None if count is None else int(count)


def split_seeds(rules_name: str = TABLE2_RULES, quick: bool = False) -> list[int]:
    """Return the seeds of the splits on which each candidate is run; a quick trial uses the first."""
    seeds: list[int] = load_rules(rules_name)["budget"]["splits"]
    return seeds[:1] if quick else seeds


def tuning_rounds(spec: Spec, rules_name: str = TABLE2_RULES) -> int:
    """Return for how many rounds candidates, and then the chosen settings, are trained."""
    stated, budget = spec.train.rounds or 1, load_rules(rules_name)["budget"]
    limit = budget.get("rounds_of", {}).get(spec.data.name, budget.get("rounds", stated))
    return int(min(limit, stated))
