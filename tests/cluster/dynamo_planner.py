#!/usr/bin/env python3
"""Dynamo's own client of DynamoGraphDeployments (ai-dynamo 1.3.1, dynamo.planner), in a virtual environment of its own.

    dynamo_planner.py install                                       once, with a package index in reach; 30 s, 400 MB
    dynamo_planner.py scale NAMESPACE GRAPH COMPONENT REPLICAS      by the Python of that environment; KUBECONFIG names the cluster

The second form prints {"desired": N} with what the client reads afterwards, or {"error": NAME_OF_THE_EXCEPTION}."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

VERSION = "1.3.1"
FOLDER = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "penstock-dynamo-planner" / VERSION
PYTHON = FOLDER / "bin/python"


def install():
    """Returns why it is not there, or nothing."""
    if PYTHON.exists():
        return ""
    part = FOLDER.with_name(FOLDER.name + ".new")
    shutil.rmtree(part, ignore_errors=True)
    for words in ([sys.executable, "-m", "venv", part],
                  [part / "bin/python", "-m", "pip", "--disable-pip-version-check", "--retries", "0", "-q", "install",
                   f"ai-dynamo=={VERSION}", "pydantic", "pyyaml"]):
        done = subprocess.run(words, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0:
            shutil.rmtree(part, ignore_errors=True)
            return f"ai-dynamo {VERSION} cannot be installed: {done.stderr.strip().splitlines()[-1:]}"
    # Scripts of the environment have its first path; its Python finds its own.
    part.rename(FOLDER)
    return ""


def scale(namespace, graph, component, replicas):
    from dynamo.planner.connectors.kubernetes_api import KubernetesAPI  # pylint: disable=import-outside-toplevel
    from dynamo.planner.monitoring.dgd_services import Service, get_components_by_name  # pylint: disable=import-outside-toplevel
    client = KubernetesAPI(namespace)
    try:
        client.update_service_replicas(graph, component, int(replicas))
        found = get_components_by_name(client.get_graph_deployment(graph))[component]
    except Exception as error:  # pylint: disable=broad-except
        return {"error": type(error).__name__}
    return {"desired": Service(name=component, service=found).number_replicas()}


def main(words):
    if words == ["install"]:
        cause = install()
        print(cause or PYTHON)
        return 1 if cause else 0
    if len(words) == 5 and words[0] == "scale":
        print(json.dumps(scale(*words[1:])))
        return 0
    print(__doc__)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
