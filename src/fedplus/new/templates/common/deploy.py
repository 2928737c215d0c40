"""The app as a TLS deployment on this machine: ``python deploy.py``.

A SuperLink and a SuperNode a party, each a process of its own, with certificates and keys made here.
Run it again after Ctrl-C or a crash: it goes on with the next round. Everything is in ``--folder``.
"""

import argparse
import signal
import sys
from pathlib import Path

from fedplus.flower.local_deployment import COMPLETED, deploy_locally
from fedplus.flower.pinning import app_hash

if __name__ == "__main__":
    for closed in (signal.SIGTERM, signal.SIGHUP):  # So that all processes end with this one.
        signal.signal(closed, lambda *_: sys.exit(1))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parties", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--folder", type=Path, default=Path("deployment"))
    given = parser.parse_args()
    app = Path(__file__).parent
    print(f"The app's hash, which its parties pin: {app_hash(app)}")
    print(f"Starting a SuperLink and {given.parties} SuperNodes; logs are in {given.folder}")
    with deploy_locally(app, given.folder, given.parties) as here:
        status = here.followed(here.run(rounds=given.rounds, least=given.parties))
    print(f"{status}. A report: fedplus report {given.folder / 'state' / 'fedapp' / 'server'}")
    sys.exit(status != COMPLETED)
