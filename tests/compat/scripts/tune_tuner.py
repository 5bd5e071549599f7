"""The API of Ray 2.x: a Tuner, session.report with checkpoints, and a grid of results."""

from ray import air, tune
from ray.air import Checkpoint, session


def objective(config):
    checkpoint = session.get_checkpoint()
    first = checkpoint.to_dict()["step"] + 1 if checkpoint else 0
    for step in range(first, 3):
        if step == 2 and first == 0 and config["a"] == 1:
            raise RuntimeError("lost")
        score = config["a"] ** 2 + config["b"] + step
        session.report({"score": score}, checkpoint=Checkpoint.from_dict({"step": step, "name": "x"}))


tuner = tune.Tuner(
    tune.with_resources(objective, {"cpu": 1}),
    param_space={"a": tune.grid_search([1, 2, 3]), "b": tune.choice([10])},
    tune_config=tune.TuneConfig(metric="score", mode="max", num_samples=1, max_concurrent_trials=2),
    run_config=air.RunConfig(
        name="squares",
        local_dir="results",
        failure_config=air.FailureConfig(max_failures=1),
        checkpoint_config=air.CheckpointConfig(num_to_keep=1, checkpoint_score_attribute="score"),
    ),
)
results = tuner.fit()
best = results.get_best_result()
print("best", best.config["a"], best.metrics["score"], best.checkpoint.to_dict()["step"])
print("trials", len(results), "errors", results.num_errors)
print("history", list(best.metrics_dataframe["score"]))
first = results.get_best_result(metric="score", mode="min")
print("retried", first.config["a"], list(first.metrics_dataframe["score"]))
again = tune.Tuner.restore("results/squares", trainable=objective)
print("restored", again.get_results().get_best_result("score", "max").metrics["score"])
