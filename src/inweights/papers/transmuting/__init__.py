"""*Transmuting prompts into weights* (arXiv 2510.08734): thought matrices on random tokens. Their effect on a language
model is tested in a separate file."""

# The order is that of the claims in the paper.
# isort: off
from inweights.papers.transmuting import claims as claims
from inweights.papers.transmuting import smollm2 as smollm2
from inweights.papers.transmuting import steering as steering
