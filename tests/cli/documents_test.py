#!/usr/bin/env python3
"""What the documents tell users to type: the flags of commands and the keys of configurations exist."""

import re
import subprocess

import cli_testing
from cli_testing import PROGRAM, CliTest, Path

ROOT = Path(__file__).resolve().parents[2]
COMMAND = re.compile(r"(?:^|[\s|($;&])penstock ([a-z]+)\b([^|;&#]*)")
FLAG = re.compile(r"(?<![\w-])--[a-z][\w-]*")
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.M | re.S)
QUOTED = re.compile(r"`([^`\n]+)`")
# Begins a block of Kubernetes or Prometheus, or a part of one.
FOREIGN = re.compile(r"\A\s*- |^(apiVersion|spec|rules|scrape_configs|containers):", re.M)


def pages():
    documents = [path for path in (ROOT / "docs").rglob("*.md") if "decisions" not in path.parts]
    return [ROOT / "README.md", *sorted(documents), *sorted((ROOT / "src").rglob("README.md"))]


def commands(text):
    """The lines of code blocks, continued ones joined, and what is quoted in sentences."""
    blocks = [block for language, block in BLOCK.findall(text) if language in ("sh", "bash", "console", "")]
    for part in (*re.sub(r"\\\n\s*", " ", "\n".join(blocks)).splitlines(), *QUOTED.findall(BLOCK.sub("", text))):
        yield from COMMAND.findall(part)


class Documents(CliTest):
    def test_the_flags_of_commands_exist(self):
        helps, wrong, seen = {}, [], 0
        known = set(re.findall(r"^  ([a-z]+) +\S", self.run_program("--help").stdout, re.M))
        self.assertIn("replay", known)
        for page in pages():
            for command, words in commands(page.read_text()):
                if command not in known:
                    continue
                if command not in helps:
                    helps[command] = set(FLAG.findall(self.run_program(command, "--help").stdout)) | {"--help"}
                for flag in FLAG.findall(words):
                    seen += 1
                    if flag not in helps[command]:
                        wrong.append(f"{page.relative_to(ROOT)}: penstock {command} has no {flag}")
        self.assertEqual(wrong, [])
        self.assertGreater(seen, 100)

    def test_the_keys_of_configurations_exist(self):
        wrong, seen = [], 0
        for page in pages():
            text = page.read_text()
            for found in BLOCK.finditer(text):
                if found[1] not in ("yaml", "yml") or FOREIGN.search(found[2]):
                    continue
                seen += 1
                line = text[:found.start()].count("\n") + 1
                # What a file needs of its machine, such as a key file or a cluster, may be missing here.
                wrong += [f"{page.relative_to(ROOT)}:{line}: {problem}" for problem in self.problems_of(found[2])
                          if "unknown key" in problem or "must be" in problem]
        self.assertEqual(wrong, [])
        self.assertGreater(seen, 10)

    def problems_of(self, configuration):
        self.write("penstock.yaml", configuration)
        done = subprocess.run([PROGRAM, "check", "penstock.yaml"], cwd=self.folder, capture_output=True, text=True, timeout=60)
        return done.stderr.splitlines()


if __name__ == "__main__":
    cli_testing.main()
