"""Sentences about the settings of a run that depend on the round, from its specification."""

import tomllib
from collections.abc import Iterator
from typing import Any

from fedplus.check import SettingError
from fedplus.experiments.build import SCHEDULES
from fedplus.schedules import AbstractSchedule, Inverse, WarmUp

SYMBOLS = {"eta": "η", "sigma": "σ", "lam": "λ", "delta": "δ"}


def describe_schedules(spec: str) -> list[str]:
    """Return one line for each scheduled setting of a method, e.g. "λ: 1 in rounds 1 to 25, then 0".

    Args:
        spec: The text of ``spec.toml``. If it is damaged, the result is empty.
    """
    try:
        methods = tomllib.loads(spec).get("methods", [])
    except tomllib.TOMLDecodeError:
        return []
    return list(_describe_table(methods[0], ())) if methods and isinstance(methods, list) else []


def _describe_table(table: Any, path: tuple[str, ...]) -> Iterator[str]:
    if not isinstance(table, dict):
        return
    if "schedule" not in table:
        for key, value in table.items():
            yield from _describe_table(value, (*path, key))
        return
    try:
        settings = {key: value for key, value in table.items() if key != "schedule"}
        values = describe_schedule(SCHEDULES[table["schedule"]](**settings))
    except (KeyError, TypeError, SettingError):
        return
    *owners, name = path
    owner = f" of {owners[-1]}" if owners else ""
    yield f"{SYMBOLS.get(name, name)}{owner}: {values}"


def describe_schedule(schedule: AbstractSchedule) -> str:
    """Return the values of a schedule in words; rounds are counted from 1.

    >>> describe_schedule(WarmUp(rounds=25))
    '1 in rounds 1 to 25, then 0'
    """
    settings: Any = schedule
    if isinstance(schedule, WarmUp):
        rounds = "round 1" if settings.rounds == 1 else f"rounds 1 to {settings.rounds}"
        first = f"{settings.first:g} in {rounds}, then " if settings.rounds > 0 else ""
        return f"{first}{settings.then:g}"
    if isinstance(schedule, Inverse):
        return f"{settings.first:g}/(1 + {settings.rate:g} t) after t rounds"
    way = type(schedule).__name__.lower()
    end = f"{settings.last:g} in round {settings.rounds + 1} and afterwards"
    return f"{settings.first:g} in round 1, {way} change to {end}"
