"""Figures, the tables behind them, and the HTML page."""

from inweights._figures import HEADER as HEADER
from inweights._figures import Curve as Curve
from inweights._figures import Figure as Figure
from inweights._figures import heatmap as heatmap
from inweights.report._claims import counted as counted
from inweights.report._claims import measured as measured
from inweights.report._claims import record as record
from inweights.report._claims import rejudge as rejudge
from inweights.report._claims import write_page as write_page
from inweights.report._claims_figure import write_figure as write_figure
from inweights.report._compare import write_comparison as write_comparison
from inweights.report._fold import facts_sections as facts_sections
from inweights.report._fold import facts_summary as facts_summary
from inweights.report._fold import fold_sections as fold_sections
from inweights.report._fold import fold_summary as fold_summary
from inweights.report._lab import write_curves as write_curves
from inweights.report._language import showcase_summary as showcase_summary
from inweights.report._language import write_showcase as write_showcase
from inweights.report._ledger_site import write_site as write_site
from inweights.report._page import POLICY as POLICY
from inweights.report._page import Section as Section
from inweights.report._page import page as page
from inweights.report._run import write_report as write_report
from inweights.report._section4 import section4_figures as section4_figures
from inweights.report._section4 import section4_summary as section4_summary
from inweights.report._section4 import write_section4 as write_section4
