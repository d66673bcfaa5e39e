"""A rule of tidy.py: the tests that docs/testing.md names for reported defects exist."""

import re

PAGE, HEADING = "docs/testing.md", "## Reported defects and their tests"
CXX_TEST = re.compile(r"^TEST(?:_F|_P)?\((\w+), (\w+)\)", re.M)


def check_named_tests(tree):
    before, heading, after = tree.text.get(PAGE, "").partition(HEADING)
    if not heading:
        return
    known = set()
    for name, text in tree.text.items():
        if name.endswith("_test.cpp"):
            for suite, test in CXX_TEST.findall(text):
                known |= {f"{suite}.{test}", f"{suite}.*"}
    first = before.count("\n") + 1
    for number, line in enumerate(after.split("\n## ")[0].split("\n"), first):
        cells = line.split(" | ")
        if len(cells) < 2 or set(line) <= set("|- "):
            continue
        script, named = "", re.findall(r"`([^`]+)`", cells[-1])
        for word in named:
            if word.endswith(".py"):
                script = tree.text.get(f"tests/{word}", "")
                is_there = bool(script)
            elif "." in word:
                is_there = word in known
            else:
                is_there = re.search(rf"^\s*(?:def|class) {re.escape(word)}\(", script, re.M) is not None
            if not is_there:
                tree.add(PAGE, number, f"names the test {word}, which is not there")
        if not named and cells[-1].strip(" |") != "test":
            tree.add(PAGE, number, "names no test")
