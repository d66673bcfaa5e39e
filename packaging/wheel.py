#!/usr/bin/env python3
"""Makes a wheel with the program of a build folder and the libraries that it needs: packaging/wheel.py BUILD_DIR OUT_DIR

The wheel runs where glibc is at least that of this machine. `penstock` in a virtual environment replaces itself by the program."""

import base64
import hashlib
import os
import platform
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Parts of glibc, which every machine has and which must not be mixed.
OF_GLIBC = re.compile(r"(?:ld-linux.*|lib(?:c|m|pthread|dl|rt|resolv|util|anl|nss_\w+))\.so\.\d+")
STARTER = '''"""Runs the program that this package contains, in place of Python."""

import os
import sys
from pathlib import Path


def main():
    folder = Path(__file__).resolve().parent / "bin"
    libraries = [str(folder / "lib"), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
    os.execve(folder / "penstock", ["penstock", *sys.argv[1:]], {**os.environ, "LD_LIBRARY_PATH": ":".join(libraries)})


if __name__ == "__main__":
    main()
'''


def libraries_of(program):
    found = {}
    for line in subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout.splitlines():
        match = re.search(r"(\S+) => (/\S+) ", line)
        if match and not OF_GLIBC.fullmatch(match[1]):
            found[match[1]] = Path(match[2]).resolve()
    return found


def stripped(path, folder):
    copy = Path(folder) / "stripped"
    subprocess.run(["strip", "-o", copy, path], check=True)
    return copy.read_bytes()


class Wheel:
    """A zip file whose record names every file with its hash. Times are fixed, so that the same files give the same bytes."""

    def __init__(self, path, info):
        self.zip, self.info, self.record = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9), info, []

    def add(self, name, content, mode=0o644):
        data = content.encode() if isinstance(content, str) else content
        entry = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))
        entry.external_attr = (0o100000 | mode) << 16
        entry.compress_type = zipfile.ZIP_DEFLATED
        self.zip.writestr(entry, data)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        self.record.append(f"{name},sha256={digest},{len(data)}")

    def close(self):
        name = f"{self.info}/RECORD"
        self.zip.writestr(zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0)), "\n".join([*self.record, f"{name},,", ""]))
        self.zip.close()


def main(build, out):
    version = re.search(r"(?m)^project\(penstock VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())[1]
    glibc = os.confstr("CS_GNU_LIBC_VERSION").split()[1].replace(".", "_")
    tag = f"py3-none-manylinux_{glibc}_{platform.machine()}"
    info = f"penstock-{version}.dist-info"
    os.makedirs(out, exist_ok=True)
    path = Path(out) / f"penstock-{version}-{tag}.whl"
    program = Path(build) / "penstock"
    wheel = Wheel(path, info)
    with tempfile.TemporaryDirectory() as folder:
        wheel.add("penstock/__init__.py", "")
        wheel.add("penstock/__main__.py", STARTER)
        wheel.add("penstock/bin/penstock", stripped(program, folder), 0o755)
        for name, library in sorted(libraries_of(program).items()):
            wheel.add(f"penstock/bin/lib/{name}", stripped(library, folder), 0o755)
    wheel.add(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: penstock\nVersion: {version}\nSummary: Control plane for LLM inference\n"
              "License: Apache-2.0\nRequires-Python: >=3.8\n")
    wheel.add(f"{info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: penstock\nRoot-Is-Purelib: false\nTag: {tag}\n")
    wheel.add(f"{info}/entry_points.txt", "[console_scripts]\npenstock = penstock.__main__:main\n")
    wheel.add(f"{info}/LICENSE", (ROOT / "LICENSE").read_text())
    wheel.close()
    print(path)


if __name__ == "__main__":
    main(*sys.argv[1:3])
