"""fedplus works with its direct dependencies alone, and names the extra that a feature needs."""

import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
HEAVY = {"flwr", "matplotlib", "pandas", "plotly", "scikit-learn", "starlette", "torch", "uvicorn"}


def installed_closure(requirements):
    """Return the installed distributions that these requirements need, by name."""
    closure = {}
    pending = [Requirement(text) for text in requirements]
    while pending:
        requirement = pending.pop()
        name = canonicalize_name(requirement.name)
        if name in closure or (
            requirement.marker and not requirement.marker.evaluate({"extra": ""})
        ):
            continue
        closure[name] = distribution(name)
        pending += [Requirement(text) for text in closure[name].requires or []]
    return closure


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """Return the Python of an environment with fedplus and its direct dependencies, without extras."""
    folder = tmp_path_factory.mktemp("base")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    for package in installed_closure(PROJECT["dependencies"]).values():
        for name in {file.parts[0] for file in package.files} - {"..", "__pycache__"}:
            if not (site / name).exists():
                (site / name).symlink_to(package.locate_file(name))
    (site / "fedplus.pth").write_text(str(ROOT / "src"))
    return folder / "bin" / "python"


def run(python, *arguments, cwd=None):
    # JAX_COMPILATION_CACHE_DIR, which tests/conftest.py sets, would spare fedplus its own cache folder.
    unset = ("PYTHONPATH", "CI", "JAX_COMPILATION_CACHE_DIR")
    variables = {k: v for k, v in os.environ.items() if k not in unset}
    variables |= {"JAX_PLATFORMS": "cpu", "COLUMNS": "100"}
    argv = [str(python), *map(str, arguments)]
    return subprocess.run(
        argv, cwd=cwd, env=variables, capture_output=True, text=True, timeout=300, check=False
    )


def require_success(python, *arguments, **options):
    done = run(python, *arguments, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_there_are_at_most_nine_direct_dependencies_and_none_is_heavy():
    names = {canonicalize_name(Requirement(text).name) for text in PROJECT["dependencies"]}
    assert len(names) <= 9
    assert not names & HEAVY
    assert not set(installed_closure(PROJECT["dependencies"])) & HEAVY


def test_all_extras_but_torch_are_in_all():
    extras = set(PROJECT["optional-dependencies"]) - {"all", "test", "test-all", "torch"}
    (everything,) = PROJECT["optional-dependencies"]["all"]
    assert Requirement(everything).extras == extras


def test_help_and_version_do_not_import_jax(python):
    for option in ("--help", "--version"):
        program = (
            "import sys\nfrom fedplus.cli import main\n"
            f"try: main([{option!r}])\nfinally: assert 'jax' not in sys.modules"
        )
        assert "fedplus" in require_success(python, "-c", program)


def test_every_public_name_can_be_imported(python):
    program = "import fedplus as fp\nprint(len([getattr(fp, name) for name in fp.__all__]))"
    assert int(require_success(python, "-c", program)) > 30


@pytest.fixture
def tables(tmp_path):
    folder = tmp_path / "hospitals"
    folder.mkdir()
    for party in ("north", "south"):
        rows = "\n".join(f"{i / 10},{(i * 7) % 5},{i % 2}" for i in range(40))
        (folder / f"{party}.csv").write_text(f"age,dose,ill\n{rows}\n")
    return folder


def test_a_run_on_csv_files_needs_no_extra_and_says_how_to_get_the_report(python, tables):
    command = ["-m", "fedplus", "run", tables, "-m", "fedavg+", "--set", "target=ill"]
    out = require_success(python, *command, "--rounds", "2", cwd=tables.parent)
    assert "FedAvg+" in out
    assert "Report:          not written" in out
    assert "pip install 'fedplus[report]'" in out


COMMANDS = {
    "data": ["data", "list"],
    "report": ["report", "."],
    "board": ["board", "."],
    "flower": ["app-hash", "."],
    "data for digits": ["run", "digits-robust", "-m", "fedavg", "--rounds", "1"],
    "mlflow": ["run", "hospitals", "-m", "fedavg", "--set", "target=ill", "--track", "mlflow"],
    "parquet": ["run", "parquet", "-m", "fedavg", "--set", "target=ill"],
}


@pytest.mark.parametrize("extra", COMMANDS)
def test_a_command_without_its_extra_names_it_in_one_line(python, tables, extra):
    (tables.parent / "parquet").mkdir()
    (tables.parent / "parquet" / "north.parquet").write_bytes(b"PAR1")
    done = run(python, "-m", "fedplus", *COMMANDS[extra], cwd=tables.parent)
    lines = done.stderr.splitlines()
    assert done.returncode == 2, done.stderr
    assert len(lines) == 1, done.stderr
    assert re.search(rf"Install it with: pip install 'fedplus\[{extra.split()[0]}\]'$", lines[0])


@pytest.mark.parametrize("command", ["superlink", "supernode"])
def test_the_commands_of_a_deployment_name_their_extra(python, command):
    program = f"from fedplus.cli.flower import {command}; {command}()"
    done = run(python, "-c", program)
    assert done.returncode == 2
    assert done.stderr == (
        f"fedplus-{command}: fedplus-{command} needs flwr, which is not installed. "
        "Install it with: pip install 'fedplus[flower]'\n"
    )


CALLS = {
    "pandas": "fp.read_run('.')",
    "equinox": "fp.models.from_equinox(None)",
    "flax": "fp.models.from_flax(None, None)",
}


@pytest.mark.parametrize("extra", CALLS)
def test_a_function_without_its_extra_names_it(python, extra):
    done = run(python, "-c", f"import fedplus as fp; {CALLS[extra]}")
    assert done.stderr.endswith(f"Install it with: pip install 'fedplus[{extra}]'\n"), done.stderr
