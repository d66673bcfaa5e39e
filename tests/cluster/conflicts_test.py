#!/usr/bin/env python3
"""Other clients change the target without a pause, but not its number of replicas: the planner scales all the same where one of its writes
fits in between, and otherwise names the client once and goes on when it ends."""

import sys
import threading
import time

from cluster_testing import main
from live_testing import until
from pods_testing import PodsThatServe

WORDS = "another-client changes deployments.apps \"engines\" without a pause"


class Conflicts(PodsThatServe):
    def change(self, name, clients, pause_s):
        """Annotates the Deployment from so many connections until the returned function is called."""
        ended = threading.Event()

        def work(number):
            api, count = self.cluster.api(), 0
            path = f"/apis/apps/v1/namespaces/{name}/deployments/engines?fieldManager=another-client"
            while not ended.wait(pause_s):
                count += 1
                api.patch(path, {"metadata": {"annotations": {f"other/count-{number}": str(count)}}})
            api.connection.close()

        threads = [threading.Thread(target=work, args=(number,)) for number in range(clients)]

        def end():
            ended.set()
            for thread in threads:
                thread.join()

        self.addCleanup(end)
        for thread in threads:
            thread.start()
        return end

    def conflicts(self, name):
        return [write for write in self.cluster.scale_writes(name) if write["status"] == 409]

    def warnings(self, planner):
        return [line["message"] for line in planner.events("actuation_warning") if WORDS in line["message"]]

    def test_a_conflict_on_each_write_is_named_once_and_the_planner_recovers(self):
        name = "conflicts"
        gateway, planner = self.begin(name, 1)
        self.reaches(planner, gateway, 2)
        end = self.change(name, 6, 0.0)
        sizes = [3, 2]
        # A write may fit in between; the next one is refused sooner or later.
        deadline = time.monotonic() + 60
        while not self.warnings(planner):
            self.assertLess(time.monotonic(), deadline, "no line names the client")
            planner.target(sizes[0])
            sizes.reverse()
            time.sleep(4)
        until("one Event", lambda: [note for note, _ in self.noted(name, "ScalingFailed") if WORDS in note])
        self.assertEqual(planner.held("no_data"), [])
        end()
        self.reaches(planner, gateway, 4)
        print(f"{len(self.conflicts(name))} conflicts: {self.warnings(planner)}", file=sys.stderr)
        self.assertEqual(len(self.warnings(planner)), 1)
        self.assertEqual(planner.held("manual"), [])

    def test_a_client_that_writes_all_the_time_does_not_keep_the_planner_from_scaling(self):
        name = "annotated"
        gateway, planner = self.begin(name, 2)
        self.reaches(planner, gateway, 3)
        self.change(name, 1, 0.005)
        for replicas in (4, 2, 3):
            self.reaches(planner, gateway, replicas)
        print(f"{len(self.conflicts(name))} conflicts", file=sys.stderr)
        self.assertEqual(planner.held("no_data") + planner.held("manual"), [])


if __name__ == "__main__":
    main()
