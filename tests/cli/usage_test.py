#!/usr/bin/env python3
"""`penstock usage`: groups, times and formats of what ledgers charge, and what is refused."""

import csv
import io
import json
import re
import shutil
import sqlite3

import cli_testing
from cli_testing import CliTest, Path

SOURCE = Path(__file__).resolve().parents[2] / "src/connect/sqlite/ledger_store.cpp"
SCHEMA = re.search(r'kLedgerSchema = R"\((.*?)\)"', SOURCE.read_text(), re.S)[1]
HOUR_MS, DECEMBER_MS = 3_600_000, 1_796_083_200_000  # 2026-12-01T00:00:00Z.


class UsageTest(CliTest):
    def ledger(self, name, *rows):
        """Rows: hours after the first of December 2026, tenant, key, prompt, cached and output tokens, outcome, USD."""
        with sqlite3.connect(self.folder / name) as store:
            store.executescript("pragma application_id = 0x504E534C; pragma user_version = 1;" + SCHEMA)
            for number, (hours, tenant, key, prompt, cached, output, outcome, usd) in enumerate(rows):
                at = DECEMBER_MS + hours * HOUR_MS
                store.execute("insert into entries values(?, ?, ?, ?, 'm', 'interactive', 'r', ?, ?, 0, ?, ?, ?, 1, ?, null, null, ?)",
                              (number, f"{name}-{number}", tenant, key, at, at if outcome else None, prompt, cached, output, outcome, usd))
        store.close()
        return name

    def two(self):
        return (self.ledger("one.sqlite", (-1, "shop", "keys[0]", 100, 40, 10, "completed", 1.0), (0, "shop", "keys[1]", 200, 0, 20, "failed", 2.0),
                            (1, "a, \"b\"", "", 300, 0, 30, "completed", 4.0), (2, "shop", "", 0, 0, 0, "refused", 0.0),
                            (3, "shop", "keys[0]", 9, 0, 9, None, 9.0)),
                self.ledger("two.sqlite", (5, "shop", "keys[0]", 1000, 0, 0, "cancelled", 8.0)))

    def rows(self, *words):
        return list(csv.reader(io.StringIO(self.run_program("usage", *words, "--csv", "-").stdout)))[1:]

    def test_ledgers_are_added_and_the_dearest_comes_first(self):
        page = self.run_program("usage", *self.two()).stdout
        lines = [re.split(r"  +", line.strip()) for line in page.splitlines()]
        self.assertEqual(lines[0], ["tenant", "model", "requests", "prompt tokens", "cached", "output tokens", "USD"])
        self.assertEqual(lines[1], ["shop", "m", "3", "1,300", "40", "30", "11.00"])
        self.assertEqual(lines[3], ["all", "4", "1,600", "40", "60", "15.00"])
        self.assertEqual(page.splitlines()[-1], "1 request is still open and not counted.")

    def test_groups_and_times(self):
        ledgers = self.two()
        self.assertEqual([[row[0], row[1], row[-1]] for row in self.rows(*ledgers, "--by", "month,tenant")],
                         [["2026-11", "shop", "1"], ["2026-12", "shop", "10"], ["2026-12", 'a, "b"', "4"]])
        self.assertEqual([[row[0], row[-1]] for row in self.rows(*ledgers, "--by", "day", "--utc-offset", "-05:00")],
                         [["2026-11-30", "7"], ["2026-12-01", "8"]])
        self.assertEqual([row[-1] for row in self.rows(*ledgers, "--month", "2026-11")], ["1"])
        self.assertEqual([row[-1] for row in self.rows(*ledgers, "--month", "2026-12", "--utc-offset", "+01:00", "--tenant", "shop")], ["11"])
        self.assertEqual([row[-1] for row in self.rows(*ledgers, "--from", "2026-12-01T00:00:00Z", "--until", "2026-12-01T01:00:00Z")], ["2"])
        self.assertEqual([row[0] for row in self.rows(*ledgers, "--by", "key", "--tenant", "shop")], ["keys[0]", "keys[1]"])

    def test_json_has_the_rows_and_their_sum(self):
        self.run_program("usage", *self.two(), "--json", "usage.json", "--by", "tenant")
        made = self.read_json("usage.json")
        self.assertEqual([row["tenant"] for row in made["rows"]], ["shop", 'a, "b"'])
        for figure in ("requests", "prompt_tokens", "cached_tokens", "output_tokens", "usd"):
            self.assertEqual(sum(row[figure] for row in made["rows"]), made["all"][figure])
        self.assertEqual(made["open_requests"], 1)
        printed = json.loads(self.run_program("usage", "one.sqlite", "--month", "2020-01", "--json", "-").stdout)
        self.assertEqual((printed["rows"], printed["all"]["requests"]), ([], 0))

    def test_what_cannot_be_summed_is_named(self):
        one, _ = self.two()
        shutil.copy(self.folder / one, self.folder / "copy.sqlite")
        self.write("text.csv", "a,b\n")
        for words, says in (((one, "copy.sqlite"), "copy.sqlite: has the requests of 'one.sqlite'; give each ledger once"),
                            ((one, "--by", "tenant,week"), "--by: 'week' is no group; choose from month, day, tenant, key, model and class"),
                            ((one, "--by", "day,day"), "--by: day is given twice"),
                            ((one, "--month", "2026-13"), "--month: '2026-13' is no month"),
                            ((one, "--month", "november"), "--month: 'november' is no month"),
                            ((one, "--month", "last", "--from", "2026-12-01T00:00:00Z"), "--month: contradicts --from and --until"),
                            ((one, "--from", "yesterday"), "--from: "),
                            ((one, "--from", "2026-12-02T00:00:00Z", "--until", "2026-12-01T00:00:00Z"), "--until: must be after --from"),
                            (("text.csv",), "text.csv: is no SQLite database"), (("absent.sqlite",), "absent.sqlite: ")):
            self.assert_refused("usage", *words, says=says)


if __name__ == "__main__":
    cli_testing.main()
