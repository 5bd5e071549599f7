"""Arguments of `wandb.init`: what each means here, and what to use in place of the others."""

from __future__ import annotations

MEANINGS = {
    "project": "the experiment's name; a character that cannot be in a name becomes `-`",
    "config": "the configuration of the trial",
    "name": "the value `name` of the configuration",
    "notes": "the value `notes` of the configuration",
    "tags": "the value `tags` of the configuration",
    "group": "the value `group` of the configuration",
    "job_type": "the value `job_type` of the configuration",
    "id": "the value `id` of the configuration, by which `resume` finds the trial",
    "dir": "the folder of experiments; by default that of the store",
    "mode": "`disabled` keeps nothing; `online` and `offline` are the same here",
    "reinit": "`return_previous` returns the open trial, `create_new` leaves it open; else it ends as done",
    "resume": "`allow`, `auto`, `must` or True continues the newest unfinished trial of these parameters",
}
"""What an argument means here."""

NOTHING_TO_DO = {
    "entity": "there is no account",
    "anonymous": "there is no account",
    "force": "there is no account",
    "save_code": "each trial keeps the commit and what is not committed",
    "settings": "nbckpt's settings are environment variables",
    "allow_val_change": "a configuration may always change",
    "monitor_gym": "log the video as a file: wandb.save(path)",
    "embed": "one line below the cell follows the trial",
    "space_id": "sync the store: %ckpt sync URL",
    "dataset_id": "sync the store: %ckpt sync URL",
    "private": "the store is yours",
}
"""Arguments that change nothing, and why."""

REFUSED = {
    "config_exclude_keys": "leave the keys out of config",
    "config_include_keys": "give only these keys in config",
    "sync_tensorboard": "log the values with wandb.log",
    "tensorboard": "log the values with wandb.log",
    "resume_from": "use resume='must' with the id",
    "fork_from": "start from a checkpoint: nbckpt.run(FUNCTION, restore=CHECKPOINT)",
}
"""Arguments that are refused unless they are None or False, and what to do instead."""

NAMES = {
    "Artifact": "save files with wandb.save(path), and variables with run.save(globals()) of nbckpt.track",
    "log_artifact": "save files with wandb.save(path)",
    "use_artifact": "read the file, and note it with nbckpt.data(path)",
    "Api": "read experiments with nbckpt.open_experiment(name)",
    "sweep": "run the function as trials: nbckpt.run(FUNCTION, {'lr': nbckpt.grid_search([0.1, 0.2])})",
    "agent": "run the function as trials: nbckpt.run(FUNCTION, {'lr': nbckpt.grid_search([0.1, 0.2])})",
    "plot": "log a figure of matplotlib",
    "Histogram": "log a figure of matplotlib",
    "Plotly": "log wandb.Html(figure.to_html())",
    "Video": "save the file: wandb.save(path)",
    "Audio": "save the file: wandb.save(path)",
    "Object3D": "save the file: wandb.save(path)",
    "Molecule": "save the file: wandb.save(path)",
}
"""Names that are not here, and what to do instead."""
