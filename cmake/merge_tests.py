"""Writes sources of tests as one file: merge_tests.py OUTPUT SOURCE...

An anonymous namespace gets the name of its file, so that files may use the same names. Messages of the compiler and
__FILE__ name the sources."""

import re
import sys

output, *sources = sys.argv[1:]
with open(output, "w", encoding="utf-8") as merged:
    for path in sources:
        name = "file" + re.sub(r"\W", "_", path)
        with open(path, encoding="utf-8") as source:
            text = re.sub(r"^namespace \{$", f"namespace {name} {{", source.read(), flags=re.MULTILINE)
        merged.write(f'#line 1 "{path}"\n{text}')
