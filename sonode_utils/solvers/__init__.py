"""Inside `integrate`: dopri5 for ensembles, fields, and solves parallel in time."""
