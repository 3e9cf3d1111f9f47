"""*A simple generalisation of the implicit dynamics of in-context learning* (arXiv 2512.11255)."""

# The order is that of the claims in the paper.
# isort: off
from inweights.papers.simple_generalisation import claims as claims
