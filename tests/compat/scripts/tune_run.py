"""The function API of Ray 1.0: report, checkpoints in a folder, a grid, and the best trial."""

import json
import os

from ray import tune


def train(config, checkpoint_dir=None, data=None):
    step = 0
    if checkpoint_dir:
        with open(os.path.join(checkpoint_dir, "state.json")) as file:
            step = json.load(file)["step"]
    while step < 20:
        step += 1
        with tune.checkpoint_dir(step=step) as folder, open(folder + "/state.json", "w") as file:
            json.dump({"step": step}, file)
        tune.report(mean_loss=config["lr"] * config["width"] / step, seen=len(data))


analysis = tune.run(
    tune.with_parameters(train, data=[1, 2, 3]),
    name="losses",
    metric="mean_loss",
    mode="min",
    config={
        "lr": tune.grid_search([0.1, 0.4]),
        "momentum": tune.uniform(0.1, 0.9),
        "layers": tune.randint(1, 3),
        "width": tune.sample_from(lambda spec: spec.config.lr * 10),
    },
    stop={"training_iteration": 4},
    keep_checkpoints_num=2,
    checkpoint_score_attr="min-mean_loss",
    resources_per_trial={"cpu": 1, "gpu": 0},
    local_dir="results",
    verbose=0,
)
print("best", analysis.best_config["lr"], analysis.best_result["mean_loss"], analysis.best_result["seen"])
best = analysis.get_best_trial("mean_loss", "min", "last")
print("iterations", best.last_result["training_iteration"], best.status)
with open(os.path.join(best.checkpoint.value, "state.json")) as file:
    print("checkpoint", json.load(file))
print("kept", len(analysis.get_trial_checkpoints_paths(best)))
frame = analysis.dataframe()
print("frame", len(frame), sorted(frame["config/lr"]))
