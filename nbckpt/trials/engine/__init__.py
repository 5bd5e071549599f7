"""Engine: the part that runs trials in this kernel."""
