"""Another user of this machine, who has an account but no access to a deployment's files."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from fedplus.flower.local_deployment import BIN, CONNECTION

NOBODY = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")


def as_user(uid):
    """Return a command prefix that runs a command as another user.

    The capability to read any file lets that user run a Python that is installed in root's home.
    """
    return (
        "setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups",
        "--inh-caps=-all,+dac_read_search", "--ambient-caps=-all,+dac_read_search",
    )  # fmt: skip


class OtherUser:
    """Runs commands as another user, in a folder of that user, with the deployment's address.

    Args:
        deployment: The deployment. The user knows its address and authority, which are public.
        app: A folder with an app, of which the user gets a copy.
        uid: The user's id.
    """

    def __init__(self, deployment, app, uid=NOBODY):
        self.uid = uid
        self.folder = Path(tempfile.mkdtemp(prefix="other-user-"))
        shutil.copytree(app, self.folder / "app")
        shutil.copy(deployment.folder / "ca.crt", self.folder)
        (self.folder / "flwr").mkdir()
        (self.folder / "flwr" / "config.toml").write_text(
            f'[superlink.{CONNECTION}]\naddress = "127.0.0.1:{deployment.port}"\n'
            f'root-certificates = "{self.folder / "ca.crt"}"\n'
        )
        for path in (self.folder, *self.folder.rglob("*")):
            os.chown(path, uid, uid)

    def flwr(self, *arguments):
        """Run Flower's command line; return its exit status and output in one line."""
        return self.run(BIN / "flwr", *arguments)

    def python(self, code, *arguments):
        """Run a piece of Python; return its exit status and output in one line."""
        return self.run(sys.executable, "-c", code, *arguments)

    def run(self, *command):
        """Run a command; return its exit status and output in one line."""
        environment = {
            "PATH": os.environ["PATH"], "HOME": str(self.folder), "TMPDIR": str(self.folder),
            "FLWR_HOME": str(self.folder / "flwr"), "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
        }  # fmt: skip
        done = subprocess.run(
            [*as_user(self.uid), *map(str, command)], cwd=self.folder / "app", env=environment,
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        return done.returncode, " ".join((done.stdout + done.stderr).split())

    def close(self):
        shutil.rmtree(self.folder)
