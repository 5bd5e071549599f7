"""Integrations: checkpoints and callbacks for other libraries. A library is imported when it is used."""
