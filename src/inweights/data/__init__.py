"""Data sets of small tasks, downloaded on request: none of them is part of this package."""

from inweights.data._few_shot import FewShot as FewShot
from inweights.data._few_shot import few_shot as few_shot
from inweights.data._sources import DATA as DATA
from inweights.data._sources import Source as Source
from inweights.data._sources import pairs as pairs
from inweights.data._sources import source as source
