#!/usr/bin/env python3
"""prometheus-adapter of kubernetes-sigs, compiled once from its Go module with the versions that its own go.sum names.

    prometheus_adapter.py install     once, with a module proxy in reach; 4 minutes of a core, 60 MB"""

import json
import os
import pathlib
import subprocess
import sys

MODULE, VERSION, SUM = "sigs.k8s.io/prometheus-adapter", "v0.12.0", "h1:e29A6BIwA/NKxPZeuamBMHJsvz0sSUXTb92Obg7RMV4="
PROGRAM = (pathlib.Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "penstock-prometheus-adapter" / VERSION
           / "prometheus-adapter")


def install():
    """Returns why it is not there, or nothing."""
    if PROGRAM.exists():
        return ""
    environment = {**os.environ, "GOFLAGS": "-mod=readonly -buildvcs=false", "GOWORK": "off", "CGO_ENABLED": "0"}
    try:
        done = subprocess.run(["go", "mod", "download", "-json", f"{MODULE}@{VERSION}"], cwd="/", env={**environment, "GOFLAGS": ""},
                              text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        if done.returncode != 0:
            return f"{MODULE} {VERSION} cannot be obtained: {done.stderr.strip().splitlines()[-1:]}"
        module = json.loads(done.stdout)
        if module["Sum"] != SUM:
            return f"{MODULE} {VERSION} has another checksum: {module['Sum']}"
        PROGRAM.parent.mkdir(parents=True, exist_ok=True)
        part = PROGRAM.with_suffix(".new")
        done = subprocess.run(["nice", "-n", "10", "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", part, "./cmd/adapter"],
                              cwd=module["Dir"], env=environment, text=True, stderr=subprocess.PIPE, check=False)
    except OSError as error:
        return f"{MODULE} cannot be built: {error}"
    if done.returncode != 0:
        return f"{MODULE} {VERSION} cannot be built: {done.stderr.strip().splitlines()[-1:]}"
    part.rename(PROGRAM)
    return ""


def main(words):
    if words == ["install"]:
        cause = install()
        print(cause or PROGRAM)
        return 1 if cause else 0
    print(__doc__)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
