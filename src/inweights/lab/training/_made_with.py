"""The software versions, the commit and the hardware that something is computed with."""

from __future__ import annotations

import platform
import subprocess
from functools import cache
from importlib.metadata import version
from pathlib import Path

import torch

from inweights import __version__


def made_with(device: str) -> dict[str, str]:
    """The versions and the hardware of the current process."""
    if device.startswith("cuda"):
        machine = torch.cuda.get_device_name()
    else:
        threads = torch.get_num_threads()
        kind = torch.backends.cpu.get_cpu_capability()
        machine = f"{platform.machine()} ({kind}), {threads} thread{'s' if threads > 1 else ''}"
    return {
        "inweights": __version__,
        "torch": torch.__version__,
        "transformers": version("transformers"),
        "python": platform.python_version(),
        "machine": machine,
        **({"commit": commit} if (commit := _commit()) else {}),
    }


@cache
def _commit() -> str:
    """The commit of a checkout, with a plus if its code was changed since; empty for an installed package."""

    def git(*words: str) -> str:
        command = ["git", "-C", str(Path(__file__).parent), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()

    try:
        if not git("ls-files", "--error-unmatch", Path(__file__).name):
            return ""
        changed = git("status", "--porcelain", "--untracked-files=no", "--", str(Path(__file__).parents[1]))
        return git("rev-parse", "--short=12", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.SubprocessError):  # no git, or no checkout
        return ""
