"""The software versions and the hardware that a trial runs on."""

from __future__ import annotations

import platform
from importlib.metadata import version

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
    }
