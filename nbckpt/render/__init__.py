"""Rendering: result to page, page to text or HTML. Only this folder uses jinja2 and tabulate."""

from nbckpt.render.page import Cell, Column, Fold, Frame, Hint, Page, Picture, Table
from nbckpt.render.result import Result, Rich, html_of
from nbckpt.render.sparkline import thinned
from nbckpt.render.text import error_text
from nbckpt.render.values import age, count, duration, listed, moment, short, size

__all__ = [
    "Cell",
    "Column",
    "Fold",
    "Frame",
    "Hint",
    "Page",
    "Picture",
    "Result",
    "Rich",
    "Table",
    "age",
    "count",
    "duration",
    "error_text",
    "html_of",
    "listed",
    "moment",
    "short",
    "size",
    "thinned",
]
