"""Attention without cuDNN: PyTorch prefers its kernels on recent GPUs, where two things speak against them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def no_cudnn_attention() -> Iterator[None]:
    """While active, PyTorch computes attention by its other kernels; also a decorator. Without effect on a CPU.

    - cuDNN's gradients are not finite where a mask is given, the length modulo 128 is 64 and the scores of a head are
      far below zero, as those of Qwen2.5 are (PyTorch issue 196678). A fold then had no step at all.
    - It plans its kernels anew for every shape. While text is generated every token has another one, and planning took
      half of the time.
    """
    before = torch.backends.cuda.cudnn_sdp_enabled()
    torch.backends.cuda.enable_cudnn_sdp(False)
    try:
        yield
    finally:
        torch.backends.cuda.enable_cudnn_sdp(before)
