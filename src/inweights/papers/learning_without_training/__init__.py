"""*Learning without training* (arXiv 2507.16003): the theorem. Its dynamics and experiments are in separate files."""

# The order is that of the claims in the paper.
# isort: off
from inweights.papers.learning_without_training import claims as claims
from inweights.papers.learning_without_training import dynamics as dynamics
from inweights.papers.learning_without_training import experiments as experiments
from inweights.papers.learning_without_training import limits as limits
from inweights.papers.learning_without_training import smollm2 as smollm2
