"""Write the results of the study and the page about them.

- ``python -m papers.practice.report`` writes ``results/`` from the pieces, and ``README.md``.
- ``python -m papers.practice.report --page`` writes ``README.md`` from ``results/`` alone.

The text of the page is in ``README.md``; the tables and figures in it stand between markers.
"""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from papers.fed_plus.results import Record, read_csv, read_json
from papers.fed_plus.write_readme import fill_blocks
from papers.practice.__main__ import PIECES
from papers.practice.comparisons import (
    JOINING,
    NEAREST,
    PRIVATE,
    WARM_UP,
    Comparison,
    Scores,
    compare,
    compare_with_rivals,
    format_gain,
    names_of,
    pairs_on,
    seed_means,
    tenths,
)
from papers.practice.federations import load_grids, specs
from papers.practice.summary import RESULTS, read_pieces, write_results
from papers.practice.tables import (
    LABELS,
    below_table,
    comparison_table,
    earlier_table,
    edges_table,
    federation_table,
    federations_table,
    gave_up_table,
    grids_table,
    nearest_table,
    rivals_table,
    summary_table,
)

PAGE = Path(__file__).with_name("README.md")


def read_scores() -> Scores:
    """Return the rows of ``scores.csv`` by federation and method."""
    records = read_csv(RESULTS / "scores.csv")
    return {(record["federation"], record["method"]): record for record in records}


def render_blocks() -> dict[str, str]:
    """Return the generated text of the page, by the name of the block."""
    scores = read_scores()
    parties = read_csv(RESULTS / "parties.csv")
    joining = compare(scores, pairs_on(JOINING, tenths()))
    warm_up = compare(scores, pairs_on(WARM_UP, names_of("main")))
    private = compare(scores, pairs_on(PRIVATE, names_of("layers")))
    return {
        **_set_up_blocks(),
        "summary": summary_table(scores, "main"),
        "summary-layers": summary_table(scores, "layers"),
        "joining": comparison_table(joining),
        "joining-count": _count_better(joining),
        "warm-up": comparison_table(warm_up),
        **{
            f"warm-up-{method}": _count_better([c for c in warm_up if c.method == method])
            for method, _ in WARM_UP
        },
        "private": comparison_table(private),
        "private-head": _gain_list([c for c in private if c.method == "fedgeomed+head"]),
        "rivals": rivals_table(scores),
        "nearest": nearest_table(scores),
        "nearest-both": _count_as_both(scores, NEAREST[0]),
        "other-both": _count_as_both(scores, NEAREST[1]),
        "nearest-loss-count": str(sum(c.sign < 0 for c in compare_with_rivals(scores, NEAREST[0]))),
        "nearest-losses": _losses(scores, NEAREST[0]),
        "other-losses": _losses(scores, NEAREST[1]),
        "below": below_table(scores, parties),
        "gave-up": gave_up_table(scores),
        **_divergence_blocks(scores, parties),
        "gave-up-trials": _gave_up_trials(),
        "earlier": earlier_table(),
        "edges": edges_table(scores),
        "all": "\n\n".join(federation_table(scores, spec) for spec in specs().values()),
    }


def _set_up_blocks() -> dict[str, str]:
    grids = load_grids()
    budget = grids["budget"]
    seeds = budget["seeds"]
    shares = [f"{share:g}" for share in grids["warm_up"]["shares"]]
    return {
        "candidates": str(budget["candidates"]),
        "seeds": f"{len(seeds)} seeds ({seeds[0]} to {seeds[-1]})",
        "validation-share": f"{budget['validation_share']:.0%}",
        "shares": f"{', '.join(shares[:-1])} or {shares[-1]}",
        "federations": federations_table(),
        "grids": grids_table(),
    }


def _count_better(comparisons: Sequence[Comparison]) -> str:
    gains = [comparison.gain for comparison in comparisons]
    better, worse = sum(gain > 0 for gain in gains), sum(gain < 0 for gain in gains)
    signs = [comparison.sign for comparison in comparisons]
    return (
        f"better in {better} of {len(gains)} comparisons ({signs.count(1)} of them significant) "
        f"and worse in {worse} ({signs.count(-1)} significant)"
    )


