"""Real Hugging Face `Trainer`: the callback reports, saves checkpoints, resumes, and stops."""

from __future__ import annotations

from pathlib import Path

import pytest
from callbacks import output_of, run_until_asked_to_stop, steps
from required_frameworks import needs

from harness import Project

pytestmark = needs("transformers")


def test_training_is_recorded_resumes_after_a_restart_and_stops_on_request(
    home: Path, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project.path)
    project.write(
        "train.py",
        """
        import os

        import torch
        from transformers import (
            BertConfig, BertForSequenceClassification, Trainer, TrainerCallback, TrainingArguments,
        )

        import windlass as wl

        config = BertConfig(
            vocab_size=16, hidden_size=8, num_hidden_layers=1, num_attention_heads=2,
            intermediate_size=8, max_position_embeddings=8, num_labels=2,
        )
        data = [
            {"input_ids": torch.arange(8) % (i % 7 + 2), "labels": torch.tensor(i % 2)}
            for i in range(32)
        ]


        class DieOnce(TrainerCallback):
            def on_step_begin(self, args, state, control, **kwargs):
                if state.global_step == 5 and wl.current_trial().attempt == 1:
                    os.abort()


        arguments = TrainingArguments(
            output_dir="out", max_steps=100_000, per_device_train_batch_size=8, logging_steps=1,
            save_steps=2, save_total_limit=2, eval_strategy="steps", eval_steps=2,
            report_to="none", disable_tqdm=True, use_cpu=True,
        )
        trainer = Trainer(
            BertForSequenceClassification(config), arguments, train_dataset=data,
            eval_dataset=data[:8], callbacks=[wl.callbacks.transformers(), DieOnce()],
        )
        trainer.train(resume_from_checkpoint=wl.latest_checkpoint())
        print("done in", arguments.world_size)
        """,
    )
    trial = run_until_asked_to_stop("train.py", 8, replicas=2, framework="torch")
    # Killed after step 5, it resumes from the checkpoint of step 4.
    assert steps(trial, "loss", attempt=1) == [1, 2, 3, 4, 5]
    second = steps(trial, "loss", attempt=2)
    assert second[:4] == [5, 6, 7, 8], output_of(trial)
    assert {"learning_rate", "grad_norm", "validation/loss"} <= set(trial.summary_metrics)
    assert steps(trial, "validation/loss", attempt=1) == [2, 4]
    saved = sorted(checkpoint.step or 0 for checkpoint in trial.list_checkpoints())
    assert saved[:2] == [2, 4]
    assert saved[-1] >= second[-1] - 1  # it is saved at the end
    assert {point.index for point in trial.metrics("loss")} == {0}
    assert output_of(trial).count("done in 2") == 2
