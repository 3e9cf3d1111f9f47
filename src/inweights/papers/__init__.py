"""One subpackage for each paper, with its claims, their criteria, and remarks on their verdicts."""

from inweights.papers._papers import PAPERS as PAPERS
from inweights.papers._papers import load_all as load_all
from inweights.papers._recorded import RECORDED as RECORDED
from inweights.papers._recorded import claims as claims
from inweights.papers._recorded import recorded as recorded
