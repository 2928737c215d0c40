"""Another user of this machine, who has an account and nothing else."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from fedplus.flower.local import BIN, CONNECTION

NOBODY = 65534
AS_NOBODY = (
    "setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups",
    "--inh-caps=-all,+dac_read_search", "--ambient-caps=-all,+dac_read_search",
)  # fmt: skip
"""The capability to read any file lets nobody use a Python that is installed in root's home."""
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")


class Stranger:
    """Runs commands as the user ``nobody``, in a folder of that user, with the deployment's address.

    Args:
        deployment: Whose address and authority the stranger knows; both are public.
        app: A folder with an app, of which the stranger gets a copy.
    """

    def __init__(self, deployment, app):
        self.folder = Path(tempfile.mkdtemp(prefix="stranger-"))
        shutil.copytree(app, self.folder / "app")
        shutil.copy(deployment.folder / "ca.crt", self.folder)
        (self.folder / "flwr").mkdir()
        (self.folder / "flwr" / "config.toml").write_text(
            f'[superlink.{CONNECTION}]\naddress = "127.0.0.1:{deployment.port}"\n'
            f'root-certificates = "{self.folder / "ca.crt"}"\n'
        )
        for path in (self.folder, *self.folder.rglob("*")):
            os.chown(path, NOBODY, NOBODY)

    def flwr(self, *arguments):
        """Run Flower's command line; return its exit status and output in one line."""
        return self.run(BIN / "flwr", *arguments)

    def python(self, code, *arguments):
        """Run a piece of Python; return its exit status and output in one line."""
        return self.run(sys.executable, "-c", code, *arguments)

    def run(self, *command):
        environment = {
            "PATH": os.environ["PATH"], "HOME": str(self.folder), "TMPDIR": str(self.folder),
            "FLWR_HOME": str(self.folder / "flwr"), "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
        }  # fmt: skip
        done = subprocess.run(
            [*AS_NOBODY, *map(str, command)], cwd=self.folder / "app", env=environment,
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        return done.returncode, " ".join((done.stdout + done.stderr).split())

    def close(self):
        shutil.rmtree(self.folder)
