"""One adapter for all queries: calibrate, solve, measure, and hand on what other programs load.

The room can be called: `iw.fold(model, context)` is `inweights.fold.fold(model, context)`.
"""

import sys
from types import ModuleType
from typing import Any

from inweights.fold._calibrate import answered as answered
from inweights.fold._calibrate import made_up as made_up
from inweights.fold._calibrate import questions as questions
from inweights.fold._calibrate import read_queries as read_queries
from inweights.fold._card import Card as Card
from inweights.fold._evaluate import Fidelity as Fidelity
from inweights.fold._evaluate import Measured as Measured
from inweights.fold._evaluate import accuracy as accuracy
from inweights.fold._evaluate import evaluate as evaluate
from inweights.fold._evaluate import measure as measure
from inweights.fold._examples import Examples as Examples
from inweights.fold._fold import Fold as Fold
from inweights.fold._frame import Frame as Frame
from inweights.fold._load import load_fold as load_fold
from inweights.fold._make import Made as Made
from inweights.fold._make import fold as fold
from inweights.fold._make import make as make
from inweights.fold._match import Steps as Steps
from inweights.fold._methods import METHODS as METHODS
from inweights.fold._methods import solve as solve
from inweights.fold._methods import working as working
from inweights.fold._showcase import fold_showcase as fold_showcase


class _Room(ModuleType):
    """A package and a function of one name: what users call, and where it lives."""

    def __call__(self, *args: Any, **kwargs: Any) -> Fold:
        return fold(*args, **kwargs)


sys.modules[__name__].__class__ = _Room
