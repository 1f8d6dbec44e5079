"""Error messages for missing names in the module `windlass`, with the name to use instead.

Most of these names come from other tracking tools.
"""

from __future__ import annotations

_REPORT = 'To record metrics: wl.report(step, loss=0.5), or wl.report({"loss": 0.5})'
_RUN = (
    "To run a program as a trial: decorate a function with @wl.run, or use windlass run train.py\n"
    "To record a program that runs without Windlass: with wl.start_trial(): ..."
)
_END = "A trial ends when its program ends. For wl.start_trial(): with wl.start_trial(): ..."
_PARAMS = (
    "Windlass records the arguments of functions and scripts by itself. For other programs: "
    "wl.start_trial(params={...})"
)
_FILES = "To keep files: write them to wl.output_dir()"
_CHECKPOINT = "To keep a model: wl.save_checkpoint(path, step=...)"
_SWEEP = (
    'To try several arguments: train.map([0.1, 0.01]), or exp.search(train, space={"lr": ...},'
    ' metric="loss")'
)
_TRIAL = (
    "To get a recorded trial: wl.get_trial(3), wl.list_trials(). Inside a trial: wl.current_trial()"
)
_EXPERIMENT = 'To create an experiment: wl.create_experiment("name")'
_REMOTE = "To run a function as a trial: decorate it with @wl.run, then call it"
_SPACE = "Search spaces: wl.uniform, wl.loguniform, wl.randint, wl.choice"

_HINTS = {
    _REPORT: ("log", "log_metric", "log_metrics", "add_scalar", "scalar", "track", "metric",
              "metrics", "summary", "define_metric", "log_loss", "record"),
    _RUN: ("init", "start_run", "Run", "autolog", "task", "Task", "begin", "start"),
    _END: ("finish", "end_run", "end", "close", "stop", "join"),
    _PARAMS: ("config", "log_param", "log_params", "params", "hparams", "log_config", "connect",
              "log_hyperparams"),
    _FILES: ("log_artifact", "log_artifacts", "log_image", "log_figure", "log_text", "log_table",
             "log_dict", "save", "Artifact", "Image", "Table", "Audio", "Video", "Histogram",
             "Html", "plot"),
    _CHECKPOINT: ("log_model", "save_model", "checkpoint", "use_artifact"),
    _SWEEP: ("sweep", "agent", "map", "create_study", "tune", "grid"),
    _TRIAL: ("Api", "active_run", "get_run", "search_runs", "last_active_run", "run_id", "runs",
             "trial", "trials"),
    _EXPERIMENT: ("set_experiment", "experiment", "experiments", "init_experiment",
                  "create_project", "project"),
    _REMOTE: ("remote", "submit", "function", "App", "Executor", "AutoExecutor", "cls"),
    _SPACE: ("quniform", "qloguniform", "sample_from", "grid_search", "lograndint",
             "suggest_float", "suggest_int", "suggest_categorical"),
    "To log text: print(...), or logging. Windlass records all output": ("info", "warning",
                                                                         "termlog", "alert"),
    "To load the newest checkpoint: wl.latest_checkpoint()": ("load_checkpoint", "restore",
                                                              "load_model", "get_latest"),
    "The rank of this process: wl.rank(), and the number of processes: wl.world_size()": (
        "get_rank", "get_world_size", "local_rank"),
}  # fmt: skip


def describe_unknown(name: str, public: list[str]) -> str:
    """Return the error message for a name that the module `windlass` does not have.

    >>> print(describe_unknown("log_metric", []))
    module 'windlass' has no attribute 'log_metric'
      To record metrics: wl.report(step, loss=0.5), or wl.report({"loss": 0.5})
    >>> describe_unknown("list_trial", ["list_trials", "get_trial"])
    "module 'windlass' has no attribute 'list_trial'. Did you mean wl.list_trials?"
    """
    text = f"module 'windlass' has no attribute {name!r}"
    for hint, names in _HINTS.items():
        if name in names:
            return "\n  ".join([text, *hint.splitlines()])
    from difflib import get_close_matches

    close = get_close_matches(name, public, n=1, cutoff=0.75)
    return f"{text}. Did you mean wl.{close[0]}?" if close else text
