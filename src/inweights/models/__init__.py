"""Pretrained language models: their anatomy, and patches that stand for a context."""

from inweights.models._anatomy import Anatomy as Anatomy
from inweights.models._anatomy import Block as Block
from inweights.models._anatomy import Control as Control
from inweights.models._anatomy import anatomy as anatomy
from inweights.models._export import merged as merged
from inweights.models._export import portable as portable
from inweights.models._export import to_peft as to_peft
from inweights.models._families import Family as Family
from inweights.models._families import families as families
from inweights.models._families import family_names as family_names
from inweights.models._families_table import families_table as families_table
from inweights.models._generate import Generated as Generated
from inweights.models._generate import generate as generate
from inweights.models._generate import tokens_match as tokens_match
from inweights.models._load import Model as Model
from inweights.models._load import load as load
from inweights.models._patch import Patch as Patch
from inweights.models._patch import patch as patch
from inweights.models._patch_file import load_patch as load_patch
from inweights.models._patch_file import save as save
from inweights.models._prompt import Prompt as Prompt
from inweights.models._rows import rows as rows
from inweights.models._trace import Trace as Trace
from inweights.models._trace import trace as trace
from inweights.models._verify import Proof as Proof
from inweights.models._verify import verify as verify
