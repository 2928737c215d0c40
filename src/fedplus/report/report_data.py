"""Run folders → all that the report says, as one JSON object."""

import shlex
from collections.abc import Sequence
from typing import Any

from fedplus.check import require
from fedplus.experiments.run_folder import RunFolder
from fedplus.report import certificates, gains, party_charts, round_charts, summary
from fedplus.report.formatting import Score, count_of, join_names
from fedplus.report.groups import Group, group_runs, score_of
from fedplus.report.headline import best_group
from fedplus.report.run_data import read_run_data


def report_data(
    runs: Sequence[RunFolder], *, title: str | None = None, command: str | None = None
) -> dict[str, Any]:
    """Title, verdict, table, sections and settings; numbers rounded, large federations thinned."""
    require(len(runs) > 0, "runs of a report", "none", "one at least")
    groups = group_runs([read_run_data(run) for run in runs])
    score = score_of(groups)
    winner = best_group([g for g in groups if g.method != "local"] or groups, score)
    best = winner.label if winner else ""
    sections = [
        round_charts.learning_curves(groups, score),
        party_charts.heat_map(groups, score, best),
        gains.gains(groups, score, best),
        round_charts.weight_change(groups),
        round_charts.lambda_path(groups, score),
        party_charts.personal_norms(groups, best),
        certificates.convergence_section(groups),
        certificates.theorem_1_section(groups),
    ]
    return {
        "title": title or _title(groups),
        "about": _about(groups, score),
        "verdict": summary.verdict(groups, score),
        "warnings": summary.warnings(groups, score),
        "stand_in": summary.stand_ins(groups),
        "summary": summary.table(groups),
        "sections": [section for section in sections if section],
        "settings": _settings(groups),
        "command": command or _command(groups),
    }


def _title(groups: Sequence[Group]) -> str:
    data = join_names(dict.fromkeys(group.data for group in groups), 3)
    told = [group for group in groups if group.method != "local"] or groups
    labels = dict.fromkeys(str(g.runs[0].status.get("label") or g.method) for g in told)
    return f"{data}: {join_names(labels, 4)}"


def _about(groups: Sequence[Group], score: Score) -> str:
    """How much there is of everything, in one line."""
    runs = [run for group in groups for run in group.runs]

    def span(key: str, what: str, many: str | None = None) -> str:
        there = sorted({int(run.status.get(key) or 0) for run in runs})
        if len(there) == 1:
            return count_of(there[0], what, many)
        return f"{there[0]:,} to {count_of(there[-1], what, many)}"

    models = join_names(dict.fromkeys(str(run.status.get("model")) for run in runs), 3)
    return (
        f"{span('parties', 'party', 'parties')} · {span('rounds', 'round')} · model: {models} · "
        f"{count_of(len(runs), 'run')} · score: {score.name} ({score.better} is better)"
    )


def _command(groups: Sequence[Group]) -> str:
    """What made the runs, where all were made by one command."""
    commands = [run.env.get("command") for group in groups for run in group.runs]
    made = {tuple(map(str, words)) if isinstance(words, list) else () for words in commands}
    words = list(made.pop()) if len(made) == 1 else []
    return shlex.join(["fedplus", *words[1:]]) if words else ""


def _settings(groups: Sequence[Group]) -> list[dict[str, Any]]:
    return [
        {
            "label": group.label,
            "spec": group.runs[0].spec,
            "seeds": join_names((str(run.status.get("seed")) for run in group.runs), 20),
            "env": {
                str(key): str(value) for key, value in group.runs[0].env.items() if key != "command"
            },
        }
        for group in groups
    ]
