"""Read a composed configuration, in the style of Hydra's examples."""

import logging
from pathlib import Path

import hydra
from omegaconf import DictConfig, OmegaConf

log = logging.getLogger(__name__)


@hydra.main(version_base=None, config_path="conf", config_name="config")
def main(cfg: DictConfig) -> None:
    print(OmegaConf.to_yaml(cfg))
    log.info("training with %s", cfg.optimizer.name)
    folder = Path(hydra.core.hydra_config.HydraConfig.get().runtime.output_dir)
    (folder / "score.txt").write_text("0.9")


if __name__ == "__main__":
    main()
