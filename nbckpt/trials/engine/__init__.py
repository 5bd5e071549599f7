"""Engine: what drives trials in this kernel."""
