"""The laboratory: synthetic tasks and small in-context learners."""

from inweights.lab._bands import Band as Band
from inweights.lab._bands import bootstrap as bootstrap
from inweights.lab._coincidence import Coincidence as Coincidence
from inweights.lab._coincidence import coincidence as coincidence
from inweights.lab._coincidence import decay_exponent as decay_exponent
from inweights.lab._coincidence import implicit_path as implicit_path
from inweights.lab._finetuning import Finetuning as Finetuning
from inweights.lab._finetuning import finetuning as finetuning
from inweights.lab._linear import LinearTask as LinearTask
from inweights.lab._linear import Prompts as Prompts
from inweights.lab._one_block import OneBlock as OneBlock
from inweights.lab._one_block import Training as Training
from inweights.lab._one_block import predict as predict
from inweights.lab._one_block import train as train
from inweights.lab._section4 import Section4 as Section4
from inweights.lab._section4 import section4 as section4
