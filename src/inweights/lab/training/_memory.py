"""Memory of a training step on a CPU."""

from __future__ import annotations

import ctypes
from functools import cache

# Parameters of glibc's mallopt.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _LARGEST = -1, -3, 2**31 - 1


@cache
def keep_freed() -> bool:
    """Lets this process keep the memory that it frees; whether the C library can.

    glibc returns large blocks to the system at once. Each step of a training then faults all its pages in anew, which
    takes longer than the arithmetic where batches are large and models small.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):  # another C library
        return False
    return bool(mallopt(_MMAP_THRESHOLD, _LARGEST)) and bool(mallopt(_TRIM_THRESHOLD, _LARGEST))
