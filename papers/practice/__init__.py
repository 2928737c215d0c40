"""A study of Fed+ in practice: joining, warm-up, private layers, and personalising rivals, tuned alike.

Start reading at ``study.py``, which tunes and tests a family of methods on a federation. ``grids.toml``
holds the federations, the schedules and the values to try; it was written before any test result.

- ``python -m papers.practice --only school --quick`` is a trial.
- ``python -m papers.practice.pack`` copies the data and the pure-Python packages that a machine with
  only JAX and NumPy lacks.
- ``python -m papers.practice.report`` writes ``results/`` and ``README.md`` from finished pieces; with
  ``--page``, only ``README.md`` from ``results/``.
"""
