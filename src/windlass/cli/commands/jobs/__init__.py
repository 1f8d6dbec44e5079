"""Commands for running trials and jobs: suspend, scale, queue, programs beside a trial."""
