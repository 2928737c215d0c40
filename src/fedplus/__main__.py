"""``python -m fedplus``."""

from fedplus.cli import main

main()
