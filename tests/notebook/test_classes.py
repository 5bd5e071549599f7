"""Classes of the notebook: looking at a checkpoint leaves the live ones as they are."""

from __future__ import annotations

import pytest

from notebook.conftest import Notebook

CLASS = """
import math

class Circle:
    corners = 0

    def area(self):
        return math.pi

circle = Circle()
"""


def test_diff_does_not_change_live_classes(notebook: Notebook) -> None:
    notebook.run(CLASS, "%ckpt save shapes", "Circle.corners = 1; circle.size = 2", "%ckpt diff shapes")
    assert notebook.run("Circle.corners") == 1
    assert notebook.run("circle.area()") == pytest.approx(3.14159, abs=1e-5)


def test_an_instance_restored_alone_has_the_live_class(notebook: Notebook) -> None:
    notebook.run(CLASS, "%ckpt save shapes", "Circle.corners = 1; del circle", "%ckpt restore shapes circle")
    assert notebook.run("type(circle) is Circle, circle.corners") == (True, 1)


def test_restore_replaces_a_live_class_and_undo_brings_it_back(notebook: Notebook) -> None:
    notebook.run(CLASS, "%ckpt save shapes", "Circle.corners = 1; live = Circle")
    notebook.run("%ckpt restore shapes Circle circle")
    assert notebook.run("type(circle) is Circle, Circle.corners, live.corners") == (True, 0, 1)
    notebook.run("%ckpt undo")
    assert notebook.run("Circle is live, Circle.corners, type(circle) is live") == (True, 1, True)


def test_a_save_does_not_change_live_classes(notebook: Notebook) -> None:
    notebook.run("class Odd:\n    def __getstate__(self): return {}\n    def hi(self): return 1\nodd = Odd()")
    before = notebook.run("Odd.hi")
    assert notebook.run("%ckpt save odd", "Odd.hi") is before


def test_a_restored_class_counts_as_unchanged(notebook: Notebook) -> None:
    notebook.run(CLASS)
    notebook.run("class Disc(Circle):\n    def __init__(self):\n        self.radius = 2\ndisc = Disc()")
    first = notebook.run("%ckpt save shapes").saved.manifest.values
    differences = notebook.run("%ckpt restore shapes", "%ckpt diff shapes").compared.differences
    names = ["Circle", "Disc", "circle", "disc", "math"]
    assert {difference.name: difference.change for difference in differences} == dict.fromkeys(names, "same")
    second = notebook.run("%ckpt save shapes").saved.manifest.values
    assert {value.name: value.digest for value in second} == {value.name: value.digest for value in first}


def test_an_enum_is_restored_as_itself(notebook: Notebook) -> None:
    notebook.run("import enum\nclass Colour(enum.Enum):\n    RED = 1\nc = Colour.RED", "%ckpt save colours")
    assert notebook.run("del c, Colour", "%ckpt restore colours", "c is Colour.RED, c.value") == (True, 1)
