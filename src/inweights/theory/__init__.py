"""The theorem itself, on plain tensors: updates, their family, many tokens at once, the dynamics."""

from inweights.theory._changes import Changes as Changes
from inweights.theory._changes import exchanged as exchanged
from inweights.theory._checks import norm as norm
from inweights.theory._checks import require_alike as require_alike
from inweights.theory._checks import require_broadcast as require_broadcast
from inweights.theory._checks import require_finite as require_finite
from inweights.theory._checks import wide as wide
from inweights.theory._dynamics import GradientPath as GradientPath
from inweights.theory._dynamics import ProductPath as ProductPath
from inweights.theory._dynamics import gradient_path as gradient_path
from inweights.theory._dynamics import product_path as product_path
from inweights.theory._family import blind_to as blind_to
from inweights.theory._family import family as family
from inweights.theory._implicit import implicit_update as implicit_update
from inweights.theory._implicit import pseudoinverse as pseudoinverse
from inweights.theory._implicit import quotient as quotient
from inweights.theory._implicit import rank_one as rank_one
from inweights.theory._implicit import residual_bias as residual_bias
from inweights.theory._implicit import residual_matrix as residual_matrix
from inweights.theory._implicit import residual_scale as residual_scale
from inweights.theory._implicit import scalar_update as scalar_update
from inweights.theory._many import Solution as Solution
from inweights.theory._many import least_squares as least_squares
from inweights.theory._many import static_update as static_update
from inweights.theory._shift import Shift as Shift
from inweights.theory._update import Update as Update
