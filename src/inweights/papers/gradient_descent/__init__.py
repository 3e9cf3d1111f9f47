"""Transformers learn in-context by gradient descent (von Oswald et al. 2023): what is written down, and exact.

What trained models do is in `gradient_descent_trained`.
"""

# The order is that of the claims in the paper.
# isort: off
from inweights.papers.gradient_descent import claims as claims
from inweights.papers.gradient_descent import trained as trained
from inweights.papers.gradient_descent import layers as layers
