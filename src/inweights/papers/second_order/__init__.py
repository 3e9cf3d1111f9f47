"""Fu et al. 2023: transformers learn higher-order optimisation methods (arXiv 2310.17086). Exact claims."""

# The order is that of the claims in the paper.
# isort: off
from inweights.papers.second_order import claims as claims
from inweights.papers.second_order import trained as trained
