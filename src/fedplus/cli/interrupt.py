"""The exception with which Ctrl-C ends a command."""


class InterruptedByUserError(Exception):
    """The user pressed Ctrl-C; the message says how to continue."""
