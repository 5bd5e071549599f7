"""Up, down and away: a syncer by itself, with patterns, a period and a wait."""

import os

from ray.tune.syncer import SyncConfig, get_node_to_storage_syncer

os.makedirs("here/inner")
for name in ("one.txt", "inner/two.txt", "inner/skip.tmp"):
    with open(os.path.join("here", name), "w") as file:
        file.write(name)

remote = "file://" + os.path.abspath("there")
syncer = get_node_to_storage_syncer(SyncConfig(upload_dir=remote, sync_period=600, sync_timeout=30))
print("up", bool(syncer.sync_up("here", remote + "/copy", exclude=["*.tmp"])))
syncer.wait_or_retry()
print("due", bool(syncer.sync_up_if_needed("here", remote + "/copy")))
syncer.wait()
print("again", bool(syncer.sync_up_if_needed("here", remote + "/copy")))
syncer.sync_down(remote + "/copy", "back")
syncer.wait()
with open("back/inner/two.txt") as file:
    print(file.read())
syncer.delete(remote + "/copy")
syncer.wait()
print("gone", not os.path.exists("there/copy/one.txt"))
print(get_node_to_storage_syncer(SyncConfig()))
