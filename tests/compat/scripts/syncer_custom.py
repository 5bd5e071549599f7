"""A syncer of one's own copies the experiment to a folder that only it knows."""

import os
import shutil

from ray import tune
from ray.tune.syncer import SyncConfig, Syncer


class CopySyncer(Syncer):
    def _path(self, remote):
        return os.path.abspath(remote.replace("shelf://", "shelf_"))

    def sync_up(self, local_dir, remote_dir, exclude=None):
        shutil.copytree(local_dir, self._path(remote_dir), dirs_exist_ok=True)
        return True

    def sync_down(self, remote_dir, local_dir, exclude=None):
        if os.path.exists(self._path(remote_dir)):
            shutil.copytree(self._path(remote_dir), local_dir, dirs_exist_ok=True)
        return True

    def delete(self, remote_dir):
        shutil.rmtree(self._path(remote_dir), ignore_errors=True)
        return True

    def retry(self):
        pass

    def wait(self):
        pass

    @classmethod
    def validate_upload_dir(cls, upload_dir):
        return upload_dir.startswith("shelf://")


def train(config):
    for step in range(3):
        tune.report(score=step * config["factor"])


config = SyncConfig(upload_dir="shelf://one", syncer=CopySyncer(sync_period=60))
print("valid", config.validate_upload_dir())
analysis = tune.run(train, name="scores", config={"factor": 2}, sync_config=config, local_dir="results")
print("score", analysis.trials[0].last_result["score"])
print("copied", os.path.isdir("shelf_one/scores"))
