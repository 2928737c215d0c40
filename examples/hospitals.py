"""Train Fed+ on one CSV file per hospital: python examples/hospitals.py FOLDER TARGET [DROP,...]."""

import sys

import fedplus as fp

if len(sys.argv) not in (3, 4):
    sys.exit(__doc__)
folder, target, *drop = sys.argv[1:]
federation = fp.Federation.from_folder(folder, target=target, missing="mean", drop=",".join(drop))
features, classes = federation.train.x.shape[1], len(federation.info.classes)
model = fp.models.logistic(features, classes) if classes else fp.models.linear(features)
run = fp.simulate(
    fp.presets.fedgeomed_plus(eta=0.05, sigma=0.2, delta=0.1),
    federation, model, rounds=100, steps=20, batch_size=20, seed=0,
)  # fmt: skip
print(f"{model.task.score_name} of each hospital's own model on its test samples")
for hospital, score in zip(federation.names, run.evaluations["personal_score"][-1], strict=True):
    print(f"{hospital:20} {score:.3f}")
