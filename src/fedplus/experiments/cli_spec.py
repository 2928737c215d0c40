"""From what a person types to a specification."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedplus.check import SettingError, lookup, require, suggestion
from fedplus.data import SETS
from fedplus.experiments.build import MODELS, OF_FILES
from fedplus.experiments.defaults import fill_defaults
from fedplus.experiments.run_folder import SPEC
from fedplus.experiments.spec import Data, Spec, Train, parse_spec
from fedplus.experiments.toml_source import TomlSource, read_toml
from fedplus.methods import METHODS, lookup_method

TABLES = ("data", "model", "train", "reference", "method")


def spec_from_command(
    target: str, methods: Sequence[str] = (), settings: Mapping[str, Any] | None = None,
    seeds: Sequence[int] | None = None,
) -> tuple[Spec, TomlSource]:  # fmt: skip
    """A specification of a data set's name, a folder of files, or a TOML file; defaults filled in.

    Args:
        target: As above.
        methods: By name; none for a TOML file, which has them.
        settings: Of anything, by name (``eta``, ``rounds``) or by table and name (``data.parties``).
        seeds: By default those of the file, or 0.
    """
    if target.endswith(".toml"):
        require(
            not methods,
            "--method",
            ", ".join(methods),
            "left out with a TOML file, which has methods",
        )
        content, source = read_spec_file(Path(target))
    else:
        require(bool(methods), "--method", "none", f"one of: {', '.join(METHODS)}")
        for name in methods:
            lookup_method(name)
        content, source = (
            {"data": _data(target), "methods": [{"name": m} for m in methods]},
            TomlSource(),
        )
    parse_spec(content, source)
    if seeds is not None:
        if content.get("seeds") == [content["data"].get("seed")]:
            del content["data"]["seed"]  # A run's own, which is its seed: the others have theirs.
        content["seeds"] = list(seeds)
    for key, value in (settings or {}).items():
        set_value(content, key, value)
    return fill_defaults(parse_spec(content, source)), source


def read_spec_file(path: Path) -> tuple[dict[str, Any], TomlSource]:
    """The tables of a TOML file; a folder in it is meant from where the file is."""
    content, source = read_toml(path)
    if isinstance(content.get("data"), dict) and isinstance(content["data"].get("folder"), str):
        content["data"]["folder"] = str((path.parent / content["data"]["folder"]).resolve())
    return content, source


def _data(target: str) -> dict[str, Any]:
    if Path(target).is_dir():
        require(
            not (Path(target) / SPEC).exists(), "run", f"the run folder {target}",
            "a data set, a folder of data or a TOML file",
            f"Repeat it with: fedplus run {Path(target) / SPEC}.",
        )  # fmt: skip
        return {"folder": str(Path(target).resolve())}
    if target not in SETS and ("/" in target or "\\" in target):
        raise SettingError(f"{target} must be a folder of data or a data set's name, got neither.")
    lookup(target, SETS, "data set")
    return {"name": target}


def set_value(content: dict[str, Any], key: str, value: Any) -> None:
    """Set one thing in the table that has it; a name that several have needs the table's, too."""
    table, dot, name = key.partition(".")
    if not dot:
        name = key
        homes = [t for t in TABLES if name in _names(content, t)]
        require(
            len(homes) > 0, "--set", key, "a setting of data, model, training or method",
            _nearest(content, key),
        )  # fmt: skip
        require(
            len(homes) == 1, "--set", key, f"one of {' and '.join(f'{t}.{name}' for t in homes)}"
        )
        table = homes[0]
    require(
        table in TABLES, "--set", key, f"one of the tables {', '.join(TABLES)}, a dot and a name"
    )
    if table != "method":
        content.setdefault(table, {})[name] = value
        return
    meant = [one for one in content["methods"] if name in _settings(one["name"])]
    require(bool(meant), "--set", key, f"a setting of {_listed(content)}", _nearest(content, name))
    for one in meant:
        one[name] = value


def _names(content: Mapping[str, Any], table: str) -> set[str]:
    if table == "method":
        return {name for one in content["methods"] for name in _settings(one["name"])}
    if table == "data":
        named = content["data"].get("name")
        of_set = SETS[named].settings if named in SETS else OF_FILES - {"name"}
        return {"first", "standardise", *of_set}
    if table == "model":
        name = content.get("model", {}).get("name", "auto")
        return (
            set(MODELS[name][1]) if name in MODELS else {n for _, s in MODELS.values() for n in s}
        )
    return set(Train.model_fields) if table == "train" else set()


def _settings(name: str) -> set[str]:
    return set(METHODS[name].settings) - {"layout"} if name in METHODS else set()


def _listed(content: Mapping[str, Any]) -> str:
    return ", ".join(one["name"] for one in content["methods"])


def _nearest(content: Mapping[str, Any], key: str) -> str:
    all_ = sorted(
        set().union(*(_names(content, table) for table in TABLES)) | set(Data.model_fields)
    )
    return suggestion(key, all_) or f"Known: {', '.join(all_)}."
