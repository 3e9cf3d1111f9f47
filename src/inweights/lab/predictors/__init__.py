"""Predictors: classical algorithms that answer after every prefix of a prompt, all with one signature."""

from inweights.lab.predictors._classical import Classical as Classical
from inweights.lab.predictors._classical import LinearPredictor as LinearPredictor
from inweights.lab.predictors._predictor import PREDICTORS as PREDICTORS
from inweights.lab.predictors._predictor import Predictor as Predictor
from inweights.lab.predictors.averaging import Averaging as Averaging
from inweights.lab.predictors.bayesian import Bayesian as Bayesian
from inweights.lab.predictors.dmmse import DiscreteMMSE as DiscreteMMSE
from inweights.lab.predictors.gd import GD as GD
from inweights.lab.predictors.gd import GDPlusPlus as GDPlusPlus
from inweights.lab.predictors.gd import PreconditionedGD as PreconditionedGD
from inweights.lab.predictors.kernel import KernelRidge as KernelRidge
from inweights.lab.predictors.lasso import Lasso as Lasso
from inweights.lab.predictors.lasso import lasso_path as lasso_path
from inweights.lab.predictors.logistic import Logistic as Logistic
from inweights.lab.predictors.nearest import Nearest as Nearest
from inweights.lab.predictors.network import Network as Network
from inweights.lab.predictors.newton import Newton as Newton
from inweights.lab.predictors.ols import OLS as OLS
from inweights.lab.predictors.outputs import Outputs as Outputs
from inweights.lab.predictors.ridge import Ridge as Ridge
from inweights.lab.predictors.ridge import WeightedRidge as WeightedRidge
from inweights.lab.predictors.selection import PreTest as PreTest
from inweights.lab.predictors.selection import Validation as Validation
from inweights.lab.predictors.sgd import SGD as SGD
from inweights.lab.predictors.tree import Tree as Tree
from inweights.lab.predictors.zero import Zero as Zero
