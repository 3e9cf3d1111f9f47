"""*Equivalence of context and parameter updates in modern transformer blocks* (arXiv 2511.17864): exact claims. Claims
that depend on precision are in a separate file."""

# The order is that of the claims in the paper.
# isort: off
from inweights.papers.modern_blocks import claims as claims
from inweights.papers.modern_blocks import precision as precision
