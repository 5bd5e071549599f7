"""A training loop that logs to W&B."""

import random

import wandb

random.seed(0)
run = wandb.init(
    entity="my-team",
    project="quickstart",
    config={"learning_rate": 0.02, "architecture": "CNN", "epochs": 6},
)
offset = random.random() / 5
for epoch in range(1, run.config.epochs):
    accuracy = 1 - 2**-epoch - offset / epoch
    loss = 2**-epoch + offset / epoch
    run.log({"acc": accuracy, "loss": loss})
run.summary["epochs_done"] = epoch
run.finish()
print(f"{run.name}: {run.summary['epochs_done']}")
