"""Running a transformers model: positions, caches, hidden states, hooks, re-running one block, batched sampling.

Nothing here depends on patches, folds or claims.
"""

from inweights.running._attention import no_cudnn_attention as no_cudnn_attention
from inweights.running._block import Block as Block
from inweights.running._block import Control as Control
from inweights.running._block import Tail as Tail
from inweights.running._chain import Chain as Chain
from inweights.running._head import at_head as at_head
from inweights.running._head import block_outputs as block_outputs
from inweights.running._head import last_logits as last_logits
from inweights.running._head import pick as pick
from inweights.running._hidden import hidden as hidden
from inweights.running._hidden import run as run
from inweights.running._hidden import signature as signature
from inweights.running._hidden import stream as stream
from inweights.running._hidden import vocabulary as vocabulary
from inweights.running._hidden import with_hidden as with_hidden
from inweights.running._hidden import with_stream as with_stream
from inweights.running._hidden import without_cache as without_cache
from inweights.running._hooks import After as After
from inweights.running._hooks import Before as Before
from inweights.running._hooks import Stop as Stop
from inweights.running._hooks import hooked as hooked
from inweights.running._hooks import standing_in as standing_in
from inweights.running._norms import fused_norms as fused_norms
from inweights.running._precision import KeepFloat64 as KeepFloat64
from inweights.running._precision import full_precision as full_precision
from inweights.running._rerun import Rerun as Rerun
from inweights.running._rerun import Steer as Steer
from inweights.running._rerun import cotangent as cotangent
from inweights.running._rerun import leaves as leaves
from inweights.running._rerun import put as put
from inweights.running._rerun import read_input as read_input
from inweights.running._sample import AT_ONCE as AT_ONCE
from inweights.running._sample import picked as picked
from inweights.running._sample import sample as sample
from inweights.running._sample import widened as widened
from inweights.running._stepping import bookmark as bookmark
from inweights.running._stepping import inputs as inputs
from inweights.running._stepping import step as step
from inweights.running._stepping import steppable as steppable
from inweights.running._stepping import takes_positions as takes_positions
from inweights.running._store import DEFAULT_LIMIT as DEFAULT_LIMIT
from inweights.running._store import Store as Store
from inweights.running._tape import Product as Product
from inweights.running._tape import Tape as Tape
from inweights.running._tape import matrices as matrices
from inweights.running._walk import Walk as Walk
from inweights.running._walk import chain_of as chain_of
from inweights.running._walk import probe as probe
from inweights.running._walk import shared_cache as shared_cache
