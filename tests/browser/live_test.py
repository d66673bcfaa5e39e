#!/usr/bin/env python3
"""Opens the live page in a real browser beside a server that tells it of a Penstock: live_test.py --chromium PROGRAM

No script may fail, no text from outside may become markup, nothing may be asked of anybody but the server itself, and
what is to be seen must be there: also while the server is silent, gone and back.
"""

import argparse
import copy
import sys
import unittest

import live_samples
from chromium import Chromium
from live_server import LiveServer

ARGUMENTS = argparse.Namespace()
READY = "document.getElementById('content')?.hidden === false"
CONNECTION = "document.getElementById('connection').dataset.state"
DASH = "–"


def later(state, seconds=1.0, **changes):
    return {**copy.deepcopy(state), "now_s": state["now_s"] + seconds, **changes}


class LiveTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.browser = Chromium(ARGUMENTS.chromium)
        cls.addClassCleanup(cls.browser.close)

    def show(self, sample="ordinary", **options):
        """A page that shows a sample; whatever the test did, no script may have failed and nothing been loaded elsewhere."""
        self.server = LiveServer(*getattr(live_samples, sample)())
        self.addCleanup(self.server.close)
        page = self.browser.page(**options)
        self.addCleanup(page.close)
        page.open(self.server.url)
        page.wait_for(READY)
        return page

    def assert_clean(self, page):
        self.assertEqual(page.complaints(), [])
        self.assertTrue(page.run("document.getElementById('errors').hidden"), page.text("#errors"))
        self.assertEqual([url for url in page.requested() if not url.startswith((self.server.url, "data:"))], [])

    def focused(self, page):
        return page.run("document.activeElement.id || document.activeElement.tagName")


