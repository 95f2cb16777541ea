"""How the book judges: `begin`, then `run.record`, `say`, `run.judge`, and `run.close`."""

from sonode_utils.evidence.records import records_folder
from sonode_utils.evidence.report import AUTHORS, Run, begin, later, say
from sonode_utils.evidence.rules import Part, exact, order, share, sign, solver_change
from sonode_utils.evidence.tables import medians, quartiles, span, table
