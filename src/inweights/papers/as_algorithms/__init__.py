"""Transformers as algorithms (Li et al. 2023): stability of in-context learning, multi-task and transfer risk."""

# The order is that of the claims in the paper.
# isort: off
from inweights.papers.as_algorithms import stability as stability
from inweights.papers.as_algorithms import trained as trained
from inweights.papers.as_algorithms import risk as risk
from inweights.papers.as_algorithms import optimal as optimal
