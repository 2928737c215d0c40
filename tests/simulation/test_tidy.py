"""Memory that is free goes back to the system."""

import platform
import subprocess
import sys

import pytest

SCRIPT = """
import numpy as np
from fedplus.simulation.memory import trim_memory

def megabytes():
    return int(open("/proc/self/statm").read().split()[1]) * 4096 / 2**20

blocks = [np.ones(2**13) for _ in range(3000)]  # 64 KiB each, 190 MiB
kept = blocks[::100]
del blocks
before = megabytes()
print(trim_memory(), before - megabytes() > 100)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="of glibc's allocator")
def test_what_lies_between_what_is_used_goes_back():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True)
    assert done.stdout.split() == ["True", "True"], done.stderr
