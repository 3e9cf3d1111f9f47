"""The laboratory: synthetic tasks, classical predictors, small in-context learners, training, and trained models."""

from inweights.lab._absorb import absorb_decoder as absorb_decoder
from inweights.lab._absorb import alone as alone
from inweights.lab._bands import Band as Band
from inweights.lab._bands import bootstrap as bootstrap
from inweights.lab._curves import UNITS as UNITS
from inweights.lab._curves import Curves as Curves
from inweights.lab._curves import PromptSource as PromptSource
from inweights.lab._curves import curves as curves
from inweights.lab._curves import shifted_power as shifted_power
from inweights.lab._describe import PLAIN as PLAIN
from inweights.lab._describe import Formula as Formula
from inweights.lab._describe import Kind as Kind
from inweights.lab._describe import described as described
from inweights.lab._draw import Draw as Draw
from inweights.lab._figure import curves_figure as curves_figure
from inweights.lab._own import load_own as load_own
from inweights.lab._probe import after_examples as after_examples
from inweights.lab._probe import read_linearly as read_linearly
from inweights.lab._probe import states as states
from inweights.lab._registry import Registry as Registry
from inweights.lab._rivals import rivals as rivals
from inweights.lab._text import COMMA as COMMA
from inweights.lab._text import value as value
