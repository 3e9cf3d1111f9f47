"""Transformers learn in-context by gradient descent (von Oswald et al. 2023): exact constructions.

Claims about trained models are in `trained` and `layers`.
"""

# The order is that of the claims in the paper.
# isort: off
from inweights.papers.gradient_descent import claims as claims
from inweights.papers.gradient_descent import trained as trained
from inweights.papers.gradient_descent import outputs as outputs
from inweights.papers.gradient_descent import layers as layers
