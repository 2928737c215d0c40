"""Optional dependencies: import one, or say which extra installs it."""

import importlib
from types import ModuleType

from fedplus.check import SettingError


def import_extra(module: str, extra: str, purpose: str) -> ModuleType:
    """Import a module of an optional dependency.

    Args:
        module: The module, e.g. ``"plotly.offline"``.
        extra: The extra of fedplus that installs it, e.g. ``"report"``.
        purpose: What needs it, as the subject of a sentence, e.g. ``"fedplus report"``.

    Returns:
        The module.

    Raises:
        SettingError: The package is not installed. The message names the extra.

    >>> import_extra("no_such_package", "report", "fedplus report")
    Traceback (most recent call last):
    fedplus.check.SettingError: fedplus report needs no_such_package, which is not installed. \
Install it with: pip install 'fedplus[report]'
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("fedplus"):
            raise
        package = error.name.partition(".")[0]
        raise SettingError(
            f"{purpose} needs {package}, which is not installed. "
            f"Install it with: pip install 'fedplus[{extra}]'"
        ) from error
