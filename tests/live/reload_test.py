#!/usr/bin/env python3
"""Configuration files that are written in place: what is missing from them loosens no limit of a process that runs."""

import unittest

from live_testing import Engine, Gateway, complete, config_file, until
from planner_testing import Home, until_serving

FAST = ("--speed", "50")


def write(path, text):
    """In place, as the redirection of a shell does."""
    with open(path, "w") as file:
        file.write(text)


def lines(program, event):
    return [line for line in program.log().splitlines() if f" {event} " in line]


class ReloadTest(unittest.TestCase):
    def test_a_file_that_is_written_slowly_does_not_admit_requests_without_a_key(self):
        engine = Engine(self, *FAST)
        text = (f'gateway: {{replicas: [{{url: "{engine.url}"}}], watch: true}}\n'
                "slo: {ttft: 2s}\n"
                "tenants: [{name: shop, keys: [sk-shop]}]\n")
        path = config_file(self)
        write(path, text)
        gateway = Gateway(self, "--config", path).ready()
        # Each state stays until the gateway has read it: empty, comments only, the first lines, the whole file.
        head = text[:text.index("tenants:")]
        for number, (part, error) in enumerate((("", "the file is empty"), ("# The configuration\n", "the file is empty"),
                                                (head, "gateway.anonymous: is not given")), 1):
            write(path, part)
            until("the rejection", lambda: len(lines(gateway, "config_reload_failed")) == number)
            self.assertIn(error, lines(gateway, "config_reload_failed")[-1])
            self.assertEqual(complete(gateway.port)[0], 401)
            self.assertEqual(complete(gateway.port, Authorization="Bearer sk-shop")[0], 200)
        write(path, text)
        until("the reload", lambda: lines(gateway, "config_reloaded"))
        self.assertEqual(complete(gateway.port)[0], 401)
        self.assertEqual(lines(gateway, "config_changed"), [])
        write(path, head.replace("watch: true", "anonymous: true, watch: true"))
        until("access without a key", lambda: complete(gateway.port)[0] == 200)
        self.assertIn("key=gateway.anonymous from=false to=true", lines(gateway, "limit_loosened")[0])

    def test_a_file_that_is_written_slowly_does_not_raise_bounds(self):
        home = Home(self)
        with open(home.config) as file:
            before = file.read()
        before = before.replace("planner: {", "planner: {gpu_budget: 3, ")
        write(home.config, before)
        planner = home.planner(self, home.gateway(self))
        until_serving(home, 1)

        without_bounds = before.replace(", max_replicas: 3", "").replace("gpu_budget: 3, ", "")
        for text, errors in (("", ["the file is empty"]),
                             (without_bounds, ["pools[0].max_replicas: is not given, so that a reload would change it from 3 to 64",
                                               "planner.gpu_budget: is not given"])):
            seen = len(lines(planner, "config_reload_failed"))
            write(home.config, text)
            until("the rejection", lambda: len(lines(planner, "config_reload_failed")) == seen + len(errors))
            for error in errors:
                self.assertIn(error, "\n".join(lines(planner, "config_reload_failed")[seen:]))
        self.assertNotIn(" config_changed ", planner.log())
        write(home.config, before.replace("max_replicas: 3", "max_replicas: 5").replace("gpu_budget: 3", "gpu_budget: 0"))
        until("the reload", lambda: " config_reloaded " in planner.log())
        loosened = lines(planner, "limit_loosened")
        self.assertIn("key=pools[0].max_replicas from=3 to=5", loosened[0])
        self.assertIn("key=planner.gpu_budget from=3 to=none", loosened[1])


if __name__ == "__main__":
    unittest.main()
