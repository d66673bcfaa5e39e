"""Private words that the project has replaced by those of the field, with the folders that still use them."""

import re

# (pattern, what to write instead, folders in which the word is still left). A folder leaves its row when it is done.
WORDS = [
    ("Desk", "Dispatcher", ""),
    ("Mailbox", "GrantListener", ""),
    ("Steward", "HealthChecker", ""),
    ("PrefixShelf", "HotPrefixCache", ""),
    ("Selector", "EndpointPicker", ""),
    ("SecondHomes", "PrefixReplication", ""),
    ("TrafficBook", "TrafficWindow", ""),
    ("Outlook", "Forecast", ""),
    ("somebody_before", "has_earlier_waiter", ""),
    ("class_broke", "class_exhausted", ""),
    ("let_in", "admit", ""),
    ("note_of", "record", ""),
    ("taught", "observed", ""),
    ("lacked", "missing", ""),
    ("carry_out", "run", "src/cli"),
    ("complain", "report_error", "src/cli"),
    ("heard_at", "received_at", ""),
    ("tells_cached", "reports_cached_tokens", "src/dispatch"),
    ("heard", "received, reported",
     "src/dispatch src/simulation"),
    ("said", "logged, reported",
     "src/cli src/options src/simulation"),
    ("believed", "assumed, accepted", "src/dispatch"),
    ("wishe?s?", "proposal", ""),
    ("patience", "timeout", ""),
    ("lanes?", "queue, model", "src/dispatch"),
    ("nobody", "no client, no process",
     "src/cli src/options src/dispatch src/simulation"),
    ("somebody", "a client, another process", "src/options"),
    ("whoever", "the caller", ""),
    ("amid", "during", ""),
    ("lest", "so that … not", ""),
    ("thereof", "of it", ""),
    ("by and by", "gradually", ""),
    ("for good", "permanently", ""),
    ("mend(?:s|ed)?", "fix", "src/simulation"),
    ("learnt", "learned", ""),
    ("is no known", "unknown", "src/options"),
    ("knows no", "unknown", ""),
    ("under way", "in flight, in progress", "src/options src/dispatch"),
    ("ended well", "succeeded", ""),
    ("SLO kept", "SLO attainment", ""),
    ("what stands in", "the content of", ""),
]
RULES = [(re.compile(rf"(?<![A-Za-z])(?:{word})(?![A-Za-z])"), better, frozenset(left.split())) for word, better, left in WORDS]


def folder_of(name):
    """src/net for src/net/http.cpp, docs for docs/load.md; None for what the rule does not cover."""
    parts = name.split("/")
    if parts[0] in ("src", "web"):
        return "/".join(parts[:2])
    return parts[0] if parts[0] in ("docs", "README.md") else None


def find(name, line):
    """(word, what to write instead) for each private word of a line in a folder that is done."""
    folder = folder_of(name)
    if folder is None:
        return []
    return [(match.group(0), better) for rule, better, left in RULES
            if folder not in left and (match := rule.search(line))]
