"""Fed+ on CSV files, one a hospital: python examples/hospitals.py FOLDER TARGET_COLUMN."""

import sys

import fedplus as fp

folder, target = sys.argv[1:]
federation = fp.Federation.from_folder(folder, target=target, missing="mean").standardised()
classes = len(federation.info.classes)
run = fp.simulate(
    fp.presets.fedgeomed_plus(eta=0.05, sigma=0.2, delta=0.1),
    federation,
    fp.models.logistic(federation.train.x.shape[1], classes),
    rounds=100,
    steps=20,
    batch_size=20,
    seed=0,
)
for hospital, score in zip(federation.names, run.evaluations["personal_score"][-1], strict=True):
    print(f"{hospital:20} {score:.3f}")
