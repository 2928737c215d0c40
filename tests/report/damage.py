"""Run folders damaged in every way that a disk, an editor or a stranger can think of."""

import copy
import json
import shutil

from samples import Sample

FILES = ("status.json", "parties.json", "rounds.jsonl", "spec.toml", "env.json")
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


def good(folder):
    return Sample(rounds=20, parties=4, path=True, objective=True).write(folder)


def whole_files(top):
    """A folder for each file and each damage to the whole of it."""
    for file in FILES:
        for name, content in CONTENT.items():
            run = good(top / f"{file}-{name}".replace(".", "-")).path
            (run / file).write_bytes(content)
            yield run
        run = good(top / f"{file}-cut".replace(".", "-")).path
        (run / file).write_bytes((run / file).read_bytes()[:-7])
        yield run
        for kind in ("missing", "folder", "link", "loop"):
            run = good(top / f"{file}-{kind}".replace(".", "-")).path
            (run / file).unlink()
            if kind == "folder":
                (run / file).mkdir()
            elif kind != "missing":
                (run / file).symlink_to(file if kind == "loop" else "/etc/passwd")
            yield run


def single_values(top):
    """(what, folder) for each value of the JSON files in turn, the folder used again and again."""
    run = good(top / "run").path
    for file in ("status.json", "parties.json", "rounds.jsonl"):
        intact = (run / file).read_bytes()
        lines = [json.loads(line) for line in intact.splitlines()] if file[-1] == "l" else None
        record = lines[-1] if lines else json.loads(intact)
        places = [(key,) for key in record]
        places += [
            (key, inner)
            for key, value in record.items()
            if isinstance(value, dict)
            for inner in value
        ]
        for place in places:
            for value in VALUES:
                changed = copy.deepcopy(record)
                inside = changed if len(place) == 1 else changed[place[0]]
                inside[place[-1]] = value
                texts = [
                    json.dumps(one) for one in ([*lines[:-1], changed] if lines else [changed])
                ]
                (run / file).write_text("\n".join(texts) + "\n")
                yield f"{file} {'.'.join(place)} = {str(value)[:40]}", run
        (run / file).write_bytes(intact)
    shutil.rmtree(run)
