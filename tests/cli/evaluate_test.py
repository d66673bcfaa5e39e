#!/usr/bin/env python3
"""`make evaluate` from end to end, on a trace of twenty minutes under the name of a recorded one."""

import re

import cli_testing
from cli_testing import CliTest, mooncake

ONLY = ["--only", "mooncake"]


class Evaluate(CliTest):
    def setUp(self):
        super().setUp()
        self.write("mooncake_conversation.jsonl.xz", mooncake(requests=200, gap_ms=6000))  # its first bytes tell that it is not packed

    def evaluate(self, *words):
        self.run_program("--traces", ".", *ONLY, *words)

    def test_writes_the_page_and_the_chart_it_links(self):
        self.evaluate("--out", "docs/evaluation.md", "--charts", "docs/images")
        page = (self.folder / "docs/evaluation.md").read_text()
        self.assertRegex(page, r"It reached \d+ of \d+ targets")
        for row in ("Mooncake conversation", "attainment delivered", "`dynamo-latency`", r"\*\*penstock\*\*", "fixed fleet",
                    "oracle", "`clairvoyant`, goal 99 %"):
            self.assertRegex(page, rf"(?m)^\| {row}")
        link = re.search(r"\]\((images/[^)]+)\)", page).group(1)
        self.assertTrue((self.folder / "docs" / link).read_text().startswith("<svg "))

    def test_same_page_however_many_jobs(self):
        for name, jobs in (("one", 1), ("two", 2)):
            self.evaluate("--jobs", jobs, "--out", f"{name}.md", "--charts", name)
        one, two = ((self.folder / f"{name}.md").read_text().replace(f"({name}/", "(") for name in ("one", "two"))
        one, two = (re.sub(r"It took \d+ s of CPU time", "It took so long", page) for page in (one, two))
        self.assertEqual(one, two)
        chart = "evaluation-mooncake.svg"
        self.assertEqual((self.folder / "one" / chart).read_text(), (self.folder / "two" / chart).read_text())

    def test_missing_inputs_are_reported_before_the_first_run(self):
        self.assert_refused(says="--traces: is required")
        self.assert_refused("--traces", ".", "--only", "moonbake", says="unknown part 'moonbake'")
        self.write("mooncake_conversation.jsonl.xz", mooncake())
        self.assert_refused("--traces", ".", *ONLY, says="--score-from: no request arrives after 7 min")
        self.assert_refused("--traces", "nowhere", *ONLY, says="nowhere/mooncake_conversation.jsonl.xz")


if __name__ == "__main__":
    cli_testing.main()
