"""What only a few chapters need: each file names the section of the paper it serves."""
