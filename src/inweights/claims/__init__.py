"""The ledger: every claim of the literature as a program with a criterion, a control that must fail, and a verdict."""

from inweights.claims._claim import CLAIMS as CLAIMS
from inweights.claims._claim import Claim as Claim
from inweights.claims._claim import Found as Found
from inweights.claims._claim import Paper as Paper
from inweights.claims._claim import Plot as Plot
from inweights.claims._claim import claim as claim
from inweights.claims._criteria import criteria as criteria
from inweights.claims._judge import Verdict as Verdict
from inweights.claims._judge import judge as judge
from inweights.claims._ledger import Entry as Entry
from inweights.claims._ledger import recorded as recorded
from inweights.claims._ledger import run as run
from inweights.claims._papers import load_all as load_all
from inweights.claims._trial import NotHereError as NotHereError
from inweights.claims._trial import Trial as Trial
