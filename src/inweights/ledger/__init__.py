"""The ledger: each claim is a program with a criterion, a negative control, and a verdict; for any paper.

`run_claims` runs trials, caches and judges their results; `results` and `append` read and write `results.jsonl`.
"""

from inweights.ledger._cache import Kept as Kept
from inweights.ledger._claim import CLAIMS as CLAIMS
from inweights.ledger._claim import Claim as Claim
from inweights.ledger._claim import Measurement as Measurement
from inweights.ledger._claim import Paper as Paper
from inweights.ledger._claim import Plot as Plot
from inweights.ledger._claim import claim as claim
from inweights.ledger._criteria import Bound as Bound
from inweights.ledger._criteria import Criteria as Criteria
from inweights.ledger._criteria import Criterion as Criterion
from inweights.ledger._criteria import criteria as criteria
from inweights.ledger._facts import Facts as Facts
from inweights.ledger._facts import Stratum as Stratum
from inweights.ledger._facts import facts as facts
from inweights.ledger._intervals import Interval as Interval
from inweights.ledger._intervals import band as band
from inweights.ledger._judge import Judged as Judged
from inweights.ledger._judge import Verdict as Verdict
from inweights.ledger._judge import judge as judge
from inweights.ledger._kept_weights import kept as kept
from inweights.ledger._kept_weights import stored as stored
from inweights.ledger._register import Registered as Registered
from inweights.ledger._register import register as register
from inweights.ledger._register import registered as registered
from inweights.ledger._register import registration as registration
from inweights.ledger._register import unregistered as unregistered
from inweights.ledger._rejudge import rejudged as rejudged
from inweights.ledger._remarks import remarks as remarks
from inweights.ledger._results import RESULTS as RESULTS
from inweights.ledger._results import Entry as Entry
from inweights.ledger._results import append as append
from inweights.ledger._results import read_entries as read_entries
from inweights.ledger._results import results as results
from inweights.ledger._results import write_entries as write_entries
from inweights.ledger._run import Job as Job
from inweights.ledger._run import run_claims as run_claims
from inweights.ledger._run import seeds_of as seeds_of
from inweights.ledger._show import MEANINGS as MEANINGS
from inweights.ledger._show import Strip as Strip
from inweights.ledger._side_by_side import side_by_side as side_by_side
from inweights.ledger._trial import NotHereError as NotHereError
from inweights.ledger._trial import Trial as Trial
from inweights.ledger._trial import UnmetError as UnmetError
from inweights.ledger._trial import to_train as to_train
