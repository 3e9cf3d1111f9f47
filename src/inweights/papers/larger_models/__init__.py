"""Larger language models do in-context learning differently (Wei et al. 2023): flipped and unrelated labels."""

from inweights.papers.larger_models import claims as claims
