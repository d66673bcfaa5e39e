"""Clients that others wrote, installed once into a folder that the build keeps: afterwards no network is needed."""

import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
FOLDER = os.environ.get("PENSTOCK_CLIENTS", os.path.join(HERE, "..", "..", "build", "clients"))
INSTALL_SECONDS = 900

# Another version is another folder, so that nothing stale is used.
OPENAI_PYTHON = "openai==3.54.0"
ANTHROPIC_PYTHON = "anthropic==2.14.0"
OPENAI_NODE = "openai@6.49.0"
GUIDELLM = "guidellm==0.3.1"


def installed(name, install):
    """The folder `name`, which install(folder) fills if no earlier run has. A run that was cut off leaves none."""
    folder = os.path.abspath(os.path.join(FOLDER, name))
    os.makedirs(FOLDER, exist_ok=True)
    with open(folder + ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = os.path.join(folder, ".installed")
        if not os.path.exists(done):
            shutil.rmtree(folder, ignore_errors=True)
            os.makedirs(folder)
            install(folder)
            with open(done, "w"):
                pass
    return folder


def run(*words, folder=None):
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)} failed, and no earlier run has installed it:\n{done.stdout}{done.stderr}")


def python_with(requirement):
    """A Python that can import it."""
    def install(folder):
        run(sys.executable, "-m", "venv", folder)
        run(os.path.join(folder, "bin", "python"), "-m", "pip", "install", "-q", "--disable-pip-version-check", requirement)

    return os.path.join(installed(requirement.replace("==", "-"), install), "bin", "python")


def node_modules_with(package):
    """A folder whose scripts can import it."""
    def install(folder):
        run("npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", folder, package, folder=folder)

    return installed("node-" + package.replace("@", "-"), install)


def prometheus_folder():
    """Where Debian's prometheus and promtool are: taken out of their package, since installing it would start a service."""
    def install(folder):
        download = ("apt-get", "download", "prometheus")
        if subprocess.run(download, cwd=folder, capture_output=True, check=False).returncode != 0:
            run(*(() if os.geteuid() == 0 else ("sudo", "-n")), "apt-get", "update", "-q")
            run(*download, folder=folder)
        (package,) = [name for name in os.listdir(folder) if name.endswith(".deb")]
        run("dpkg-deb", "-x", package, ".", folder=folder)
        os.remove(os.path.join(folder, package))

    return os.path.join(installed("prometheus", install), "usr", "bin")


def go_on_with(requirement):
    """Starts this program again under the Python that has it."""
    python = python_with(requirement)
    if os.path.realpath(sys.prefix) != os.path.realpath(os.path.dirname(os.path.dirname(python))):
        os.execv(python, [python, "-B", *sys.argv])


def guidellm(url, requests):
    """How many requests of a short run ended how."""
    python = python_with(GUIDELLM)
    with tempfile.TemporaryDirectory() as folder:
        prompts = os.path.join(folder, "prompts.jsonl")
        with open(prompts, "w") as file:
            for i in range(requests):
                file.write(json.dumps({"prompt": f"prompt {i} " + "word " * 50, "output_tokens_count": 16}) + "\n")
        report = os.path.join(folder, "report.json")
        environment = {**os.environ, "HF_HUB_OFFLINE": "1", "GUIDELLM__LOGGING__DISABLED": "true"}
        done = subprocess.run(
            [os.path.join(os.path.dirname(python), "guidellm"), "benchmark", "--target", url, "--model", "penstock-sim",
             "--rate-type", "concurrent", "--rate", "4", "--max-requests", str(requests), "--data", prompts,
             "--output-path", report, "--disable-progress"],
            capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False, cwd=folder, env=environment)
        if done.returncode != 0:
            raise AssertionError(f"guidellm failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        with open(report) as file:
            totals = json.load(file)["benchmarks"][0]["request_totals"]
        return {name: totals[name] for name in ("successful", "errored", "incomplete")}
