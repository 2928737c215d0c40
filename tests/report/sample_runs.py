"""Makes synthetic run folders without training, for tests of the report and the board."""

import dataclasses
import json
import os
import zlib
from pathlib import Path

import numpy as np

from fedplus.experiments.run_folder import ENV, FORMAT, PARTIES, ROUNDS, SPEC, STATUS, RunFolder
from fedplus.files import write_atomically

LAMBDAS = (0.0, 0.25, 0.5, 0.75, 1.0)
LEVELS = {"fedavg": 0.72, "local": 0.84, "fedavg+": 0.9, "fedcomed+": 0.92, "fedgeomed+": 0.94}
LABELS = {"fedavg": "FedAvg", "local": "Local", "fedavg+": "FedAvg+", "fedcomed+": "FedCoMed+",
          "fedgeomed+": "FedGeoMed+"}  # fmt: skip
TIMES = "2026-11-15T13:30:00+00:00"


@dataclasses.dataclass(frozen=True)
class Sample:
    """A synthetic run that can be written up to any round; the same fields give the same bytes."""

    method: str = "fedgeomed+"
    label: str | None = None
    seed: int = 0
    data: str = "digits-robust"
    parties: int = 10
    names: tuple[str, ...] | None = None
    outliers: int = 1
    rounds: int = 100
    every: int = 10
    score_name: str = "accuracy"
    better: str = "higher"
    local: bool = True
    majority: bool = True
    path: bool = False
    objective: bool = False
    stand_in_for: str = ""

    @property
    def shown(self):
        return self.label or LABELS.get(self.method, self.method)

    @property
    def party_names(self):
        return list(self.names or map(str, range(self.parties)))

    def write(self, folder, upto=None, state="finished", message=""):
        """Write the run folder as it is after ``upto`` rounds; another call appends more rounds."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        upto = self.rounds if upto is None else upto
        if not (folder / SPEC).exists():
            (folder / SPEC).write_text(self._spec(), encoding="utf-8")
            _json(folder / ENV, _environment())
            _json(folder / PARTIES, self._parties())
        run = RunFolder(folder)
        old_lines = run.lines
        done = old_lines[-1]["round"] if old_lines else 0
        new_lines = [self.line(t) for t in range(done + self.every, upto + 1, self.every)]
        with (folder / ROUNDS).open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(line) + "\n" for line in new_lines)
        last = (old_lines + new_lines)[-1] if old_lines or new_lines else None
        _json(folder / STATUS, self._status(last, upto, state, message))
        return run

    def line(self, t):
        """Return the line of ``rounds.jsonl`` after ``t`` rounds."""
        rng = self._rng(t)
        personal = self._scores(t, LEVELS.get(self.method, 0.88), rng)
        global_ = self._scores(t, min(LEVELS.get(self.method, 0.88), 0.8), rng)
        if self.outliers:
            global_[: self.outliers] = 0.05 if self.better == "higher" else 3.0
        if self.method == "fedavg":
            personal = global_
        v_norm = np.abs(rng.normal(1.0, 0.1, self.parties)) * np.log1p(t)
        v_norm[: self.outliers] *= 4
        line = {
            "round": t,
            "personal": self._summarise(personal), "global": self._summarise(global_),
            "personal_score": personal.tolist(), "personal_loss": (1.2 - personal).tolist(),
            "global_score": global_.tolist(), "global_loss": (1.2 - global_).tolist(),
            "v_norm": v_norm.tolist(),
            "figures": self._figures(range(t - self.every + 1, t + 1)),
        }  # fmt: skip
        if self.objective:
            line["objective"] = 5.0 * (1.5 - LEVELS.get(self.method, 0.88)) + 20.0 / t
        if self.path:
            mixed = [(1 - lam) * personal + lam * global_ for lam in LAMBDAS]
            line["path"] = {"lambda": list(LAMBDAS), "score": [s.tolist() for s in mixed]}
        return line

    def _rng(self, *key):
        return np.random.default_rng([self.seed, zlib.crc32(self.shown.encode()), *key])

    def _scores(self, t, level, rng):
        """Return scores that rise to ``level`` over the rounds and differ between parties."""
        offset = 0.04 * np.sin(1.7 * np.arange(self.parties))
        score = level * (1 - 0.6 * np.exp(-4 * t / self.rounds)) + offset
        score = np.clip(score + rng.normal(0, 0.01, self.parties), 0, 1)
        return score if self.better == "higher" else 1.2 - score

    def _summarise(self, score):
        ordered = np.sort(score) if self.better == "higher" else np.sort(score)[::-1]
        return {
            "mean": score.mean(), "pooled": score.mean(), "std": score.std(),
            "worst_decile": ordered[: max(1, len(ordered) // 10)].mean(), "worst": ordered[0],
        }  # fmt: skip

    def _figures(self, rounds):
        rng = self._rng(rounds[0], 1)
        t = np.array(rounds)
        high = 1.0 if self.method == "fedavg" else 0.05
        change = high * np.exp(-2 * t / self.rounds) * rng.uniform(0.8, 1.2, len(t))
        return {
            "round": t.tolist(),
            "change_mean": (change / 10).tolist(), "change_std": change.tolist(),
            "change_most": (3 * change).tolist(),
            "iterations": rng.integers(3, 9, len(t)).tolist(),
            "residual": (1e-7 * rng.uniform(1, 9, len(t))).tolist(),
            "converged": (t % 17 != 0).tolist(), "dropped": (t % 25 == 0).astype(int).tolist(),
            "cohort": [self.parties] * len(t),
        }  # fmt: skip

    def _parties(self):
        rng = self._rng(0)
        alone = self._scores(self.rounds, LEVELS["local"], rng)
        worst = 0.12 if self.better == "higher" else 1.1
        return {
            "names": self.party_names,
            "train": [60 + 7 * k % 50 for k in range(self.parties)], "test": [90] * self.parties,
            "outliers": self.party_names[: self.outliers],
            "local": alone.tolist() if self.local else None,
            "majority": [worst] * self.parties if self.majority else None,
            "stand_in_for": self.stand_in_for,
        }  # fmt: skip

    def _status(self, last, upto, state, message):
        scores = {"mean": None, "worst": None, "global_mean": None}
        if last:
            personal, global_ = last["personal"], last["global"]
            scores = {"mean": personal["mean"], "worst": personal["worst"],
                      "global_mean": global_["mean"]}  # fmt: skip
        return {
            "format": FORMAT, "state": state, "label": self.shown, "method": self.method,
            "data": self.data, "model": "logistic", "seed": self.seed, "parties": self.parties,
            "round": upto, "rounds": self.rounds,
            "score_name": self.score_name, "better": self.better, **scores,
            "started": TIMES, "updated": TIMES, "seconds": 0.05 * upto, "pid": os.getpid(),
            "host": "sample", "message": message,
        }  # fmt: skip

    def _spec(self):
        return (
            f'seeds = [{self.seed}]\n\n[data]\nname = "{self.data}"\nseed = {self.seed}\n\n'
            f'[model]\nname = "logistic"\n\n[train]\nrounds = {self.rounds}\n\n'
            f'[[methods]]\nname = "{self.method}"\neta = 0.1\nsigma = 0.01\n'
        )


def study(folder, methods=("fedavg", "fedavg+", "fedgeomed+"), seeds=3, **fields):
    """Write a study folder with a run for each method and seed."""
    return [
        Sample(method=method, seed=seed, **fields).write(Path(folder) / f"{method}-{seed}")
        for method in methods
        for seed in range(seeds)
    ]


def _environment():
    return {
        "fedplus": "0.1.0", "jax": "0.10.0", "numpy": "2.4.0", "python": "3.12.3",
        "device": "cpu", "devices": 1, "platform": "Linux", "commit": "0123abc",
    }  # fmt: skip


def _json(path, content):
    write_atomically(path, json.dumps(content, indent=1).encode())
