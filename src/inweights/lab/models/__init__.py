"""Models that learn in context: plain torch, one file each."""

from inweights.lab.models._attention_only import AttentionOnly as AttentionOnly
from inweights.lab.models._attention_only import AttentionOnlyModel as AttentionOnlyModel
from inweights.lab.models._constructions import gd_construction as gd_construction
from inweights.lab.models._constructions import gdpp_construction as gdpp_construction
from inweights.lab.models._constructions import interpolate as interpolate
from inweights.lab.models._decoder import Decoder as Decoder
from inweights.lab.models._decoder import DecoderModel as DecoderModel
from inweights.lab.models._encoder import Encoder as Encoder
from inweights.lab.models._encoder import EncoderModel as EncoderModel
from inweights.lab.models._encoder import ReluEncoder as ReluEncoder
from inweights.lab.models._flow import FlowPosterior as FlowPosterior
from inweights.lab.models._learner import Learner as Learner
from inweights.lab.models._lsa import LSA as LSA
from inweights.lab.models._lsa import LSAModel as LSAModel
from inweights.lab.models._lsa import Softmax as Softmax
from inweights.lab.models._recurrent import Griffin as Griffin
from inweights.lab.models._recurrent import Hybrid as Hybrid
from inweights.lab.models._recurrent import Lstm as Lstm
from inweights.lab.models._recurrent import Mamba as Mamba
from inweights.lab.models._settings import MODELS as MODELS
from inweights.lab.models._settings import Settings as Settings
from inweights.lab.models._settings import Sized as Sized
