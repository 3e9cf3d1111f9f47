"""A process that trains on a CPU keeps the memory that it frees."""

from __future__ import annotations

import subprocess
import sys

import pytest

from inweights.lab.training._memory import keep_freed

COUNTED = """
import resource, torch
from inweights.lab.training._memory import keep_freed

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(8):
        torch.ones(16 << 20)  # 64 MiB
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

faults()
before, kept = faults(), keep_freed()
faults()
print(before, faults(), kept)
"""


def test_freed_memory_is_used_again() -> None:
    """Page faults of eight blocks one after the other: some in each before, next to none in all of them after."""
    if not keep_freed():
        pytest.skip("needs glibc")
    done = subprocess.run([sys.executable, "-c", COUNTED], capture_output=True, text=True, check=True)
    before, after, _ = done.stdout.split()
    assert int(before) > 64
    assert int(after) < int(before) / 8
