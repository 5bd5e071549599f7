"""A checkpoint as a folder: to a URI and back, as a dict and back, with a file added on the way."""

import os
import tempfile

from ray.air.checkpoint import Checkpoint

with tempfile.TemporaryDirectory() as folder:
    source = os.path.join(folder, "model")
    os.makedirs(os.path.join(source, "layers"))
    with open(os.path.join(source, "layers", "0.bin"), "wb") as file:
        file.write(b"\0\1\2")

    checkpoint = Checkpoint.from_directory(source)
    print("uri", checkpoint.uri.startswith("file://"))
    uri = checkpoint.to_uri("memory:///bucket/" + os.path.basename(folder))
    remote = Checkpoint.from_uri(uri)
    data = remote.to_dict()
    data["note"] = "from the bucket"

    target = Checkpoint.from_dict(data).to_directory(os.path.join(folder, "copy"))
    with open(os.path.join(target, "extra.txt"), "w") as file:
        file.write("more")
    final = Checkpoint.from_dict(Checkpoint.from_directory(target).to_dict())
    with final.as_directory() as path:
        with open(os.path.join(path, "layers", "0.bin"), "rb") as file:
            print("layer", file.read())
        print("extra", os.path.exists(os.path.join(path, "extra.txt")))
    print("note", final.to_dict()["note"])
    try:
        os.path.exists(final)
    except TypeError:
        print("a checkpoint is not a path")
