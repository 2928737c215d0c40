"""Writes the report as a single HTML file that needs no other files and no network."""

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
from fedplus.extras import import_extra
from fedplus.files import SHARED, write_atomically
from fedplus.report.report_data import report_data


def write_report(
    runs: Sequence[RunFolder], path: Path, *, title: str | None = None, command: str | None = None
) -> Path:
    """Write the report of some runs to a file.

    Args:
        runs: The run folders.
        path: The HTML file to write.
        title: Title of the report; by default the data and the methods.
        command: The command that the report shows as its origin; by default that of the runs.

    Returns:
        The path.

    Raises:
        SettingError: A run folder is damaged, or the runs have different scores.
    """
    write_atomically(path, render_report(runs, title=title, command=command).encode(), SHARED)
    return path


def render_report(
    runs: Sequence[RunFolder], *, title: str | None = None, command: str | None = None
) -> str:
    """Return the report as HTML; the arguments are those of ``write_report``."""
    plotly = import_extra("plotly.offline", "report", "the report")
    data = report_data(runs, title=title, command=command)
    colours = f"const COLOURS = {_json(json.loads(_web('colours.json')))};"
    scripts = [
        _escape_script(script)
        for script in (
            plotly.get_plotlyjs(),
            colours + _web("charts.js"),
            _web("figures.js"),
            _web("report.js"),
        )
    ]
    page = Template(_web("report.html")).substitute(
        policy=_content_security_policy(scripts),
        title=html.escape(data["title"]),
        about=html.escape(data["about"]),
        verdict=html.escape(data["verdict"]),
        style=_web("theme.css") + _web("report.css"),
        payload=_json(data),
        scripts="\n".join(f"<script>{script}</script>" for script in scripts),
    )
    return page.encode("utf-8", "replace").decode("utf-8")  # Replaces lone surrogates.


def _content_security_policy(scripts: Sequence[str]) -> str:
    """Return a policy that allows only these scripts and no network, so that no name can run code."""
    digests = [
        base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts
    ]
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {allowed}; "
        "style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


def _json(value: Any) -> str:
    """Return JSON that is safe inside an HTML element."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _escape_script(script: str) -> str:
    return script.replace("</script", "<\\/script").replace("\r\n", "\n").replace("\r", "\n")


def _web(name: str) -> str:
    return (resources.files("fedplus.report") / "web" / name).read_text(encoding="utf-8")
