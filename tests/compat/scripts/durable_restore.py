"""A machine is lost. Another one restores the checkpoint from remote storage, by its path. Old hooks."""

import os
import pickle
import shutil

from ray.tune import DurableTrainable


class Model(DurableTrainable):
    def _setup(self, config):
        self.weight = config.get("weight", 0)

    def _train(self):
        self.weight += 1
        return {"weight": self.weight}

    def _save(self, checkpoint_dir):
        path = os.path.join(checkpoint_dir, "model.pkl")
        with open(path, "wb") as file:
            pickle.dump(self.weight, file)
        return path

    def _restore(self, path):
        with open(path, "rb") as file:
            self.weight = pickle.load(file)

    def _stop(self):
        print("stopped at", self.weight)


remote = "file://" + os.path.abspath("bucket/model")
model = Model(remote, {"weight": 10})
print(model.train()["weight"])
path = model.save()
for _ in range(3):
    model.train()
data = model.save_to_object()
model.stop()
shutil.rmtree(model.logdir)

other = Model(remote, {})
other.restore(path)
print(other.train()["weight"], other.training_iteration)
other.restore_from_object(data)
print(other.train()["weight"])
other.delete_checkpoint(path)
print("left", [name for _, _, names in os.walk("bucket") for name in names if name.endswith(".pkl")])
other.stop()
