"""Table 2 in Markdown, from the committed CSV."""

from collections.abc import Mapping
from pathlib import Path


def blocks(results: Path) -> Mapping[str, str]:
    """Tables by name."""
    return {}
