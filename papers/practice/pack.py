"""Copy the data and pure-Python packages that a machine with only JAX and NumPy lacks.

Run: ``python -m papers.practice.pack``. There, set ``FEDPLUS_DATA=papers/practice/.data`` and add
``papers/practice/.vendor`` to ``PYTHONPATH``. Git ignores both folders.
"""

import importlib.util
import shutil
from pathlib import Path

import numpy as np
from papers.practice.federations import DATA, DIGITS_FILE, FOLDER

from fedplus.data.files.locate import locate
from fedplus.data.sets import digits, heart_disease, mnist_files, mnist_writers, parkinsons, school

VENDOR = FOLDER / ".vendor"
PACKAGES = ("optax", "absl", "typing_extensions")
SOURCES = (
    heart_disease.PATIENTS, mnist_files.MNIST, mnist_writers.WRITERS, parkinsons.RECORDINGS,
    school.PUPILS,
)  # fmt: skip
"""The first source of each is the file with the data as the project publishes it."""


def pack_data() -> None:
    """Copy the published files in the layout of ``FEDPLUS_DATA``, and save scikit-learn's digits."""
    for sources in SOURCES:
        for file, path in locate(sources[0]):
            assert path is not None, f"{file.path} is missing; set FEDPLUS_DATA."
            target = DATA / file.path
            target.parent.mkdir(parents=True, exist_ok=True)
            if not target.exists():
                shutil.copyfile(path, target)
    x, y = digits._digits()
    np.savez_compressed(DIGITS_FILE, x=x, y=y)


def pack_packages() -> None:
    """Copy the pure-Python packages."""
    VENDOR.mkdir(exist_ok=True)
    for name in PACKAGES:
        found = importlib.util.find_spec(name)
        assert found is not None
        assert found.origin is not None
        origin = Path(found.origin)
        if origin.name == "__init__.py":
            ignored = shutil.ignore_patterns("__pycache__", "*_test.py", "tests", "testing")
            shutil.copytree(origin.parent, VENDOR / name, dirs_exist_ok=True, ignore=ignored)
        else:
            shutil.copyfile(origin, VENDOR / origin.name)


if __name__ == "__main__":
    pack_data()
    pack_packages()
