"""Makes damaged run folders: files with wrong content, wrong kinds of files, and wrong values."""

import copy
import json
import shutil

from sample_runs import Sample

FILES = (
    "status.json", "parties.json", "rounds.jsonl", "spec.toml", "env.json", "new_parties.json",
)  # fmt: skip
NEW_PARTIES = {
    "names": ["8", "9"], "steps": 5, "rounds": 3, "scores": [0.9, 0.7], "local": [0.5, 0.8],
    "given_up": [0, 3],
}  # fmt: skip
CONTENT = {
    "empty": b"", "junk": bytes(range(256)) * 4, "null": b"null\n", "list": b"[]\n", "text": b'"x"\n',
    "number": b"3\n", "deep": b"[" * 100_000 + b"\n", "deeper": b'{"a":' * 100_000 + b"\n",
    "nan": b'{"round": NaN, "names": NaN, "rounds": Infinity}\n',
    "long": b'{"round": ' + b"9" * 5000 + b"}\n", "object": b"{}\n", "bare": b'{"round": 1}\n',
    "half a pair": b'{"label": "\\ud800", "names": ["\\ud800"]}\n',
}  # fmt: skip
VALUES = (
    None, True, -1, 2**70, 1e308, float("nan"), float("-inf"), 10**400, "text", "\ud800", [], {}, [[]],
    ["x", None], [{}], [1e400] * 20, {"a": 1}, {"mean": [], "worst": {}}, {"round": "x"},
    {"lambda": 1, "score": 2}, {"lambda": ["x"], "score": [3]},
    {"round": [1, "x"], "iterations": [{}, 2]}, {"round": [1], "iterations": [1, 2, 3]},
)  # fmt: skip


def intact_run(folder):
    run = Sample(rounds=20, parties=4, path=True, objective=True).write(folder)
    return with_new_parties(run)


def with_new_parties(run, **changes):
    """Write ``new_parties.json`` into a run folder."""
    (run.path / "new_parties.json").write_text(json.dumps(NEW_PARTIES | changes))
    return run


def damaged_files(top):
    """Yield a run folder for each file and each kind of damage to the whole file."""
    for file in FILES:
        for name, content in CONTENT.items():
            run = intact_run(top / f"{file}-{name}".replace(".", "-")).path
            (run / file).write_bytes(content)
            yield run
        run = intact_run(top / f"{file}-cut".replace(".", "-")).path
        (run / file).write_bytes((run / file).read_bytes()[:-7])
        yield run
        for kind in ("missing", "folder", "link", "loop"):
            run = intact_run(top / f"{file}-{kind}".replace(".", "-")).path
            (run / file).unlink()
            if kind == "folder":
                (run / file).mkdir()
            elif kind != "missing":
                (run / file).symlink_to(file if kind == "loop" else "/etc/passwd")
            yield run


def damaged_values(top):
    """Yield (description, run folder) for each wrong value in a JSON file; the folder is reused."""
    run = intact_run(top / "run").path
    for file in ("status.json", "parties.json", "rounds.jsonl", "new_parties.json"):
        intact = (run / file).read_bytes()
        lines = [json.loads(line) for line in intact.splitlines()] if file[-1] == "l" else None
        record = lines[-1] if lines else json.loads(intact)
        key_paths = [(key,) for key in record]
        key_paths += [
            (key, inner)
            for key, value in record.items()
            if isinstance(value, dict)
            for inner in value
        ]
        for key_path in key_paths:
            for value in VALUES:
                changed = copy.deepcopy(record)
                table = changed if len(key_path) == 1 else changed[key_path[0]]
                table[key_path[-1]] = value
                records = [*lines[:-1], changed] if lines else [changed]
                (run / file).write_text("\n".join(map(json.dumps, records)) + "\n")
                yield f"{file} {'.'.join(key_path)} = {str(value)[:40]}", run
        (run / file).write_bytes(intact)
    shutil.rmtree(run)
