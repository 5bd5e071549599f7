"""Model: trials and experiments as plain data, and the files that hold them."""
