#!/usr/bin/env python3
"""Each way to install Penstock, carried out in a folder of its own; the program that results shows its version.

PENSTOCK_BUILD names the build folder. Parts whose tools are missing are named and skipped."""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("PENSTOCK_BUILD", ROOT / "build/release")).resolve()
VERSION = re.search(r"(?m)^project\(penstock VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())[1]
IS_RELEASE = "CMAKE_BUILD_TYPE:STRING=Release" in (BUILD / "CMakeCache.txt").read_text()
IMAGE_BYTES_MAX = 20_000_000


def run(*words, environment=None):
    done = subprocess.run([str(word) for word in words], cwd=ROOT, env={**os.environ, **(environment or {})}, capture_output=True,
                          text=True, timeout=240, check=False)
    assert done.returncode == 0, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def can_change_root(probe=("unshare", "--user", "--map-root-user", "chroot", "/", "true")):
    return subprocess.run(probe, capture_output=True, check=False).returncode == 0


class Packaging(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="penstock-packaging-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def assert_runs(self, *words, environment=None):
        self.assertRegex(run(*words, "--version", environment=environment),
                         rf"\Apenstock {re.escape(VERSION)}( \([0-9a-f]{{10}}\))?\n\Z")

    def assert_installed(self, top, units):
        """Program, units and completions below a prefix, whose paths the units name."""
        self.assert_runs(top / "bin/penstock")
        for name in ("gateway", "planner"):
            unit = (units / f"penstock-{name}.service").read_text()
            self.assertNotIn("@", re.sub("@system-service", "", unit))
            self.assertRegex(unit, r"(?m)^ExecStart=/\S+/bin/penstock (gateway|plan) --config /etc/penstock/penstock\.yaml ")
            self.assertIn("ExecReload=/bin/kill -HUP $MAINPID", unit)
        self.assertIn("complete -F _penstock penstock", (top / "share/bash-completion/completions/penstock").read_text())
        for name in ("penstock-rules.yaml", "penstock-dashboard.json"):
            self.assertEqual((top / "share/penstock/monitoring" / name).read_text(), (ROOT / "packaging/monitoring" / name).read_text())
        self.assertIn("#compdef penstock", (top / "share/zsh/vendor-completions/_penstock").read_text())

    def test_install_has_a_prefix_and_a_destination(self):
        run("cmake", "--install", BUILD, "--prefix", "/opt/penstock", "--strip", "--component", "penstock",
            environment={"DESTDIR": str(self.folder)})
        self.assertEqual([path.name for path in self.folder.iterdir()], ["opt"])
        top = self.folder / "opt/penstock"
        self.assert_installed(top, top / "lib/systemd/system")
        self.assertIn("ExecStart=/opt/penstock/bin/penstock ", (top / "lib/systemd/system/penstock-gateway.service").read_text())

    def test_systemd_accepts_the_units(self):
        if not shutil.which("systemd-analyze"):
            self.skipTest("NOT CHECKED: the units, because systemd-analyze is missing")
        run("cmake", "--install", BUILD, "--prefix", self.folder, "--strip", "--component", "penstock")
        for name in ("gateway", "planner"):
            done = subprocess.run(["systemd-analyze", "verify", "--man=no", self.folder / f"lib/systemd/system/penstock-{name}.service"],
                                  capture_output=True, text=True, check=False)
            self.assertNotIn(f"penstock-{name}.service:", done.stderr)

    def test_bash_completes_commands_and_flags(self):
        run("cmake", "--install", BUILD, "--prefix", self.folder, "--strip", "--component", "penstock")
        script = self.folder / "share/bash-completion/completions/penstock"

        def completed(*words):
            line = f'source {script}; COMP_WORDS=({" ".join(words)}); COMP_CWORD={len(words) - 1}; _penstock {self.folder}/bin/penstock; echo "${{COMPREPLY[@]}}"'
            environment = {"PATH": f"{self.folder}/bin:{os.environ['PATH']}"}
            return run("bash", "-c", line, environment=environment).split()

        first = f"{self.folder}/bin/penstock"
        self.assertEqual(completed(first, "gate"), ["gateway"])
        self.assertIn("manifests", completed(first, "''"))
        self.assertEqual(completed(first, "manifests", "--auto"), ["--autoscaler"])
        self.assertEqual(completed(first, "load", "--timeo"), ["--timeout"])
        self.assertEqual(completed(first, "replay", "--timeo"), [])

    def test_the_debian_package(self):
        file = Path(run("packaging/deb.sh", BUILD, self.folder).split()[-1])
        again = Path(run("packaging/deb.sh", BUILD, self.folder / "again").split()[-1])
        self.assertEqual(file.read_bytes(), again.read_bytes())
        fields = run("dpkg-deb", "--field", file)
        self.assertIn(f"Version: {VERSION}\n", fields)
        self.assertRegex(fields, r"Depends: .*libc6 \(>= 2\.\d+\).*libssl3")
        # dpkg installs it into an empty root with a database of its own. There are no scripts, which would need a shell there.
        root = self.folder / "root"
        (root / "var/lib/dpkg").mkdir(parents=True)
        (root / "var/lib/dpkg/status").touch()
        (root / "var/lib/dpkg/updates").mkdir()
        (root / "var/lib/dpkg/info").mkdir()
        (root / "usr").mkdir()
        dpkg = ["dpkg", f"--root={root}", "--force-depends", "--force-script-chrootless", "--log=/dev/null"]
        if os.geteuid() != 0:
            dpkg = ["unshare", "--user", "--map-root-user", *dpkg]
        run(*dpkg, "--install", file)
        self.assertIn("ok installed", (root / "var/lib/dpkg/status").read_text())
        self.assert_installed(root / "usr", root / "lib/systemd/system")
        run(*dpkg, "--purge", "penstock")
        self.assertFalse((root / "usr/bin/penstock").exists())

    def test_lintian_finds_no_error(self):
        if not shutil.which("lintian"):
            self.skipTest("NOT CHECKED: the package's style, because lintian is missing")
        file = run("packaging/deb.sh", BUILD, self.folder).split()[-1]
        done = subprocess.run(["lintian", "--fail-on", "error", "--no-cfg", *(["--allow-root"] if os.geteuid() == 0 else []), file],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_the_image_runs_as_a_user_without_privileges(self):
        if not shutil.which("umoci"):
            self.skipTest("NOT CHECKED: the image, because umoci is missing")
        file = Path(run("packaging/image.sh", BUILD, self.folder).split()[-1])
        if IS_RELEASE:
            self.assertLessEqual(file.stat().st_size, IMAGE_BYTES_MAX)
        print(f"{file.name}: {file.stat().st_size / 1e6:.1f} MB", file=sys.stderr)
        layout = self.folder / "oci"
        with tarfile.open(file) as archive:
            archive.extractall(layout)
        manifest = json.loads(self.blob(layout, json.loads((layout / "index.json").read_text())["manifests"][0]))
        config = json.loads(self.blob(layout, manifest["config"]))["config"]
        self.assertEqual(config["User"], "65532:65532")
        self.assertEqual(config["Entrypoint"], ["/usr/bin/penstock"])
        run("umoci", "unpack", "--rootless", "--image", f"{layout}:{VERSION}", self.folder / "bundle")
        root = self.folder / "bundle/rootfs"
        for folder in ("tmp", "var/lib/penstock"):
            self.assertEqual((root / folder).stat().st_mode & 0o7777, 0o1777, f"{folder} is for the user of the image")
        for path in root.rglob("*"):
            if path.is_file() and not path.is_symlink():
                self.assertEqual(path.stat().st_mode & 0o6022, 0, path)
        if not can_change_root():
            self.skipTest("NOT CHECKED: that the image runs, because user namespaces are not allowed")
        self.assert_runs("unshare", "--user", "--map-root-user", "chroot", root, "/usr/bin/penstock")

    def test_the_dockerfile_installs_what_it_runs_and_uses_no_build_of_the_host(self):
        steps = (ROOT / "packaging/Dockerfile").read_text()
        installed = re.search(r"apt-get install [^\n]*", steps)[0].split()
        build = re.search(r"(?m)^RUN (.*make build.*)$", steps)[1]
        self.assertIn("make", installed, "tools/setup-debian.sh installs all else")
        self.assertTrue(build.startswith("rm -rf build web/node_modules && "), "a CMake cache names the folder of its checkout")

    @staticmethod
    def blob(layout, descriptor):
        return (layout / "blobs" / descriptor["digest"].replace(":", "/")).read_text()

    def test_the_wheel(self):
        file = Path(run(sys.executable, "packaging/wheel.py", BUILD, self.folder).split()[-1])
        print(f"{file.name}: {file.stat().st_size / 1e6:.1f} MB", file=sys.stderr)
        self.assertRegex(file.name, rf"\Apenstock-{re.escape(VERSION)}-py3-none-manylinux_\d+_\d+_\w+\.whl\Z")
        environment = self.folder / "venv"
        run(sys.executable, "-m", "venv", environment)
        run(environment / "bin/python", "-m", "pip", "install", "--no-index", "--no-deps", "--quiet", file)
        self.assert_runs(environment / "bin/penstock")
        self.assert_runs(environment / "bin/python", "-m", "penstock")


if __name__ == "__main__":
    unittest.main()
