"""Sweeps: a recipe trained with every combination of some settings, on the processes of one machine or on Ray."""

from inweights.lab.sweep._cell import Cell as Cell
from inweights.lab.sweep._cell import Result as Result
from inweights.lab.sweep._grid import cells as cells
from inweights.lab.sweep._sweep import sweep as sweep
from inweights.lab.sweep._table import table_rows as table_rows
from inweights.lab.sweep._table import write_table as write_table
