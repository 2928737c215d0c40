"""``trim_heap`` returns free heap memory to the system."""

import platform
import subprocess
import sys

import pytest

SCRIPT = """
import numpy as np
from fedplus.simulation.trim_heap import trim_heap

def megabytes():
    return int(open("/proc/self/statm").read().split()[1]) * 4096 / 2**20

blocks = [np.ones(2**13) for _ in range(3000)]  # 64 KiB each, 190 MiB
still_used = blocks[::100]
del blocks
before = megabytes()
print(trim_heap(), before - megabytes() > 100)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc trims its heap")
def test_free_blocks_between_used_ones_are_returned():
    result = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True)
    assert result.stdout.split() == ["True", "True"], result.stderr
