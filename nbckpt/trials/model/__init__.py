"""Model: what a trial is, as plain data, and the files that keep it."""
