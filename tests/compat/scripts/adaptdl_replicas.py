"""Sum over all replicas: `sync` runs on each of them, `save` on the first one only."""

import json
import os

from adaptdl import checkpoint, env


class Seen(checkpoint.State):
    def __init__(self, name):
        super().__init__(name)
        self.samples = []
        self.synced = 0

    def sync(self):
        self.synced += 1

    def save(self, fileobj):
        fileobj.write(json.dumps(self.samples).encode())

    def load(self, fileobj):
        self.samples = json.loads(fileobj.read())


train, valid = Seen("train/epoch 1"), Seen("valid")
for state in (train, valid):
    checkpoint.load_state(state)
begin = len(train.samples)
train.samples += range(begin + env.replica_rank(), begin + 4, env.num_replicas())
valid.samples.append(env.num_nodes())
path = checkpoint.save_all_states()
print("replica", env.replica_rank(), "of", env.num_replicas(), "job", env.job_id())
print("samples", train.samples, "valid", valid.samples, "synced", train.synced)
print("saved", path is not None and os.path.dirname(path) == env.checkpoint_path())
