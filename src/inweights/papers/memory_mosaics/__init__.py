"""Zhang et al. 2024: Memory Mosaics, networks of associative memories (arXiv 2405.06394)."""

from inweights.papers.memory_mosaics import claims as claims
