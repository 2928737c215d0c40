"""Markdown tables of how the specifications are trained: cohort, rounds, local work, batches, seeds.

``README.md`` states these settings in the tables made here and nowhere else, so that the page
cannot differ from the specifications.
"""

from collections.abc import Mapping, Sequence

from papers.fed_plus.grids import TABLE2_RULES, tuning_rounds
from papers.fed_plus.specs import load_spec, spec_names

from fedplus.experiments.spec import Spec
from fedplus.report.table_formats import markdown_table

HEADINGS = ("specification", "parties that train in a round", "rounds", "a party's work in a round",
            "batch size", "seeds")  # fmt: skip
PREFIXES = ("table2", "sensitivity", "theory", "portfolio", "figure4", "layers", "attacks", "silos")
"""Prefixes of the names of the studies' specifications."""


def blocks() -> Mapping[str, str]:
    """Return the tables of all studies, named ``PREFIX-training``."""
    return {f"{prefix}-training": schedule_table(spec_names(prefix)) for prefix in PREFIXES}


def schedule_table(names: Sequence[str]) -> str:
    """Return a table with one row for each of these specifications."""
    return markdown_table(HEADINGS, [[f"`{name}`", *_row(name, load_spec(name))] for name in names])


def _row(name: str, spec: Spec) -> list[str]:
    train = spec.train
    rounds = f"{train.rounds:,}"
    tuned = tuning_rounds(spec, TABLE2_RULES)
    if name.startswith("table2-") and tuned != train.rounds:
        rounds += f"; tuned: {tuned:,}"
    work = f"{train.epochs:g} epochs" if train.steps is None else f"{train.steps} steps"
    return [
        "all" if train.cohort is None else str(train.cohort), rounds,
        "1 step" if train.steps == 1 else work, str(train.batch_size), _seeds(spec.seeds),
    ]  # fmt: skip


def _seeds(seeds: Sequence[int]) -> str:
    """Return the seeds as a range if they are one.

    >>> _seeds([0, 1, 2]), _seeds([3]), _seeds([0, 2])
    ('0 to 2', '3', '0, 2')
    """
    if len(seeds) > 1 and list(seeds) == list(range(seeds[0], seeds[-1] + 1)):
        return f"{seeds[0]} to {seeds[-1]}"
    return ", ".join(map(str, seeds))
