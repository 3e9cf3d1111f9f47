"""In-context learning against gradient descent on the same demonstrations, on any causal language model."""

from inweights.compare._controls import construction as construction
from inweights.compare._controls import untrained as untrained
from inweights.compare._descent import Checkpoint as Checkpoint
from inweights.compare._descent import Descent as Descent
from inweights.compare._descent import Lesson as Lesson
from inweights.compare._descent import descend as descend
from inweights.compare._plan import OURS as OURS
from inweights.compare._plan import Cost as Cost
from inweights.compare._plan import Plan as Plan
from inweights.compare._plan import cost as cost
from inweights.compare._predict import in_context as in_context
from inweights.compare._predict import next_tokens as next_tokens
from inweights.compare._predict import zero_shot as zero_shot
from inweights.compare._result import Comparison as Comparison
from inweights.compare._run import run_comparison as run_comparison
from inweights.compare._shots import COMPARED as COMPARED
from inweights.compare._shots import Shots as Shots
from inweights.compare._shots import orders as orders
from inweights.compare._shots import shots as shots
from inweights.compare._verdicts import Finding as Finding
from inweights.compare._ways import RATES as RATES
from inweights.compare._ways import WAYS as WAYS
from inweights.compare._ways import Way as Way
from inweights.compare._ways import way as way
