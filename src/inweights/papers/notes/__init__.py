"""Claims of the notes about regression and gradient descent, including mistakes, and corrected forms."""

# The order is that of the claims in the paper.
# isort: off
from inweights.papers.notes import claims as claims
from inweights.papers.notes import encoder as encoder
from inweights.papers.notes import selection as selection
from inweights.papers.notes import theorem as theorem
from inweights.papers.notes import transfer as transfer
from inweights.papers.notes import stages as stages
from inweights.papers.notes import capacity as capacity
from inweights.papers.notes import limits as limits
from inweights.papers.notes import composed as composed
from inweights.papers.notes import long as long
from inweights.papers.notes import parts as parts
from inweights.papers.notes import scaling as scaling
from inweights.papers.notes import efficient as efficient
from inweights.papers.notes import stability as stability
from inweights.papers.notes import mesa as mesa
from inweights.papers.notes import depth as depth
from inweights.papers.notes import recognition as recognition
from inweights.papers.notes import outputs as outputs
from inweights.papers.notes import bayes as bayes
from inweights.papers.notes import choice as choice
from inweights.papers.notes import predictive as predictive
from inweights.papers.notes import pools as pools
from inweights.papers.notes import one_model as one_model
from inweights.papers.notes import followed as followed
from inweights.papers.notes import architectures as architectures
from inweights.papers.notes import statistics as statistics
from inweights.papers.notes import updates as updates
from inweights.papers.notes import vectors as vectors
from inweights.papers.notes import width as width
