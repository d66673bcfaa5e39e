#!/usr/bin/env python3
"""Configuration files that are written in place: what is missing from them loosens no limit of a process that runs."""

import unittest

from live_testing import Engine, Gateway, complete, config_file, until

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


if __name__ == "__main__":
    unittest.main()
