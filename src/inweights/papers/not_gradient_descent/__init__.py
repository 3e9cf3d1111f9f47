"""Do pretrained transformers learn in-context by gradient descent? (Shen et al. 2024): no, by order, outputs, accuracy
and weights."""

# The order is that of the claims in the paper.
# isort: off
from inweights.papers.not_gradient_descent import weights as weights
from inweights.papers.not_gradient_descent import order as order
from inweights.papers.not_gradient_descent import outputs as outputs
from inweights.papers.not_gradient_descent import accuracy as accuracy
