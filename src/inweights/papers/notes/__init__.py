"""Claims of the notes about regression and gradient descent, including mistakes, and corrected forms."""

# The order is that of the claims in the paper.
# isort: off
from inweights.papers.notes import claims as claims
from inweights.papers.notes import encoder as encoder
from inweights.papers.notes import selection as selection
from inweights.papers.notes import theorem as theorem
from inweights.papers.notes import transfer as transfer
from inweights.papers.notes import bayes as bayes
from inweights.papers.notes import choice as choice
from inweights.papers.notes import predictive as predictive
from inweights.papers.notes import one_model as one_model
