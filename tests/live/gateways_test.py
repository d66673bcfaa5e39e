#!/usr/bin/env python3
"""A planner of several gateways: each request counts once, and without one of them nothing is decided and no replica is stopped."""

import unittest

from live_testing import KILL, STOP, Engine, Gateway, until
from many_streams import ManyStreams
from planner_testing import Home, Planner, until_routed, until_serving

TWO = "  - {name: chat, replicas: 2, min_replicas: 1, max_replicas: 2}"
ONE = "  - {name: chat, replicas: 1, min_replicas: 1, max_replicas: 1}"
SLOW = ", max_sequences: 64, model: 'linear:50,0,0.001,0'"
STATIC = ("--policy", "static")


def admin_addresses(*gateways):
    return ",".join(f"127.0.0.1:{gateway.admin}" for gateway in gateways)


class GatewaysTest(unittest.TestCase):
    def test_the_requests_of_all_gateways_count_once(self):
        engine = Engine(self, "--speed", "50")
        one, other = Gateway(self, engine.url).ready(), Gateway(self, engine.url).ready()
        home = Home(self, ONE)
        planner = Planner(self, "--config", home.config, "--gateway", admin_addresses(one, other))
        until("data", lambda: planner.state()["data"]["state"] == "known")
        self.assertEqual([each["up"] for each in planner.state()["gateways"]], [True, True])
        for gateway, count in ((one, 5), (other, 7)):
            self.assertEqual(ManyStreams(self, gateway.port, count, 10).join(), [])
        until("the ends of all", lambda: planner.state()["slo"]["judged"] == 12)
        state = planner.state()
        self.assertEqual(state["gateway"]["granted_total"], 12)
        self.assertEqual([replica["requests_total"] for replica in state["gateway"]["replicas"]], [12])

        # One that ends in order is not missed for long, and one at its address is read from its start.
        admin, port = other.admin, other.port
        other.signal(STOP)
        other.wait()
        again = Gateway(self, engine.url, "--listen", f"127.0.0.1:{port}", "--admin-listen", f"127.0.0.1:{admin}").ready()
        self.assertEqual(ManyStreams(self, again.port, 3, 10).join(), [])
        until("the ends of the next", lambda: planner.state()["slo"]["judged"] == 15)
        self.assertEqual(planner.state()["data"]["state"], "known")
        self.assertNotIn("several_gateways", planner.log())

    def test_without_one_of_the_gateways_no_replica_is_stopped(self):
        home = Home(self, TWO, engine=SLOW)
        gateways = [home.gateway(self), home.gateway(self)]
        flags = ("--config", home.config, "--engines", "local", "--state-dir", home.folder, "--ports", home.ports,
                 "--gateway-token-file", home.path("admin-token"), "--gateway", admin_addresses(*gateways), *STATIC)
        planner = Planner(self, *flags)
        until_serving(home, 2)
        for gateway in gateways:
            until_routed(gateway, 2)
        streams = [ManyStreams(self, gateway.port, 10, 100) for gateway in gateways]
        until("tokens on all streams", lambda: all(each.begun() == 10 for each in streams))
        until("the open requests of both", lambda: sum(
            each["open_requests"] for each in planner.state()["gateway"]["replicas"]) == 20)

        # Now one replica is too many, and the next planner drains it; both gateways have streams there.
        home.write_config(ONE, SLOW)
        planner.signal(KILL)
        planner.wait()
        planner = Planner(self, *flags)
        until("one that drains", lambda: home.stages() == {"serving": 1, "draining": 1})
        for each in streams:
            self.assertEqual(each.join(), [], "the drain waits for the streams of both gateways")
        until("one replica", lambda: home.stages() == {"serving": 1})

        killed = gateways[1]
        admin, port = killed.admin, killed.port
        killed.signal(KILL)
        killed.wait()
        until("an unknown state", lambda: planner.state()["data"]["state"] == "no_gateway")
        state = planner.state()
        self.assertEqual({each["address"]: each["up"] for each in state["gateways"]},
                         {f"127.0.0.1:{gateways[0].admin}": True, f"127.0.0.1:{admin}": False})
        self.assertTrue(planner.has_event(f"127.0.0.1:{admin}: ", warning=True))
        self.assertNotIn(f"127.0.0.1:{gateways[0].admin}: ", state["data"]["text"])
        self.assertEqual(state["decisions"][0]["reason"], "no_data")
        self.assertIn("penstock_gateway_up 0", planner.metrics())
        self.assertEqual(home.stages(), {"serving": 1})

        before = state["slo"]["judged"]
        again = home.gateway(self, "--listen", f"127.0.0.1:{port}", "--admin-listen", f"127.0.0.1:{admin}")
        until_routed(again, 1)
        until("data", lambda: planner.state()["data"]["state"] == "known")
        self.assertEqual(ManyStreams(self, again.port, 4, 5).join(), [])
        until("the ends of its requests", lambda: planner.state()["slo"]["judged"] == before + 4)

    def test_a_name_is_looked_up_after_the_start(self):
        planner = Planner(self, "--gateway", "no-such-host.invalid:8081")
        until("word of it", lambda: " host_unresolved host=no-such-host.invalid " in planner.log())
        until("a decision", lambda: planner.state()["decisions"])
        self.assertEqual(planner.state()["data"]["state"], "no_gateway")
        self.assertTrue(planner.has_event("no-such-host.invalid", warning=True))


if __name__ == "__main__":
    unittest.main()
