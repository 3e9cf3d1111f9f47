from inweights import bench as bench
from inweights import blocks as blocks
from inweights import lab as lab
from inweights import report as report
from inweights import theory as theory
from inweights._errors import InputError as InputError
from inweights.blocks import ContextualBlock as ContextualBlock
from inweights.blocks import ContextualLayer as ContextualLayer
from inweights.blocks import absorb as absorb
from inweights.blocks import make_block as make_block
from inweights.blocks import make_layer as make_layer
from inweights.blocks import trajectory as trajectory
from inweights.blocks import without as without
from inweights.theory import Changes as Changes
from inweights.theory import GradientPath as GradientPath
from inweights.theory import ProductPath as ProductPath
from inweights.theory import Shift as Shift
from inweights.theory import Solution as Solution
from inweights.theory import Update as Update
from inweights.theory import family as family
from inweights.theory import gradient_path as gradient_path
from inweights.theory import implicit_update as implicit_update
from inweights.theory import least_squares as least_squares
from inweights.theory import product_path as product_path
from inweights.theory import rank_one as rank_one
from inweights.theory import static_update as static_update

__version__: str
