"""The experiment of section 4 of *Learning without training* (arXiv 2507.16003): one block, trained and measured."""

from inweights.lab.section4._coincidence import Coincidence as Coincidence
from inweights.lab.section4._coincidence import coincidence as coincidence
from inweights.lab.section4._coincidence import decay_exponent as decay_exponent
from inweights.lab.section4._coincidence import implicit_path as implicit_path
from inweights.lab.section4._experiment import Section4 as Section4
from inweights.lab.section4._experiment import section4 as section4
from inweights.lab.section4._finetuning import Finetuning as Finetuning
from inweights.lab.section4._finetuning import finetuning as finetuning
from inweights.lab.section4._linear import LinearTask as LinearTask
from inweights.lab.section4._linear import Prompts as Prompts
from inweights.lab.section4._one_block import BlockTraining as BlockTraining
from inweights.lab.section4._one_block import OneBlock as OneBlock
from inweights.lab.section4._one_block import predict as predict
from inweights.lab.section4._one_block import train_block as train_block
