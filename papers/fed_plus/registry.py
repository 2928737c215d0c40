"""All studies by name. To add one, write a module with a ``STUDY`` and list it here."""

from papers.fed_plus.study import Study

from papers.fed_plus import (
    attacks,
    figure1,
    figure2,
    figure3,
    figure4,
    layers,
    scaling,
    sensitivity,
    silos,
    table2,
    theory,
)

STUDIES: dict[str, Study] = {
    study.name: study
    for study in (
        table2.STUDY,
        figure1.STUDY,
        figure2.STUDY,
        figure3.STUDY,
        figure4.STUDY,
        scaling.STUDY,
        sensitivity.STUDY,
        theory.STUDY,
        layers.STUDY,
        attacks.STUDY,
        silos.STUDY,
    )
}
