"""A checkpoint as a dict: through bytes, through a folder, and with a field added on the way."""

import tempfile

from ray.air import Checkpoint

checkpoint = Checkpoint.from_dict({"weights": [1, 2, 3], "epoch": 7})
restored = Checkpoint.from_bytes(checkpoint.to_bytes())
print("bytes", restored.to_dict()["weights"], restored.to_dict()["epoch"])

with tempfile.TemporaryDirectory() as folder:
    path = checkpoint.to_directory(folder + "/saved")
    data = Checkpoint.from_directory(path).to_dict()
    data["best"] = True
    again = Checkpoint.from_dict(data).to_directory(folder + "/again")
    print("folder", sorted(Checkpoint.from_directory(again).to_dict()))

with checkpoint.as_directory() as path:
    print("lent", Checkpoint.from_directory(path).to_dict()["epoch"])


class Scored(Checkpoint):
    _SERIALIZED_ATTRS = ("score",)

    score = None


scored = Scored.from_dict({"x": 1})
scored.score = 0.5
copy = Checkpoint.from_dict(scored.to_dict())
print(type(copy).__name__, copy.score, Scored.from_checkpoint(checkpoint).score)