class WhatIsShown(LiveTest):
    def test_a_failing_script_is_detected(self):
        page = self.show()
        page.run("setTimeout(() => missing_function(), 0); console.error('test error')")
        page.wait_for("!document.getElementById('errors').hidden")
        self.assertIn("missing_function is not defined", " ".join(page.complaints()))
        self.assertIn("test error", page.complaints())
        self.assertIn("missing_function", page.text("#errors"))

    def test_the_head_says_what_runs_and_how_well(self):
        page = self.show()
        for selector, text in (("#mode", "active"), ("#policy", "penstock"), ("#phase", "cost"), ("#slo", "TTFT 2\u00a0s · ITL 50\u00a0ms"),
                               ("#attainment", "98.5\u00a0%"), ("#connection-word", "live"), ("#version", "Penstock 0.1.0")):
            self.assertEqual(page.text(selector), text)
        self.assertIn("Connected", page.text("#announcement"))
        self.assert_clean(page)

    def test_every_tile_has_its_figures(self):
        page = self.show()
        output = page.run("Object.fromEntries([...document.querySelectorAll('.tile')].map(t => [t.id.slice(5), t.innerText]))")
        self.assertIn("within SLO 0.071 · 1.33", output["token-cost"])
        for tile, text in (("attainment", "11,830 of 12,010"), ("ttft", "SLO 2\u00a0s · 99.1\u00a0% within"), ("itl", "SLO 50\u00a0ms · 99.4\u00a0% within"), ("requests", "43 in flight"),
                           ("tokens", "·"), ("replicas", "1 starting · 1 draining"), ("queue", "gateway 7 · oldest 840\u00a0ms"),
                           ("kv", "highest replica 91.0\u00a0%"), ("hits", "%"), ("cost", "GPU cost 8.55 USD at 2.50 USD/h"), ("token-cost", "0.064 · 1.20")):
            self.assertIn(text, output[tile], tile)
            self.assertNotIn(DASH, output[tile], tile)

    def test_what_only_some_fleets_have_is_shown_to_them(self):
        page = self.show()
        self.assertTrue(page.run("document.getElementById('engine-model').hidden && document.getElementById('tile-e2e').hidden"))
        state = later(self.server.state)
        state["pools"][0]["uncalibrated"] = True
        state["slo"]["e2e_ms"] = 20000
        self.server.tell(state)
        self.server.push("point", {**live_samples.point(2402), "e2e": live_samples.latency(9000), "tpot": live_samples.latency(20)})
        page.wait_for("!document.getElementById('engine-model').hidden && !document.getElementById('tile-e2e').hidden")
        self.assertEqual(page.text("#uncalibrated"), "default, uncalibrated")
        self.assertIn("e2e 20\u00a0s", page.text("#slo"))
        page.wait_for("document.querySelector('#tile-e2e b').textContent.startsWith('21.6')")
        self.assertIn("SLO 20\u00a0s · over · TPOT 48.0\u00a0ms", page.text("#tile-e2e .note"))
        self.assert_clean(page)

    def test_every_chart_is_drawn_and_described(self):
        page = self.show()
        charts = page.run("[...document.querySelectorAll('.chart')].map(f => [f.id, f.querySelector('.plot').getAttribute('aria-label')])")
        self.assertEqual([name for name, _ in charts], [f"chart-{name}" for name in (
            "replicas-0", "requests", "tokens", "ttft", "itl", "lengths", "queues", "kv")])
        for name, words in charts:
            self.assertRegex(words, r"last 15 min: .* now .*, from .* to ", name)
        self.assertIn("; SLO 2\u00a0s.", dict(charts)["chart-ttft"])
        # A chart without its lines would have one colour in the middle of its canvas.
        painted = page.run("""[...document.querySelectorAll('.chart canvas')].map(c => new Set(
            new Uint32Array(c.getContext('2d').getImageData(0, 0, c.width, c.height).data.buffer)).size)""")
        self.assertEqual([count for count in painted if count < 20], [])

    def test_tables_list_replicas_segments_tenants_and_events(self):
        page = self.show()
        rows = page.run("Object.fromEntries(['replicas', 'segments', 'tenants', 'scaling'].map(id => [id, document.querySelectorAll(`#${id} tbody tr`).length]))")
        self.assertEqual(rows, {"replicas": 7, "segments": 6, "tenants": 3, "scaling": 2})
        self.assertIn("2.90\u00a0s ▲", page.text("#segments"))
        heads = page.run("[...document.querySelectorAll('#tenants thead th')].map(head => head.innerText)")
        shop = page.run("[...document.querySelectorAll('#tenants tbody tr')[0].cells].map(cell => cell.innerText.trim())")
        self.assertEqual({head: shop[heads.index(head)] for head in ("cancelled", "token cost (USD)")},
                         {"cancelled": "40", "token cost (USD)": "4.21"})
        self.assertIn("no limit", page.text("#tenants"))
        self.assertIn("budget exhausted 21 · KV full 5", page.text("#gateway-refusals"))
        scaling = page.run("[...document.querySelectorAll('#scaling tbody tr')].map(row => [...row.cells].slice(1).map(c => c.innerText.trim()))")
        self.assertEqual(scaling, [["default", "5 → 6", "in progress", "140", "0", "0", "0", "2"],
                                   ["default", "4 → 5", "14\u00a0s", "1,031", "0", "3", "0", "0"]])
        self.assertEqual(page.run("[...document.querySelectorAll('#scaling [data-tone=over]')].map(c => c.innerText.trim())"), ["3"])
        self.assertIn("default-3 died", page.text("#event-list .warning"))
        heads = page.run("[...document.querySelectorAll('main table th')].filter(h => !h.hasAttribute('scope')).length")
        self.assertEqual(heads, 0)

    def test_an_ejection_and_an_old_sample_are_marked(self):
        page = self.show()
        state = later(self.server.state)
        state["gateway"]["replicas"][0].update(breaker_open=True, ejection_cause="success_rate")
        state["pools"][0]["replicas"][1]["sample"]["age_s"] = 75
        self.server.tell(state)
        page.wait_for("document.querySelector('#replicas tbody').textContent.includes('ejected')")
        self.assertEqual(page.run("document.querySelector('#replicas tbody tr:nth-child(2) td:nth-of-type(3)').title"), "last update 1\u00a0min 15\u00a0s ago")

    def test_the_problems_of_replicas_are_shown(self):
        page = self.show()
        state = later(self.server.state)
        name = state["pools"][0]["replicas"][0]["name"]
        state["gateway"]["problems"] = [
            {"replica": name, "url": "http://a", "code": "metrics_unavailable", "text": "/metrics answered with status 404"},
            {"replica": "http://b:8000", "url": "http://b:8000", "code": "unauthorized",
             "text": "the replica requires an API key (status 401); set gateway.credentials <b>now</b>"}]
        self.server.tell(state)
        page.wait_for("document.querySelector('#replicas tbody').textContent.includes('unauthorized')")
        cells = page.run("""Object.fromEntries([...document.querySelectorAll('#replicas tbody tr')].map(row =>
            [row.cells[0].innerText.trim(), [row.cells[8].innerText.trim(), row.cells[8].dataset.tone ?? null, row.cells[8].title]]))""")
        self.assertEqual(cells[name][:2], ["metrics unavailable: /metrics answered with status 404", "near"])
        text, tone, title = cells["http://b:8000"]
        self.assertTrue(text.startswith("unauthorized: the replica requires an API key (status 401)"), text)
        self.assertTrue(title.endswith("<b>now</b>"), title)
        self.assertEqual(tone, "over")
        self.assertEqual({text for text, *_ in cells.values() if ":" not in text}, {DASH})
        self.assert_clean(page)

    def test_new_states_and_points_are_shown_as_they_come(self):
        page = self.show()
        state = later(self.server.state, phase="observe", diagnosis={"cause": "none", "words": "all is well"})
        self.server.tell(state)
        self.server.push("point", {**live_samples.point(2402), "arrivals_per_s": 77.0, "ttft": None})
        page.wait_for("document.querySelector('#tile-requests b').textContent === '77.0'")
        self.assertEqual(page.text("#tile-ttft b"), DASH)
        self.assertEqual((page.text("#phase"), page.text("#diagnosis-cause")), ("observe", "no problem found"))
        self.assert_clean(page)

    def test_a_diagnosis_has_the_settings_of_the_engine_that_may_help(self):
        page = self.show()
        setting = {"rule": "kv_reserve", "advice": "keep <b>KV</b> free", "vllm": "--max-num-seqs", "sglang": "--max-running-requests", "triton": ""}
        self.server.tell(later(self.server.state, diagnosis={"cause": "kv_pressure", "text": "TTFT is bad", "settings": [setting]}))
        page.wait_for("!document.querySelector('#diagnosis-settings').hidden")
        self.assertEqual(page.text("#diagnosis-settings"),
                         "Engine settings that may help: keep <b>KV</b> free (vLLM --max-num-seqs, SGLang --max-running-requests).")
        measured = {**setting, "pool": "chat", "evidence": "30 % of the sequence slots are filled, before it was 50 %"}
        self.server.tell(later(self.server.state, diagnosis={"cause": "none", "text": "all is well", "settings": [measured]}))
        page.wait_for("document.querySelector('#diagnosis-settings').textContent.includes('chat: 30')")
        self.server.tell(later(self.server.state, 2.0, diagnosis={"cause": "none", "text": "all is well", "settings": []}))
        page.wait_for("document.querySelector('#diagnosis-settings').hidden")
        self.assert_clean(page)

    def test_what_is_missing_is_a_dash_and_never_zero(self):
        page = self.show("bare")
        for tile in ("attainment", "ttft", "itl", "queue", "kv", "hits"):
            self.assertEqual(page.text(f"#tile-{tile} b"), DASH, tile)
        self.assertEqual(page.text("#tile-requests b"), "0")
        self.assertIn(f"GPU cost {DASH}", page.text("#tile-cost"))
        self.assertEqual(page.text("#mode"), "observe-only")
        for words in ("No decision yet.", "No replicas.", "No data from a gateway.", "No event yet.", "No replica has started or stopped yet."):
            self.assertIn(words, page.run("document.body.innerText"))
        self.assertIn("KV used not known", page.run("document.querySelector('#chart-kv .plot').ariaLabel"))
        self.assert_clean(page)

    def test_a_planner_without_data_is_never_green(self):
        page = self.show("blind")
        self.assertEqual((page.run(CONNECTION), page.text("#connection-word")), ("unknown", "unknown"))
        self.assertIn("The state is unknown since", page.text("#data-word"))
        self.assertIn("check --gateway", page.text("#data-word"))
        self.assertEqual(page.text("#diagnosis-cause"), "unknown")
        self.assertEqual(page.run("document.getElementById('segments').innerText.trim()"), "No data from a gateway.")
        for tile in ("attainment", "ttft", "itl", "requests", "replicas"):
            self.assertEqual(page.text(f"#tile-{tile} b"), DASH, tile)
        self.assertEqual(page.run("[...document.querySelectorAll('main [data-tone=good]')].map(e => e.innerText)"), [])
        self.server.tell(later(live_samples.ordinary()[0], 5))
        page.wait_for(CONNECTION + " === 'live'")
        self.assertTrue(page.run("document.getElementById('data-word').hidden"))
        self.assert_clean(page)

    def test_two_pools_have_a_chart_each_and_their_names_in_decisions(self):
        page = self.show("disaggregated")
        self.assertEqual(page.run("[...document.querySelectorAll('.chart h3')].slice(0, 2).map(h => h.firstChild.data.trim())"),
                         ["Replicas of prefill", "Replicas of decode"])
        page.press("d")
        page.press("Enter")
        page.wait_for("document.querySelector('#decision-list .body tr.chosen')")
        self.assertIn("prefilldecodeSLO attainment", page.text("#decision-list details[open] .body"))
        self.assert_clean(page)

    def test_pools_that_appear_get_their_charts(self):
        page = self.show("bare")
        state, points = live_samples.disaggregated()
        self.server.push("points", points)
        self.server.tell(state)
        page.wait_for("document.querySelectorAll('.chart').length === 9")
        self.assertEqual(page.run("document.querySelectorAll('.uplot').length"), 9)
        self.assert_clean(page)

    def test_a_large_fleet_and_many_decisions_fit(self):
        page = self.show("large")
        self.assertEqual(page.run("document.querySelectorAll('#replicas tbody tr').length"), 64)
        self.assertEqual(page.run("document.querySelectorAll('#decision-list li').length"), 100)
        self.assertLess(page.run("document.documentElement.scrollHeight"), 3200)
        self.assert_clean(page)

    def test_points_are_bounded_and_repeated_ones_count_once(self):
        page = self.show("large")
        for at_s in (2400, 2402, 2402, 2404):
            self.server.push("point", live_samples.point(at_s, most=64))
        page.wait_for("live.points.at(-1).at_s === 2404")
        self.assertEqual(page.run("live.points.length"), 1800)
        self.assertEqual(page.run("live.points.filter(p => p.at_s === 2402).length"), 1)

    def test_the_history_reaches_back_behind_the_start_and_shows_its_gap(self):
        page = self.show()
        shown = "charts[1].data[0].length"
        page.press("4")
        page.wait_for("charts[1].canvas.getAttribute('aria-label').includes('last 24 h')")
        first = self.server.points[0]
        # Of a planner that ended half an hour before this one started.
        self.server.push("history", [{**first, "at_s": -5400 + 60 * minute, "arrivals_per_s": 70} for minute in range(60)])
        page.wait_for(f"{shown} > 60")
        self.assertEqual(page.run("charts[1].data[1].slice(0, 61)"), 60 * [70] + [None])
        self.assertGreaterEqual(page.run("charts[1].data[0].at(-1) - charts[1].data[0][0]"), 5400)
        self.server.tell(later(self.server.state))
        page.press("2")
        page.wait_for(f"{shown} > 0 && !charts[1].data[1].includes(70)")
        self.assert_clean(page)

    def test_a_gateway_that_does_not_report_is_marked(self):
        page = self.show()
        self.server.tell(later(self.server.state, 30))
        page.wait_for("!document.getElementById('gateway-word').hidden")
        self.assertIn("No update for 30\u00a0s", page.text("#gateway-word"))


