"""Views: how trials and experiments look."""
