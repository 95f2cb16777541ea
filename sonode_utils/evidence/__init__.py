"""How the book judges: `begin`, then `run.record`, `say`, `run.judge`, and `run.close`."""

from sonode_utils.evidence.report import AUTHORS, Run, begin, records_folder, say
from sonode_utils.evidence.rules import Part, above, below, between, combine, exact, order
from sonode_utils.evidence.rules import solver_change
from sonode_utils.evidence.tables import medians, quartiles, span, table
