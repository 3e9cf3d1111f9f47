"""Pretrained language models: their anatomy, and patches that stand for a context."""

from inweights.models._anatomy import Anatomy as Anatomy
from inweights.models._anatomy import Block as Block
from inweights.models._anatomy import Control as Control
from inweights.models._anatomy import anatomy as anatomy
