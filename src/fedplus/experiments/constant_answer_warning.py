"""Compares the score of a run with that of a constant answer: the majority class or the mean label."""

ANSWER_NAMES = {
    "accuracy": "majority class",
    "mse": "mean label",
    "log return a day": "uniform portfolio",
}
"""The constant answer, by the name of the score."""


def constant_answer_warning(
    score_name: str, better: str, mean: float, constant: float, standardised: bool
) -> str:
    """Return a warning if a run scores worse than the constant answer.

    Args:
        score_name: Name of the score.
        better: "higher" or "lower".
        mean: Mean score over the parties.
        constant: Mean score of the constant answer.
        standardised: Whether the inputs are already standardised.

    Returns:
        A sentence without its subject ("ends below the majority class: ...") and advice, or an
        empty string if the run is not worse.
    """
    is_worse = mean < constant if better == "higher" else mean > constant
    if not is_worse:
        return ""
    name = ANSWER_NAMES.get(score_name, "same answer to everything")
    advice = (
        "Try another eta or more rounds."
        if standardised
        else "Standardise the inputs (--set standardise=true, or federation.standardise() in Python), "
        "or try another eta or more rounds."
    )
    comparison = "below" if better == "higher" else "worse than"
    scores = (
        f"{100 * x:.1f} %" if score_name == "accuracy" else f"{x:.4g}" for x in (mean, constant)
    )
    return f"ends {comparison} the {name}: mean {score_name} {' against '.join(scores)}. {advice}"
