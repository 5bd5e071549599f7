"""What the tests of a browser's Python begin with."""

from notebook.lab import browser, chromium
from pyodide.packages import pyodide, wheels

__all__ = ["browser", "chromium", "pyodide", "wheels"]
