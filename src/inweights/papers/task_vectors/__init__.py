"""Hendel et al. 2023: in-context learning creates task vectors (arXiv 2310.15916)."""

from inweights.papers.task_vectors import claims as claims
