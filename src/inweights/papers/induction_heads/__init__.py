"""Olsson et al. 2022: in-context learning and induction heads (arXiv 2209.11895)."""

# The order is that of the claims in the paper.
# isort: off
from inweights.papers.induction_heads import claims as claims
from inweights.papers.induction_heads import phase as phase
from inweights.papers.induction_heads import smollm2 as smollm2
