"""Data: the paper's synthetic systems, and the measured files or their simulated stand-ins."""
