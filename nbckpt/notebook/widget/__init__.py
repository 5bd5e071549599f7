"""The panel as one widget: the messages to the browser, and the actions that the browser asks for."""
