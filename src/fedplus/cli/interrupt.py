"""How a command is stopped by Ctrl-C."""


class InterruptedByUserError(Exception):
    """The user pressed Ctrl-C; the text says how to go on."""
