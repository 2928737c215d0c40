"""What is tried of each method, and how long: the TOML files beside this one, a study's each.

Table 2's is ``tuning.toml``, taken where no other is named. Most of a grid is in multiples of what the
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

TABLE2 = "tuning"


@cache
def rules(by: str = TABLE2) -> dict[str, Any]:
    """The grid: see ``tuning.toml``."""
    path = Path(__file__).with_name(f"{by}.toml")
    return tomllib.loads(path.read_text(encoding="utf-8"))


def key_of(one: Method) -> str:
    """A method's name; one that has a label of its own goes by that."""
    return one.name if one.label in (None, LABELS[one.name]) else slug(str(one.label))


def grid_of(key: str, stated: Mapping[str, Any], by: str = TABLE2) -> dict[str, list[Any]]:
    """Values to try for each setting: multiples of what is stated, values, or all combinations."""
    return {
        setting: _values(rule, stated.get(setting))
        for setting, rule in rules(by)["grid"][key].items()
    }


def _values(rule: Mapping[str, Any], stated: Any) -> list[Any]:
    if "times" in rule:
        return [stated * factor for factor in rule["times"]]
    if "each" in rule:
        found = itertools.product(*rule["each"].values())
        return [dict(zip(rule["each"], one, strict=True)) for one in found]
    return list(rule["values"])


def candidates_of(key: str, by: str = TABLE2) -> int | None:
    """How many a method has: the budget's, but where that says otherwise; None: its whole grid."""
    budget = rules(by)["budget"]
    found = budget.get("candidates_of", {}).get(key, budget.get("candidates"))
    return None if found is None else int(found)


def splits_of(by: str = TABLE2, quick: bool = False) -> list[int]:
    """Seeds of the splits that a candidate is judged on, a run each; a try has the first."""
    found: list[int] = rules(by)["budget"]["splits"]
    return found[:1] if quick else found


def rounds_of(spec: Spec, by: str = TABLE2) -> int:
    """How long candidates are trained, and what is chosen: settings are chosen for that length."""
    stated, budget = spec.train.rounds or 1, rules(by)["budget"]
    most = budget.get("rounds_of", {}).get(spec.data.name, budget.get("rounds", stated))
    return int(min(most, stated))
