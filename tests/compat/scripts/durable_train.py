"""Each checkpoint is on remote storage when its save returns."""

import json
import os

from ray import tune
from ray.tune.durable_trainable import DurableTrainable


class Counter(DurableTrainable):
    def setup(self, config):
        self.count = 0
        self.by = config["by"]

    def step(self):
        self.count += self.by
        return {"count": self.count}

    def save_checkpoint(self, checkpoint_dir):
        path = os.path.join(checkpoint_dir, "count.json")
        with open(path, "w") as file:
            json.dump(self.count, file)
        return path

    def load_checkpoint(self, path):
        with open(path) as file:
            self.count = json.load(file)


bucket = os.path.abspath("bucket")
analysis = tune.run(
    Counter,
    name="counting",
    config={"by": tune.grid_search([1, 2])},
    stop={"count": 4},
    checkpoint_freq=2,
    checkpoint_at_end=True,
    sync_config=tune.SyncConfig(upload_dir="file://" + bucket),
    local_dir="results",
    verbose=1,
)
print([trial.last_result["training_iteration"] for trial in analysis.trials])
for trial in analysis.trials:
    with open(trial.checkpoint.value) as file:
        print(trial.config["by"], json.load(file))
names = {name for _, _, names in os.walk(bucket) for name in names}
print("remote", "count.json" in names)
