"""Collects the content of the report from run folders, as one JSON object."""

import shlex
from collections.abc import Sequence
from typing import Any

from fedplus.check import require
from fedplus.experiments.run_folder import RunFolder
from fedplus.report import (
    gains,
    metrics_section,
    new_parties_section,
    party_charts,
    round_charts,
    summary,
    theory_sections,
)
from fedplus.report.formatting import Score, count_of, join_names
from fedplus.report.groups import Group, group_runs, score_of
from fedplus.report.headline import best_group
from fedplus.report.run_data import read_run_data
from fedplus.report.scheduled_settings import describe_schedules


def report_data(
    runs: Sequence[RunFolder], *, title: str | None = None, command: str | None = None
) -> dict[str, Any]:
    """Return the title, verdict, table, sections and settings of the report.

    Numbers are rounded, and charts of large federations are downsampled.

    Args:
        runs: The run folders.
        title: Title of the report; by default the data and the methods.
        command: The command that made the runs; by default the one in their ``env.json``.

    Returns:
        The content of the report, ready for JSON.

    Raises:
        SettingError: There is no run, a run folder is damaged, or the runs have different scores.
    """
    require(len(runs) > 0, "runs of a report", "none", "one at least")
    groups = group_runs([read_run_data(run) for run in runs])
    score = score_of(groups)
    top = best_group([g for g in groups if g.method != "local"] or groups, score)
    best = top.label if top else ""
    sections = [
        round_charts.learning_section(groups, score),
        party_charts.heat_map_section(groups, score, best),
        gains.gains_section(groups, score, best),
        metrics_section.metrics_section(groups, best),
        new_parties_section.new_parties_section(groups, score, best),
        round_charts.weight_change_section(groups),
        round_charts.lambda_path_section(groups, score),
        party_charts.personal_norm_section(groups, best),
        theory_sections.convergence_section(groups),
        theory_sections.theorem_1_section(groups),
    ]
    return {
        "title": title or _title(groups),
        "about": _subtitle(groups, score),
        "verdict": summary.verdict(groups, score),
        "warnings": summary.warnings(groups, score),
        "stand_in": summary.stand_in_note(groups),
        "summary": summary.summary_table(groups),
        "sections": [section for section in sections if section],
        "settings": _settings(groups),
        "environments": _environments(groups),
        "command": command or _command(groups),
    }


def _title(groups: Sequence[Group]) -> str:
    data = join_names(dict.fromkeys(group.data for group in groups), 3)
    federated = [group for group in groups if group.method != "local"] or groups
    labels = dict.fromkeys(str(g.runs[0].status.get("label") or g.method) for g in federated)
    return f"{data}: {join_names(labels, 4)}"


def _subtitle(groups: Sequence[Group], score: Score) -> str:
    """Return one line with the numbers of parties, rounds and runs, the models and the score."""
    runs = [run for group in groups for run in group.runs]

    def span(key: str, noun: str, plural: str | None = None) -> str:
        counts = sorted({int(run.status.get(key) or 0) for run in runs})
        if len(counts) == 1:
            return count_of(counts[0], noun, plural)
        return f"{counts[0]:,} to {count_of(counts[-1], noun, plural)}"

    inputs = "".join(f" · {text}" for text in dict.fromkeys(run.inputs for run in runs) if text)
    models = join_names(dict.fromkeys(str(run.status.get("model")) for run in runs), 3)
    return (
        f"{span('parties', 'party', 'parties')} · {span('rounds', 'round')} · model: {models} · "
        f"{count_of(len(runs), 'run')} · score: {score.name} ({score.better} is better)"
        f"{inputs}"
    )


def _command(groups: Sequence[Group]) -> str:
    """Return the command that made the runs, or "" if they were made by different commands."""
    commands = [run.env.get("command") for group in groups for run in group.runs]
    different = {tuple(map(str, words)) if isinstance(words, list) else () for words in commands}
    command = list(different.pop()) if len(different) == 1 else []
    return shlex.join(["fedplus", *command[1:]]) if command else ""


def _note(group: Group) -> str:
    """Return the seeds, and how settings depend on the round."""
    seeds = join_names((str(run.status.get("seed")) for run in group.runs), 20)
    lines = [f"Seeds: {seeds}", *describe_schedules(group.runs[0].spec)]
    return "".join(f"{line}. " for line in lines).rstrip()


def _settings(groups: Sequence[Group]) -> list[dict[str, Any]]:
    return [
        {"label": group.label, "spec": group.runs[0].spec, "note": _note(group)} for group in groups
    ]


def _environments(groups: Sequence[Group]) -> list[dict[str, Any]]:
    """Return where the runs were made, once for all methods of the same environment."""
    labels: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for group in groups:
        env = group.runs[0].env.items()
        rows = tuple((str(key), str(value)) for key, value in env if key != "command")
        if rows:
            labels.setdefault(rows, []).append(group.label)
    return [{"labels": names, "rows": rows} for rows, names in labels.items()]