class WhatComesFromOutside(LiveTest):
    def test_text_is_escaped(self):
        for sample in ("hostile", "wrong_types"):
            with self.subTest(sample):
                page = self.show(sample)
                page.run("document.querySelectorAll('#decision-list summary').forEach(s => s.click())")
                page.wait_for("document.querySelectorAll('#decision-list .body').length > 0")
                self.assertEqual(page.run("document.title"), "Penstock live")
                self.assertEqual(page.run("document.querySelectorAll('main script, main img, main style, [onclick], [onerror]').length"), 0)
                self.assert_clean(page)

    def test_hostile_names_are_escaped_and_cut(self):
        page = self.show("hostile")
        self.assertIn("<script>document.title='taken'</script>", page.run("document.body.innerText"))
        self.assertNotIn("a" * 1000, page.run("document.documentElement.outerHTML.replace(/<script>[^]*?<\\/script>/g, '')"))
        self.assertEqual(page.run("[...document.querySelectorAll('td, #decision-list .why')].filter("
                                  "cell => cell.textContent.includes('\\u202e') && !cell.querySelector('bdi')).length"), 0)

    def test_hostile_names_do_not_widen_the_page(self):
        for width in (360, 800, 1440):
            page = self.show("hostile", width=width)
            page.run("document.querySelectorAll('#decision-list summary').forEach(s => s.click())")
            page.wait_for("document.querySelectorAll('#decision-list .body').length > 0")
            self.assertLessEqual(page.run("document.documentElement.scrollWidth"), width)

    def test_the_policy_lets_no_other_script_run(self):
        page = self.show()
        page.run("document.body.append(Object.assign(document.createElement('script'), {textContent: 'document.title = \"taken\"'}))")
        page.wait_for("!document.getElementById('errors').hidden")
        self.assertIn("blocked", page.text("#errors"))
        self.assertEqual(page.run("document.title"), "Penstock live")

    def test_an_invalid_event_is_reported_and_ignored(self):
        page = self.show()
        self.server.push_raw("event: state\ndata: {\"now_s\"\n\n")
        page.wait_for("!document.getElementById('errors').hidden")
        self.server.tell(later(self.server.state, policy="after"))
        page.wait_for("document.getElementById('policy').textContent === 'after'")