def _gain_list(comparisons: Sequence[Comparison]) -> str:
    return ", ".join(f"{format_gain(c)} on `{c.federation}`" for c in comparisons)


def _count_as_both(scores: Scores, method: str) -> str:
    federations = names_of("main")
    worse = {c.federation for c in compare_with_rivals(scores, method) if c.gain < 0}
    return f"{len(federations) - len(worse)} of {len(federations)}"


def _losses(scores: Scores, method: str) -> str:
    """Return as text the federations in which a method has a worse mean than a rival."""
    texts = []
    found = [c for c in compare_with_rivals(scores, method) if c.gain < 0]
    for name in names_of("main"):
        of_one = [
            f"{format_gain(c)} against {LABELS[c.rival]}" for c in found if c.federation == name
        ]
        if of_one:
            texts.append(f"`{name}` ({' and '.join(of_one)})")
    return ", ".join(texts)


def _gave_up_trials() -> str:
    """Return the number of candidates in which a party gave up steps, out of all candidates."""
    trials = read_json(RESULTS / "trials.json")
    counts = [
        count
        for of_one in trials.values()
        for found in of_one.values()
        for count in found["gave_up"]
    ]
    return f"{sum(count > 0 for count in counts)} of {len(counts):,} trials"


def _divergence_blocks(scores: Scores, parties: Sequence[Record]) -> dict[str, str]:
    """Return the figures about parties that diverged or end worse than untrained."""
    attacked = {spec.name for spec in specs().values() if spec.attackers}
    calm = [record for record in parties if record["federation"] not in attacked]
    repeated = [record for record in calm if record["repeated"]]
    school = _of_party(parties, "school", 108, below=True)
    patient = _of_party(parties, "patients", 35, below=False)
    total = sum(
        record["parties_times_seeds"]
        for (name, _), record in scores.items()
        if name not in attacked
    )
    return {
        "gave-up-calm": f"{sum(r['gave_up'] > 0 for r in calm)} of {total:,.0f}",
        "repeated-calm": str(len(repeated)),
        "repeated-below": f"{sum(r['below'] for r in repeated):g}",
        "below-calm": f"{sum(r['below'] for r in calm):g}",
        "school": _error_range(school),
        "patient": _error_range(patient),
        "patients-seeds": _largest_seed(scores["patients", "mr-mtl-gm-warm"]),
        "patients-tenth-seeds": _largest_seed(scores["patients-tenth", "fedgeomed+"]),
        "finite": _count_infinite(parties),
    }


def _of_party(parties: Sequence[Record], prefix: str, party: int, *, below: bool) -> list[Record]:
    """Return the records of one party; with ``below``, only those worse than the untrained model."""
    return [
        record
        for record in parties
        if record["federation"].startswith(prefix)
        and record["party"] == party
        and (record["below"] or not below)
    ]


def _error_range(records: Sequence[Record]) -> str:
    errors = [record["score"] for record in records]
    return f"{min(errors):.3g} to {max(errors):.4g}, untrained {_mean(records, 'untrained'):.3g}"


def _largest_seed(record: Record) -> str:
    errors = seed_means(record)
    *others, largest = sorted(errors.tolist())
    return (
        f"{largest:.2f} under seed {errors.argmax()}, "
        f"{others[0]:.2f} to {others[-1]:.2f} under the others"
    )


def _mean(records: Sequence[Record], column: str) -> float:
    return float(np.mean([record[column] for record in records]))


def _count_infinite(parties: Sequence[Record]) -> str:
    return str(sum(not np.isfinite(record["score"]) for record in parties))


def write_page(blocks: Mapping[str, str]) -> None:
    """Fill the blocks of ``README.md``."""
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(fill_blocks(page, blocks), encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the results from the pieces, and the page from the results."""
    parser = argparse.ArgumentParser("papers.practice.report", description=__doc__)
    parser.add_argument("--page", action="store_true", help="only the page, from results/")
    parser.add_argument("--pieces", type=Path, default=PIECES, help="folder of the pieces")
    options = parser.parse_args(arguments)
    if not options.page:
        write_results(read_pieces(options.pieces), RESULTS)
    write_page(render_blocks())


if __name__ == "__main__":
    main()
