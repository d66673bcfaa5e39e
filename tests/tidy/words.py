"""Private words that the project has replaced by those of the field."""

import re

# (pattern, what to write instead)
WORDS = [
    ("Desk", "Dispatcher"),
    ("Mailbox", "GrantListener"),
    ("Steward", "HealthChecker"),
    ("PrefixShelf", "HotPrefixCache"),
    ("Selector", "EndpointPicker"),
    ("SecondHomes", "PrefixReplication"),
    ("TrafficBook", "TrafficWindow"),
    ("Outlook", "Forecast"),
    ("somebody_before", "has_earlier_waiter"),
    ("class_broke", "class_exhausted"),
    ("let_in", "admit"),
    ("note_of", "record"),
    ("taught", "observed"),
    ("lacked", "missing"),
    ("carry_out", "run"),
    ("complain", "report_error"),
    ("heard_at", "received_at"),
    ("tells_cached", "reports_cached_tokens"),
    ("heard", "received, reported"),
    ("said", "logged, reported"),
    ("believed", "assumed, accepted"),
    ("wishe?s?", "proposal"),
    ("patience", "timeout"),
    ("lanes?", "queue, model"),
    ("nobody", "no client, no process"),
    ("somebody", "a client, another process"),
    ("whoever", "the caller"),
    ("amid", "during"),
    ("lest", "so that … not"),
    ("thereof", "of it"),
    ("by and by", "gradually"),
    ("for good", "permanently"),
    ("mend(?:s|ed)?", "fix"),
    ("learnt", "learned"),
    ("is no known", "unknown"),
    ("knows no", "unknown"),
    ("under way", "in flight, in progress"),
    ("ended well", "succeeded"),
    ("SLO kept", "SLO attainment"),
    ("dribbl(?:e|es|ing)", "slow"),
    ("loud(?:ly)?", "at warning level"),
    ("Crowd", "QueueDepth"),
    ("gravest", "most severe"),
    ("what stands in", "the content of"),
]


def pattern_of(word):
    """The word alone, or as a part of a name in CamelCase."""
    alone = rf"(?<![A-Za-z])(?:{word})(?![A-Za-z])"
    return re.compile(alone + (rf"|{word[0].upper()}{word[1:]}(?![a-z])" if word[0].islower() and " " not in word else ""))


RULES = [(pattern_of(word), better) for word, better in WORDS]


CHECKED = re.compile(r"(?:src|web|docs|bench|fuzz|tests|tools|cmake)/|README\.md|CONTRIBUTING\.md")


def find(name, line):
    """(word, what to write instead) for each private word of a line; the changelog may name the old ones."""
    if not CHECKED.match(name) or name == "tests/tidy/words.py":
        return []
    return [(match.group(0), better) for rule, better in RULES if (match := rule.search(line))]


STRING = re.compile(r'"(?:\\.|[^"\\\n])*"')
FRAGMENT = re.compile(r"//+ *(of|that|which) ")


def fragment(line, above):
    """The first word of a C++ comment that begins on the line, in lower case, and borrows its subject; None without one."""
    code = STRING.sub(lambda match: "x" * len(match.group(0)), line)
    if (match := FRAGMENT.search(code)) and not (code[:match.start()].strip() == "" and above.lstrip().startswith("//")):
        return match.group(1)
    return None
