"""Deploy the app on this machine with TLS: ``python deploy.py``.

It starts a SuperLink for the server and a SuperNode for each party, with new certificates and keys. Run
it again after Ctrl-C or a crash to continue with the next round. All files are in ``--folder``.
"""

import argparse
import signal
import sys
from pathlib import Path

from fedplus.flower.app_pinning import app_hash
from fedplus.flower.local_deployment import COMPLETED, deploy_locally

if __name__ == "__main__":
    for number in (signal.SIGTERM, signal.SIGHUP):  # So that all processes end with this one.
        signal.signal(number, lambda *_: sys.exit(1))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parties", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--folder", type=Path, default=Path("deployment"))
    options = parser.parse_args()
    app = Path(__file__).parent
    print(f"The app's hash, which its parties pin: {app_hash(app)}")
    print(f"Starting a SuperLink and {options.parties} SuperNodes; logs are in {options.folder}")
    with deploy_locally(app, options.folder, options.parties) as deployment:
        run = deployment.submit(
            rounds=options.rounds, least=options.parties, parties=options.parties
        )  # fmt: skip
        status = deployment.stream_log(run)
    print(f"{status}. A report: fedplus report {options.folder / 'state' / 'fedapp' / 'server'}")
    sys.exit(status != COMPLETED)
