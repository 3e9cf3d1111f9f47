"""Transformers as statisticians (Bai et al. 2023, arXiv 2306.04637): algorithms in context, and their selection."""

# The order is that of the claims in the paper.
# isort: off
from inweights.papers.statisticians import algorithms as algorithms
from inweights.papers.statisticians import selection as selection
from inweights.papers.statisticians import trained as trained
from inweights.papers.statisticians import attention as attention
