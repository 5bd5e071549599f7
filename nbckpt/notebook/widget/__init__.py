"""The panel as one widget: what the kernel sends to the browser, and what it does for it."""
