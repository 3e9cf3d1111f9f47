"""Training: recipes, one loop for a CPU, a GPU, several processes or several seeds at once, and checkpoints."""

from inweights.lab.training._checkpoint import CHECKPOINT as CHECKPOINT
from inweights.lab.training._checkpoint import MODEL as MODEL
from inweights.lab.training._checkpoint import check_model as check_model
from inweights.lab.training._checkpoint import load_trained as load_trained
from inweights.lab.training._checkpoint import read_about as read_about
from inweights.lab.training._loop import Progress as Progress
from inweights.lab.training._loop import StoppedError as StoppedError
from inweights.lab.training._loop import Trained as Trained
from inweights.lab.training._loop import train as train
from inweights.lab.training._loop import train_seeds as train_seeds
from inweights.lab.training._made_with import made_with as made_with
from inweights.lab.training._processes import Processes as Processes
from inweights.lab.training._recipe import Recipe as Recipe
from inweights.lab.training._recipe import changed as changed
from inweights.lab.training._recipe import parse as parse
from inweights.lab.training._recipe import read as read
from inweights.lab.training._recipe import recipe_names as recipe_names
from inweights.lab.training._run import Run as Run
from inweights.lab.training._run import build as build
