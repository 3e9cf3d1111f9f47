"""Engines: pieces of work done in parallel, by processes of this machine or on a Ray cluster."""

from inweights.engines._choose import choose as choose
from inweights.engines._work import Beat as Beat
from inweights.engines._work import Engine as Engine
from inweights.engines._work import Work as Work
from inweights.engines._work import no_beat as no_beat