class WhenTheServerIsGone(LiveTest):
    def test_without_events_the_page_is_stale_until_the_next_state(self):
        page = self.show()
        page.wait_for(CONNECTION + " === 'stale'")
        self.assertRegex(page.text("#connection-word"), "stale · .* old")
        self.assertIn("no updates", page.text("#announcement"))
        self.server.tell(later(self.server.state))
        page.wait_for(CONNECTION + " === 'live'")
        self.assert_clean(page)

    def test_a_restarted_server_replaces_the_old_state(self):
        page = self.show()
        page.run("document.querySelector('#decision-list summary').click()")
        state, _ = live_samples.bare()
        self.server.state, self.server.points = {**state, "now_s": 3.0}, [{**live_samples.point(2.0), "arrivals_per_s": 5.0}]
        self.server.cut()
        page.wait_for("document.getElementById('up').textContent === '3\u00a0s'")
        self.assertEqual(page.run("live.points.length"), 1)
        self.assertEqual(page.run("document.querySelectorAll('#decision-list li').length"), 0)
        self.assertEqual(page.text("#tile-requests b"), "5.00")
        page.wait_for(CONNECTION + " === 'live'")

    def test_a_refused_stream_is_tried_again_until_it_comes(self):
        page = self.show()
        # Time stands still for the watch over silent streams, which would help out.
        page.run("{ const at = performance.now(); performance.now = () => at; }")
        self.server.refuses = True
        self.server.cut()
        page.wait_for(CONNECTION + " === 'reconnecting'")
        self.assertIn("reconnecting", page.text("#announcement"))
        self.assertTrue(self.server.refused.wait(30))
        self.assertEqual(page.text("#policy"), "penstock")
        self.server.state = later(self.server.state, policy="back")
        self.server.refuses = False
        page.wait_for("document.getElementById('policy').textContent === 'back'")
        page.wait_for(CONNECTION + " === 'live'")

    def test_a_dead_stream_is_replaced(self):
        page = self.show()
        page.run("{ const clock = performance.now.bind(performance); performance.now = () => clock() + 60000; }")
        self.server.state = later(self.server.state, policy="second stream")
        page.wait_for("document.getElementById('policy').textContent === 'second stream'")


