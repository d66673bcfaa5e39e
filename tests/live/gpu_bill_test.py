#!/usr/bin/env python3
"""The GPU cost and the token cost by tenant: over restarts of the planner, and in the ledger by API key."""

import json
import os
import re
import signal
import unittest

from live_testing import STOP, ask, until
from planner_testing import Home, rows_of, until_routed, until_serving

TENANTS = """
tenants:
  - {name: shop, keys: [sk-shop], key_files: [{file}]}
  - {name: lab, keys: [sk-lab]}
models: [{name: penstock-sim, input_price: 1000, output_price: 2000}]
"""
PAGE = os.path.join(os.path.dirname(__file__), "..", "..", "docs", "explain-the-gpu-bill.md")


class GpuBillTest(unittest.TestCase):
    def complete(self, key, words):
        body = {"model": "penstock-sim", "messages": [{"role": "user", "content": "word " * words}], "max_tokens": 8, "stream": True}
        status, _, text = ask(self.gateway.port, "POST", "/v1/chat/completions", body, Authorization=f"Bearer {key}")
        self.assertEqual(status, 200, text)

    def start(self):
        self.planner = self.home.planner(self, self.gateway)
        until_serving(self.home, 1)

    def costs(self):
        """USD by tenant, and of the pool."""
        state = self.planner.state()
        return {row["tenant"]: row["gpu_cost"] or 0.0 for row in state["gpu_cost"]["tenants"]}, state["pools"][0]["cost"], state

    def of_process(self):
        """USD that this process has counted, by tenant."""
        return {tenant: float(usd) for tenant, usd in re.findall(
            r'(?m)^penstock_tenant_gpu_cost_usd_total\{tenant="(\w+)",model="penstock-sim"\} (\S+)$', self.planner.metrics())}

    def test_the_costs_of_tenants_survive_restarts_of_the_planner(self):
        self.home = Home(self)
        key_file = self.home.path("shop.key")
        with open(key_file, "w") as file:
            file.write("sk-shop-2\n")
        with open(self.home.config, "a") as file:
            file.write(TENANTS.replace("{file}", key_file))
        ledger = self.home.path("usage.sqlite")
        self.gateway = self.home.gateway(self, "--ledger", ledger)
        self.start()
        until_routed(self.gateway, 1)
        for _ in range(3):
            self.complete("sk-shop", 400)
            self.complete("sk-shop-2", 400)
            self.complete("sk-lab", 100)
        until("the costs of both tenants", lambda: set(self.of_process()) == {"shop", "lab"} and min(self.of_process().values()) > 0.0)
        shares = self.of_process()
        self.assertGreater(shares["shop"], shares["lab"])

        def saved():
            with open(self.home.path("policy.json")) as file:
                tenants = json.load(file)["gpu_costs"]["tenants"]
            return {row["tenant"]: row["input_usd"] + row["output_usd"] for row in tenants}

        # A crash loses what was counted after the last save, which comes every 30 s.
        until("the costs are saved", lambda: os.path.exists(self.home.path("policy.json")) and set(saved()) == {"shop", "lab"}, 60)
        before = saved()
        self.planner.signal(signal.SIGKILL)
        self.planner.process.wait()
        self.start()
        until("a tick", lambda: "penstock_gpu_cost_usd_total{" in self.planner.metrics())
        by_tenant, pool, state = self.costs()
        for tenant in before:
            self.assertGreaterEqual(by_tenant[tenant], before[tenant])
        self.assertAlmostEqual(state["gpu_cost"]["all"]["gpu_cost"], pool, places=6)
        tokens = {row["tenant"]: row["output_tokens"] for row in state["gpu_cost"]["tenants"]}
        self.assertEqual(tokens, {"shop": 48, "lab": 24}, "the gateway reports requests again, which are counted once")
        self.assertLess(sum(self.of_process().values()), sum(before.values()), "counters of Prometheus begin again with a process")

        before, pool_before, _ = self.costs()
        self.planner.signal(STOP)
        self.assertEqual(self.planner.wait(), 0)
        self.start()
        until("a tick", lambda: "penstock_gpu_cost_usd_total{" in self.planner.metrics())
        by_tenant, pool, state = self.costs()
        for tenant in before:
            self.assertGreaterEqual(by_tenant[tenant], before[tenant])
        self.assertGreaterEqual(pool, pool_before)
        self.assertGreater(state["gpu_cost"]["for_s"], 30.0)

        self.gateway.signal(STOP)
        self.assertEqual(self.gateway.wait(), 0)
        self.assertEqual(rows_of(ledger, "select tenant, key_name, count(*) from entries group by 1, 2 order by 1, 2"),
                         [("lab", "keys[0]", 3), ("shop", key_file, 3), ("shop", "keys[0]", 3)])
        with open(PAGE) as file:
            all_months = re.findall(r"(?ms)^```sql\n(.*?)^```", file.read())[0]
        rows = rows_of(ledger, all_months)
        self.assertEqual([row[1:4] for row in rows], [("shop", key_file, "penstock-sim"), ("shop", "keys[0]", "penstock-sim"), ("lab", "keys[0]", "penstock-sim")])
        self.assertGreater(min(row[-1] for row in rows), 0.0)

    def test_a_new_price_counts_from_the_reload_on(self):
        home = Home(self)
        planner = home.planner(self, home.gateway(self))
        until_serving(home, 1)
        until("a cost", lambda: planner.pool()["cost"] > 0.0)
        before = planner.pool()
        self.assertAlmostEqual(before["cost"], 2.5 * before["gpu_hours"], places=9)
        with open(home.config) as file:
            text = file.read()
        with open(home.config, "w") as file:
            file.write(text.replace("price: 2.5", "price: 1000"))
        planner.signal(signal.SIGHUP)
        until("the reload", lambda: " config_reloaded " in planner.log())
        self.assertNotIn(" restart_needed ", planner.log())
        self.assertIn("key=pools[0].price from=2.5 to=1000", planner.log())
        after = planner.pool()
        self.assertEqual(after["price_per_gpu_hour"], 1000)
        until("another tick", lambda: planner.pool()["gpu_hours"] > after["gpu_hours"])
        now = planner.pool()
        self.assertAlmostEqual(now["cost"] - after["cost"], 1000 * (now["gpu_hours"] - after["gpu_hours"]), places=9)
        # The time before the reload keeps its price.
        self.assertLessEqual(now["cost"], before["cost"] + 1000 * (now["gpu_hours"] - before["gpu_hours"]) + 1e-9)


if __name__ == "__main__":
    unittest.main(verbosity=2)
