"""Views: how trials and experiments are shown."""
