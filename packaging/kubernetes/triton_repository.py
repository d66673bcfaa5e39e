#!/usr/bin/env python3
"""repository.py SOURCE TARGET NAME makes a model repository for Triton out of links to another one.

Its model `tensorrt_llm` batches as dynamic_batching.pbtxt beside this file says, and its front model `ensemble` is called NAME."""

import os
import re
import shutil
import sys
from pathlib import Path

FRONT, ENGINE = "ensemble", "tensorrt_llm"
DYNAMIC_BATCHING = r"(?m)^dynamic_batching\s*:?\s*\{(?:[^{}]|\{[^{}]*\})*\}\n?"


def make(source, target, name, batching):
    models = sorted(path for path in source.iterdir() if (path / "config.pbtxt").is_file())
    missing = {FRONT, ENGINE} - {path.name for path in models}
    if missing:
        sys.exit(f"{source} has no model {' and no model '.join(sorted(missing))}")
    for model in models:
        folder = target / (name if model.name == FRONT else model.name)
        shutil.rmtree(folder, ignore_errors=True)  # The container may have run before.
        shutil.copytree(model, folder, copy_function=os.symlink)
        config = folder / "config.pbtxt"
        text = config.read_text(encoding="utf-8")
        # Without a name, a model has that of its folder.
        text = re.sub(r"(?m)^name\s*:.*\n?", "", text, count=1)
        if model.name == ENGINE:
            text = re.sub(DYNAMIC_BATCHING, "", text) + "\n" + batching
        config.unlink()
        config.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    make(Path(sys.argv[1]).resolve(), Path(sys.argv[2]), sys.argv[3],
         (Path(__file__).parent / "dynamic_batching.pbtxt").read_text(encoding="utf-8"))
