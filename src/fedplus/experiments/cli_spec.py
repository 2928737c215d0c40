"""The specification that a command line asks for."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedplus.check import SettingError, require, suggest
from fedplus.data import SETS
from fedplus.data.table_files import TABLE_EXTENSIONS, extension
from fedplus.experiments.build import FILE_SETTINGS, MODELS, TABLE_SETTINGS
from fedplus.experiments.defaults import fill_defaults
from fedplus.experiments.run_folder import SPEC
from fedplus.experiments.spec import Evaluation, Spec, Train, parse_spec
from fedplus.experiments.toml_source import TomlSource, read_toml
from fedplus.methods import METHODS, lookup_method

TABLES = ("data", "model", "train", "reference", "evaluation", "new_parties", "method")


def spec_from_command(
    target: str, methods: Sequence[str] = (), settings: Mapping[str, Any] | None = None,
    seeds: Sequence[int] | None = None,
) -> tuple[Spec, TomlSource]:  # fmt: skip
    """Return the complete specification for a target and options of the command line.

    Args:
        target: The name of a data set, a folder of files, or a TOML file.
        methods: Names of methods; none for a TOML file, which has methods.
        settings: Settings by name (``eta``, ``rounds``) or by table and name (``data.parties``).
        seeds: The seeds; by default those of the TOML file, or 0.

    Returns:
        The specification with all defaults, and where its values are written, for messages.

    Raises:
        SettingError: The target, a method or a setting does not exist or is not allowed.
    """
    if target.endswith(".toml"):
        require(
            not methods,
            "--method",
            ", ".join(methods),
            "left out for a TOML file, which has methods",
        )
        content, source = read_spec_file(Path(target))
    else:
        require(bool(methods), "--method", "none", f"one of: {', '.join(METHODS)}")
        for name in methods:
            lookup_method(name)
        content = {"data": data_table(target), "methods": [{"name": name} for name in methods]}
        source = TomlSource()
    parse_spec(content, source)
    if seeds is not None:
        if content.get("seeds") == [content["data"].get("seed")]:
            del content["data"]["seed"]  # It was the run's seed; the new runs have their own.
        content["seeds"] = list(seeds)
    for key, value in (settings or {}).items():
        set_value(content, key, value)
    return fill_defaults(parse_spec(content, source)), source


def read_spec_file(path: Path) -> tuple[dict[str, Any], TomlSource]:
    """Read the tables of a TOML file; relative paths of data are taken from the file's folder.

    ``model = "mlp"`` is short for a table with this name.
    """
    content, source = read_toml(path)
    if isinstance(content.get("model"), str):
        content["model"] = {"name": content["model"]}
    data = content.get("data")
    for key in ("folder", "file"):
        if isinstance(data, dict) and isinstance(data.get(key), str):
            data[key] = str((path.parent / data[key]).resolve())
    return content, source


def data_table(target: str) -> dict[str, Any]:
    """Return the table ``[data]`` for the name of a data set, a folder of files, or a table.

    Raises:
        SettingError: The target is none of these.
    """
    if Path(target).is_dir():
        require(
            not (Path(target) / SPEC).exists(), "run", f"the run folder {target}",
            "a data set, a folder of data or a TOML file",
            f"Repeat it with: fedplus run {Path(target) / SPEC}.",
        )  # fmt: skip
        return {"folder": str(Path(target).resolve())}
    if extension(Path(target)) and Path(target).is_file():
        return {"file": str(Path(target).resolve())}
    if Path(target).is_file():
        raise SettingError(
            f"{target} must be the name of a data set, a folder with one file per party, a table "
            f"({', '.join(TABLE_EXTENSIONS)}) or a TOML file, got another file."
        )
    if target not in SETS:
        advice = suggest(target, SETS) or "fedplus data list shows the data sets."
        raise SettingError(
            f"{target!r} must be a data set, an existing folder, a table or a TOML file, "
            f"got none of these. {advice}"
        )
    return {"name": target}


def set_value(content: dict[str, Any], key: str, value: Any) -> None:
    """Set one setting in the tables of a specification.

    Args:
        content: The tables, which are changed.
        key: The setting's name, or ``table.name`` if several tables have a setting of this name.
        value: The new value.

    Raises:
        SettingError: No table, or more than one, has this setting.
    """
    table, dot, name = key.partition(".")
    if not dot:
        name = key
        tables = [table for table in TABLES if name in _setting_names(content, table)]
        require(
            len(tables) > 0, "--set", key, "a setting of the data, model, training or method",
            _advice(content, key),
        )  # fmt: skip
        choices = " or ".join(f"{table}.{name}" for table in tables)
        require(len(tables) == 1, "--set", key, f"written as {choices}")
        table = tables[0]
    require(table in TABLES, "--set", key, f"TABLE.NAME with one of the tables {', '.join(TABLES)}")
    if table != "method":
        content.setdefault(table, {})[name] = value
        return
    methods = [method for method in content["methods"] if name in _method_settings(method["name"])]
    names = ", ".join(method["name"] for method in content["methods"])
    require(bool(methods), "--set", key, f"a setting of {names}", _advice(content, name))
    for method in methods:
        method[name] = value


def _setting_names(content: Mapping[str, Any], table: str) -> set[str]:
    """Return the settings that a table of this specification can have."""
    if table == "method":
        names = [_method_settings(method["name"]) for method in content["methods"]]
        return set().union(*names)
    if table == "data":
        data_set = content["data"].get("name")
        own = FILE_SETTINGS if "file" in content["data"] else TABLE_SETTINGS
        settings = SETS[data_set].settings if data_set in SETS else own - {"name"}
        return {"first", "standardise", *settings}
    if table == "model":
        model = content.get("model", {}).get("name", "auto")
        if model in MODELS:
            return set(MODELS[model].settings)
        return {name for entry in MODELS.values() for name in entry.settings}
    fields: dict[str, Any] = {"train": Train.model_fields, "evaluation": Evaluation.model_fields}
    return set(fields.get(table, ()))


def _method_settings(name: str) -> set[str]:
    return set(METHODS[name].settings) - {"layout"} if name in METHODS else set()


def _advice(content: Mapping[str, Any], key: str) -> str:
    """Return advice about a setting that this specification cannot have."""
    if key in ("name", "method", "model"):
        return "Choose the method with --method, and the model with --set model.name=NAME."
    others = [name for name in METHODS if key in _method_settings(name)]
    if others:
        return f"Methods with {key}: {', '.join(others)}."
    names = sorted(set().union(*(_setting_names(content, table) for table in TABLES)))
    return suggest(key, names) or f"Known: {', '.join(names)}."
