"""How the book judges: rules, a notebook's run and its record, the scorecard, tables of text.

A notebook begins with `begin`, keeps values with `run.record`, writes sentences that carry
numbers with `say`, judges its claims with `run.judge` and ends with `run.close`.
"""

from sonode_utils.evidence.report import AUTHORS, Run, begin, records_folder, say
from sonode_utils.evidence.rules import Part, above, below, between, combine, exact, order
from sonode_utils.evidence.rules import solver_change
from sonode_utils.evidence.tables import medians, quartiles, span, table
