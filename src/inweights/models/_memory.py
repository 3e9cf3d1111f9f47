"""Memory of this process and its machine: how much is used, and how much is left.

Linux is read from `/proc` and the control groups, other systems through `os.sysconf`: no package is needed for it.
"""

from __future__ import annotations

import ctypes
import os
import resource
import sys
from pathlib import Path

import torch

_LARGE = 1 << 20
_M_MMAP_THRESHOLD = -3


def available_memory(device: torch.device, root: Path = Path("/")) -> int | None:
    """How many bytes are still available on a device; `None` if the system does not report it.

    On the CPU this is what the kernel could give without swapping, and no more than what is left of the limit of the
    control group (of a container, that is). `root` is where `proc` and `sys` are.
    """
    if device.type == "cuda":
        # What torch holds but does not use is free for torch, and only for torch.
        idle = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(torch.cuda.mem_get_info(device)[0]) + idle
    results = [left for left in (_left_of_system(root), *_left_of_groups(root)) if left is not None]
    return min(results) if results else None


def used_memory(device: torch.device, root: Path = Path("/")) -> int:
    """How many bytes this process holds on a device: resident memory, or what torch has allocated on a GPU."""
    if device.type == "cuda":
        return int(torch.cuda.memory_allocated(device))
    try:
        return int((root / "proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return peak_memory(device)


def peak_memory(device: torch.device) -> int:
    """The most bytes that this process has held on a device so far."""
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    # In kilobytes, but in bytes on macOS.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def return_freed_memory() -> None:
    """From now on, large tensors give their memory back to the system as soon as they are freed, where libc is glibc.

    By default glibc keeps the freed memory of tensors up to 32 MiB for the next ones. Small tensors that stay then
    take its place, and a long context leaves holes in every layer that nothing fits into: three times the memory that
    is used, seen with a context of 1,500 tokens.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _LARGE)


def _left_of_system(root: Path) -> int | None:
    try:
        for line in (root / "proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        return None


def _left_of_groups(root: Path) -> list[int]:
    """What is left of the memory limits of this process' control group and of those around it."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []
    results = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            base, limit, usage = root / "sys/fs/cgroup", "memory.max", "memory.current"
        elif "memory" in controllers.split(","):
            base, limit, usage = root / "sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"
        else:
            continue
        inner = base / path.lstrip("/")
        for group in (inner, *inner.parents):
            left = _left_of_group(group, limit, usage)
            if left is not None:
                results.append(left)
            if group == base:
                break
    return results


def _left_of_group(group: Path, limit: str, usage: str) -> int | None:
    """What is left of one control group's limit, its reclaimable file pages counted as left; `None` without a limit."""
    try:
        most, used = int((group / limit).read_text()), int((group / usage).read_text())
        lines = (group / "memory.stat").read_text().splitlines()
        files = dict(line.split()[:2] for line in lines)
        return max(0, most - used + int(files.get("inactive_file", 0)) + int(files.get("active_file", 0)))
    except (OSError, ValueError):  # `max`, or no such controller
        return None
