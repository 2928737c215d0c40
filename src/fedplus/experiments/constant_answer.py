"""Compares a run with an answer that is always the same: the majority class, or the mean label."""

NAMES = {
    "accuracy": "majority class",
    "mse": "mean label",
    "log return a day": "uniform portfolio",
}
"""The constant answer, by the name of the score."""


def warn_below_constant_answer(
    score_name: str, better: str, mean: float, constant: float, standardised: bool
) -> str:
    """Warn of a run that ends no better than the constant answer.

    Args:
        score_name: Name of the score.
        better: "higher" or "lower".
        mean: Mean score over the parties.
        constant: The same of the constant answer.
        standardised: Whether the inputs are standardised already.

    Returns:
        The end of a sentence about the run and what to do, or an empty text if all is well.
    """
    is_worse = mean < constant if better == "higher" else mean > constant
    if not is_worse:
        return ""
    name = NAMES.get(score_name, "same answer to everything")
    advice = (
        "Try another eta or more rounds."
        if standardised
        else "Standardise the inputs (--set standardise=true, or federation.standardise() in Python), "
        "or try another eta or more rounds."
    )
    how = "below" if better == "higher" else "worse than"
    shown = (
        f"{100 * x:.1f} %" if score_name == "accuracy" else f"{x:.4g}" for x in (mean, constant)
    )
    return f"ends {how} the {name}: mean {score_name} {' against '.join(shown)}. {advice}"
