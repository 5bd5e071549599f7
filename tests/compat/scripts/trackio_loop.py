"""A loop that logs to trackio, in the form of its own documentation."""

import trackio as wandb

wandb.init(project="my-project", name="my-first-run", config={"epochs": 3})
table = wandb.Table(columns=["epoch", "loss"], data=[])
for epoch in range(wandb.config["epochs"]):
    wandb.log({"train/loss": 1 / (epoch + 1), "val/loss": 1 / (epoch + 1)}, step=epoch)
    table.add_data(epoch, 1 / (epoch + 1))
wandb.log({"table": table})
wandb.finish()
print(wandb.run.trial)
