#!/usr/bin/env python3
"""What the documents tell users to type: the flags of commands, the keys of configurations and the queries work."""

import os
import re
import shlex
import sqlite3
import subprocess
import time

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
    top = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")]
    return [*top, *sorted(documents), *sorted((ROOT / "src").rglob("README.md"))]


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

    def test_the_commands_of_examples_accept_them(self):
        """Those that only read the file; variables with secrets have values of their own."""
        seen = 0
        for example in sorted((ROOT / "docs/examples").glob("*.yaml")):
            comment = re.sub(r"\\\n#\s*", " ", re.match(r"(#.*\n)*", example.read_text())[0])
            for command in re.findall(r"^#.*?\bpenstock ((?:check|manifests)\b[^|#\n]*docs/examples/[^|#\n]*)", comment, re.M):
                seen += 1
                variables = {name: name for name in re.findall(r"\b[A-Z]+_(?:KEY|TOKEN)\b", example.read_text())}
                done = subprocess.run([PROGRAM, *shlex.split(command)], cwd=ROOT, env=os.environ | variables, capture_output=True,
                                      text=True, timeout=60)
                self.assertEqual((done.returncode, done.stderr), (0, ""), f"{example.name}: penstock {command}")
        self.assertGreater(seen, 10)

    def test_the_queries_of_the_gpu_bill_read_ledgers(self):
        """Two ledgers with the schema of the code, whose rows are of three months, by the command of the page and by its query."""
        page = (ROOT / "docs/explain-the-gpu-bill.md").read_text()
        (all_months,) = [block for language, block in BLOCK.findall(page) if language == "sql"]
        schema = re.search(r'kLedgerSchema = R"\((.*?)\)"', (ROOT / "src/connect/sqlite/ledger_store.cpp").read_text(), re.S)[1]
        today = time.gmtime()
        month = today.tm_year * 12 + today.tm_mon - 1
        def at(months_ago, day=1):
            year, number = divmod(month - months_ago, 12)
            return f"{year}-{number + 1:02}", f"strftime('%s', '{year}-{number + 1:02}-{day:02} 00:00:00') * 1000"
        rows = [  # Months ago, day, outcome, tenant, key, prompt tokens, output tokens, USD. Ids repeat in the other ledger.
            ((1, 1, "completed", "shop", "keys[0]", 1000, 10, 1.5), (1, 28, "completed", "shop", "SHOP_KEY", 2000, 20, 2.0),
             (1, 28, "refused", "shop", "", 0, 0, 0.0), (0, 1, "completed", "shop", "keys[0]", 7, 7, 7.0)),
            ((1, 2, "cancelled", "lab", "lab.key", 500, 5, 9.0), (2, 28, "completed", "lab", "lab.key", 3, 3, 3.0))]
        paths = []
        for number, ledger in enumerate(rows):
            paths.append(self.folder / f"{number}.sqlite")
            with sqlite3.connect(paths[-1]) as store:
                store.executescript("pragma application_id = 0x504E534C; pragma user_version = 1;" + schema)
                for row, (months_ago, day, outcome, tenant, key, prompt, output, usd) in enumerate(ledger):
                    opened = at(months_ago, day)[1]
                    store.execute(f"insert into entries values({row}, '', ?, ?, 'm', 'interactive', 'r', {opened}, {opened}, 0, ?, 0, ?, 1, ?, null, null, ?)",
                                  (tenant, key, prompt, output, outcome, usd))
                store.execute(f"insert into entries values(99, '', 'shop', '', 'm', 'interactive', 'r', {at(1)[1]}, null, 0, 1, 0, 1, 1, null, null, null, 1)")
            store.close()
        def of_last_month(*ledgers):
            done = self.run_program("usage", *ledgers, "--month", "last", "--csv", "-")
            return [line.split(",") for line in done.stdout.splitlines()[1:]]
        self.assertEqual(of_last_month(*paths), [["lab", "m", "1", "500", "0", "5", "9"], ["shop", "m", "2", "3000", "0", "30", "3.5"]])
        self.assertEqual(of_last_month(paths[1]), [["lab", "m", "1", "500", "0", "5", "9"]], "of one ledger; open requests are left out")
        with sqlite3.connect(paths[0]) as store:
            self.assertEqual(store.execute(all_months).fetchall(), [
                (at(1)[0], "shop", "SHOP_KEY", "m", 2000, 20, 2.0), (at(1)[0], "shop", "keys[0]", "m", 1000, 10, 1.5),
                (at(0)[0], "shop", "keys[0]", "m", 7, 7, 7.0)])
        store.close()

    def problems_of(self, configuration):
        self.write("penstock.yaml", configuration)
        done = subprocess.run([PROGRAM, "check", "penstock.yaml"], cwd=self.folder, capture_output=True, text=True, timeout=60)
        return done.stderr.splitlines()


if __name__ == "__main__":
    cli_testing.main()
