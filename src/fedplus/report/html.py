"""The report: one HTML file that needs nothing beside itself."""

import base64
import hashlib
import html
import json
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

from fedplus.experiments.run_folder import RunFolder
from fedplus.files import SHARED, write_atomically
from fedplus.report.report_data import report_data


def write_report(
    runs: Sequence[RunFolder], path: Path, *, title: str | None = None, command: str | None = None
) -> Path:
    """Write the report of these runs; ``command`` is what the reader is told made them."""
    write_atomically(path, render_report(runs, title=title, command=command).encode(), SHARED)
    return path


def render_report(
    runs: Sequence[RunFolder], *, title: str | None = None, command: str | None = None
) -> str:
    """The report of these runs as HTML."""
    from plotly.offline import get_plotlyjs

    told = report_data(runs, title=title, command=command)
    colours = f"const COLOURS = {_json(json.loads(_web('colours.json')))};"
    scripts = [
        _closed(script)
        for script in (
            get_plotlyjs(),
            colours + _web("charts.js"),
            _web("figures.js"),
            _web("report.js"),
        )
    ]
    made = Template(_web("report.html")).substitute(
        policy=_policy(scripts),
        title=html.escape(told["title"]),
        about=html.escape(told["about"]),
        verdict=html.escape(told["verdict"]),
        style=_web("theme.css") + _web("report.css"),
        payload=_json(told),
        scripts="\n".join(f"<script>{script}</script>" for script in scripts),
    )
    return made.encode("utf-8", "replace").decode("utf-8")  # Half a surrogate pair does not encode.


def _policy(scripts: Sequence[str]) -> str:
    """No network, and no script but these: a name that looks like one cannot run."""
    sums = [
        base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts
    ]
    allowed = " ".join(f"'sha256-{known}'" for known in sums)
    return (
        f"default-src 'none'; script-src {allowed}; "
        "style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


def _json(value: Any) -> str:
    """JSON that cannot end the element it stands in."""
    written = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return written.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _closed(script: str) -> str:
    return script.replace("</script", "<\\/script").replace("\r\n", "\n").replace("\r", "\n")


def _web(name: str) -> str:
    return (resources.files("fedplus.report") / "web" / name).read_text(encoding="utf-8")
