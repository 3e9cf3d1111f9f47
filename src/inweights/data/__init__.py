"""Data sets of small tasks and documents with questions, downloaded on request: none is part of this package."""

from inweights.data._documents import Document as Document
from inweights.data._documents import MultipleChoice as MultipleChoice
from inweights.data._documents import multiple_choice as multiple_choice
from inweights.data._documents import squad_documents as squad_documents
from inweights.data._few_shot import FewShot as FewShot
from inweights.data._few_shot import few_shot as few_shot
from inweights.data._few_shot import split_pairs as split_pairs
from inweights.data._sources import DATA as DATA
from inweights.data._sources import Source as Source
from inweights.data._sources import pairs as pairs
from inweights.data._sources import source as source