class WhatOneCanDo(LiveTest):
    def test_decisions_open_by_keyboard_and_stay_open(self):
        page = self.show()
        page.press("d")
        self.assertEqual(self.focused(page), "SUMMARY")
        page.press("Enter")
        page.wait_for("document.querySelector('#decision-list details[open] .body')")
        body = page.text("#decision-list details[open] .body")
        for text in ("growth rate", "What would change this decision", "SLO attainment of 6", "Evidence", "99.2\u00a0%", "queued tokens" + DASH,
                     "Simulated fleets", "✓ chosen", "Diagnosis"):
            self.assertIn(text, body)
        self.assertEqual(page.run("document.querySelectorAll('#decision-list tr.chosen').length"), 1)
        newer = live_samples.decision(2401, "default", 6, 7, "slo_burns")
        self.server.tell(later(self.server.state, decisions=[newer, *self.server.state["decisions"]]))
        page.wait_for("document.querySelectorAll('#decision-list li').length === 7")
        self.assertIn("SLO burns", page.text("#decision-list li summary"))
        self.assertTrue(page.run("document.querySelectorAll('#decision-list li')[1].querySelector('details').open"))
        self.assertEqual(self.focused(page), "SUMMARY")
        self.assert_clean(page)

    def test_decisions_are_filtered(self):
        page = self.show()
        shown = "[...document.querySelectorAll('#decision-list li')].filter(li => !li.hidden).length"
        page.press("/")
        self.assertEqual(self.focused(page), "filter")
        page.type("hot kv")
        self.assertEqual(page.run(shown), 1)
        self.assertEqual(page.text("#decision-count"), "1 of 6")
        page.type(" nothing such")
        self.assertIn("No decision matches", page.text("#decision-none"))
        page.press("Escape")
        self.assertEqual(page.run(shown), 6)
        page.press("c")
        self.assertEqual(page.run(shown), 4)

    def test_a_pause_keeps_the_page_as_it_is_and_loses_nothing(self):
        page = self.show()
        page.press("p")
        self.assertFalse(page.run("document.getElementById('paused').hidden"))
        self.server.tell(later(self.server.state, policy="meanwhile"))
        self.server.push("point", live_samples.point(2402))
        page.wait_for("live.points.at(-1).at_s === 2402")
        page.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        self.assertEqual(page.text("#policy"), "penstock")
        page.press("1")
        self.assertAlmostEqual(page.run("charts[1].span[1] - onWall(0)"), 2400, 3, "charts end where the rest of the page does")
        page.press("p")
        page.wait_for("document.getElementById('policy').textContent === 'meanwhile'")
        self.assertTrue(page.run("document.getElementById('paused').hidden"))

    def test_the_short_cuts_are_listed_and_keys_typed_elsewhere_do_nothing(self):
        page = self.show()
        page.press("?")
        self.assertTrue(page.run("document.getElementById('help').open"))
        page.press("Escape")
        page.wait_for("!document.getElementById('help').open")
        page.press("/")
        page.press("p")
        self.assertTrue(page.run("document.getElementById('paused').hidden"))

    def test_a_pointer_in_one_chart_shows_the_moment_in_all(self):
        page = self.show(height=2000)
        moments = "[...document.querySelectorAll('.when')].map(e => e.textContent)"
        self.assertEqual(set(page.run(moments)), {""})
        now = page.text("#chart-itl .legend b")
        box = page.run("document.querySelector('#chart-requests .u-over').getBoundingClientRect().toJSON()")
        page.move_to(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        page.wait_for("document.querySelector('#chart-itl .when').textContent !== ''")
        self.assertEqual(len(set(page.run(moments))), 1)
        self.assertNotEqual(page.text("#chart-itl .legend b"), now)
        page.move_to(5, 5)
        page.wait_for("document.querySelector('#chart-itl .when').textContent === ''")
        self.assertEqual(page.text("#chart-itl .legend b"), now)
        self.assert_clean(page)

    def test_a_line_is_hidden_and_shown_by_its_legend(self):
        page = self.show()
        key = "document.querySelector('#chart-ttft .legend button')"
        page.run(key + ".focus()")
        page.press("Enter")
        self.assertEqual(page.run(f"[{key}.ariaPressed, charts.find(c => c.what.id === 'ttft').plot.series[1].show]"), ["false", False])
        page.press("Enter")
        self.assertEqual(page.run(f"[{key}.ariaPressed, charts.find(c => c.what.id === 'ttft').plot.series[1].show]"), ["true", True])

    def test_the_window_of_the_charts_is_chosen_and_remembered(self):
        page = self.show()
        page.press("1")
        self.assertIn("last 5 min", page.run("document.querySelector('#chart-kv .plot').ariaLabel"))
        page.open(self.server.url)
        page.wait_for("document.querySelector('[data-minutes=\"5\"]')?.ariaPressed === 'true'")

    def test_the_theme_follows_the_system_until_one_is_chosen(self):
        page = self.show(dark=True)
        theme = "document.documentElement.dataset.theme"
        paper = "getComputedStyle(document.body).backgroundColor"
        self.assertEqual(page.run(theme), "dark")
        self.assertEqual(page.run(paper), "rgb(17, 21, 27)")
        page.set_dark(False)
        page.wait_for(theme + " === 'light'")
        page.press("t")
        self.assertEqual(page.run(theme), "dark")
        page.open(self.server.url)
        page.wait_for(READY)
        self.assertEqual(page.run(theme), "dark")
        self.assert_clean(page)

    def test_the_page_works_without_local_storage(self):
        page = self.show()
        page.call("Page.addScriptToEvaluateOnNewDocument", source=(
            "Object.defineProperty(window, 'localStorage', {get() { throw new DOMException('denied', 'SecurityError'); }})"))
        page.run("document.body.remove()")
        page.open(self.server.url)
        page.wait_for(READY)
        page.press("t")
        self.assertEqual(page.run("document.documentElement.dataset.theme"), "dark")
        self.assert_clean(page)

    def test_a_phone_shows_all_without_sideways_scrolling(self):
        for sample in ("ordinary", "disaggregated", "large", "bare"):
            page = self.show(sample, width=360, height=780, phone=True)
            page.run("document.querySelectorAll('#decision-list summary').forEach(s => s.click())")
            self.assertLessEqual(page.run("document.documentElement.scrollWidth"), 360, sample)
            wide = page.run("[...document.querySelectorAll('.card, .tile, .bar *')].filter(e => e.getBoundingClientRect().right > 360.5).length")
            self.assertEqual(wide, 0, sample)
            self.assert_clean(page)

    def test_everything_can_be_reached_by_tab_and_the_focus_is_seen(self):
        page = self.show()
        reached = set()
        for _ in range(80):
            page.press("Tab")
            reached.add(self.focused(page))
            reached.add(page.run("document.activeElement.getAttribute('aria-label')"))
            outline = page.run("getComputedStyle(document.activeElement).outlineStyle")
            self.assertIn(outline, ("solid",) if self.focused(page) != "BODY" else ("none", "solid"))
        for place in ("pause", "theme", "keys", "filter", "changes-only", "SUMMARY", "Replicas", "Latency by segment", "Tenants and token cost"):
            self.assertIn(place, reached)

    def test_reduced_motion_is_respected(self):
        page = self.show()
        moves = "getComputedStyle(document.querySelector('#connection i')).animationName"
        self.assertEqual(page.run(moves), "breathe")
        page.set_dark(False, calm=True)
        self.assertEqual(page.run(moves), "none")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chromium", required=True)
    rest = parser.parse_known_args(namespace=ARGUMENTS)[1]
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)
