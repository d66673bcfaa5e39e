#!/usr/bin/env python3
"""`penstock gateway` and what engines know of its clients: credentials, models, controls, caches of tenants."""

import json
import os
import tempfile
import unittest

from live_testing import Engine, Gateway, ask, chat

FAST = ("--speed", "50")


def cached_tokens(body):
    details = json.loads(body)["usage"].get("prompt_tokens_details") or {}
    return details.get("cached_tokens") or 0


class EnginesTest(unittest.TestCase):
    def write(self, text, name="p.yaml"):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = os.path.join(folder.name, name)
        with open(path, "w") as file:
            file.write(text)
        return path

    def test_isolated_tenants_find_nothing_of_others_in_the_cache(self):
        engine = Engine(self, *FAST)
        config = self.write("gateway: {isolation: tenant}\n"
                            "tenants: [{name: alice, keys: [sk-alice]}, {name: bob, keys: [sk-bob]}]\n")
        gateway = Gateway(self, "--config", config, engine.url, expose="operators").ready()

        def probe(key, **more):
            status, fields, body = ask(gateway.port, "POST", "/v1/chat/completions", chat(2, "secret " * 1000, **more),
                                       Authorization=f"Bearer {key}")
            self.assertEqual(status, 200, body)
            self.assertFalse([name for name in fields if name.lower().startswith("x-penstock")])
            return cached_tokens(body)

        self.assertEqual(probe("sk-alice"), 0)
        self.assertGreater(probe("sk-alice"), 1000)
        self.assertEqual(probe("sk-bob"), 0)
        self.assertEqual(probe("sk-bob", cache_salt="other"), probe("sk-alice"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
