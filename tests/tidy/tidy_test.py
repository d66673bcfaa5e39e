#!/usr/bin/env python3
"""Every rule of tidy.py fires on a sample that breaks it, and is silent on a tree that keeps them all."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import tidy  # noqa: E402

GOOD = {
    "CMakeLists.txt": "penstock_module(core)\npenstock_module(signals DEPENDS core)\n"
                      "penstock_module(planner DEPENDS core signals)\nadd_subdirectory(src/cli)\n",
    "src/core/README.md": "# core\n",
    "src/core/time.h": "#pragma once\n",
    "src/signals/README.md": "# signals\nSee [core](../core/README.md#core).\n",
    "src/signals/observation.h": '#pragma once\n#include "core/time.h"\n',
    "src/signals/observation.cpp": '#include "signals/observation.h"\n// std::mutex here\nauto x = "std::cout";\n',
    "src/planner/README.md": "# planner\n",
    "src/planner/policy.cpp": '#include "core/time.h"\n#include "signals/observation.h"\n',
    "src/planner/policy_test.cpp": '#include <fstream>\n#include "signals/observation.h"\n',
    "src/cli/README.md": "# cli\n",
    "src/cli/main.cpp": '#include <iostream>\n#include <fstream>\nint main() { std::cout << 1; }\n',
    "src/cli/CMakeLists.txt": "add_executable(penstock main.cpp)\n",
}

# Put together from halves, so that this file keeps the rules too.
TO_DO = "TO" + "DO"
HOME = "/ho" + "me/user/x"

# name: (files added to or replaced in the good tree, the file that the finding names, part of the finding)
BAD = {
    "a test is named for a defect and is not there": (
        {"README.md": "[tests](docs/testing.md)\n", "docs/testing.md":
         "# Testing\n\n## Reported defects and their tests\n\n| defect | test |\n|---|---|\n| one | `Suite.Behaves` |\n"},
        "docs/testing.md", "names the test Suite.Behaves, which is not there"),
    "a defect has no test": (
        {"README.md": "[tests](docs/testing.md)\n", "docs/testing.md":
         "# Testing\n\n## Reported defects and their tests\n\n| defect | test |\n|---|---|\n| one | none |\n"},
        "docs/testing.md", "names no test"),
    "a folder includes what it may not": (
        {"src/signals/bad.cpp": '#include "planner/plan.h"\n', "src/planner/plan.h": "#pragma once\n"},
        "src/signals/bad.cpp", "signals may not use planner"),
    "planner never reaches simulation": (
        {"src/planner/bad.cpp": '#include "simulation/run.h"\n', "src/simulation/run.h": "#pragma once\n"},
        "src/planner/bad.cpp", "planner may not use simulation"),
    "an include without a link": (
        {"CMakeLists.txt": GOOD["CMakeLists.txt"].replace("DEPENDS core signals", "DEPENDS core")},
        "src/planner/policy.cpp", "does not list signals in the DEPENDS of planner"),
    "a link that the table forbids": (
        {"CMakeLists.txt": GOOD["CMakeLists.txt"].replace("(signals DEPENDS core)",
                                                          "(signals DEPENDS core planner LIBRARIES x::x)")},
        "CMakeLists.txt", "signals may not use planner"),
    "a private word in a comment": ({"src/core/bad.cpp": "// What the engine sa" + "id.\n"},
                                    "src/core/bad.cpp", "is a private word; write: logged, reported"),
    "a private word in a name": ({"src/core/bad.cpp": "int hea" + "rd_at_ = 0;\n"}, "src/core/bad.cpp", "received_at"),
    "a private word in a document": ({"docs/bad.md": "It stays for go" + "od.\n"}, "docs/bad.md", "permanently"),
    "a private word in CamelCase": ({"src/core/bad_test.cpp": "TEST(Core, Nobo" + "dySends) {}\n"}, "src/core/bad_test.cpp",
                                    "no client"),
    "a comment without a subject": ({"src/core/bad.cpp": "int a = 0;  // of the last minute\n"}, "src/core/bad.cpp",
                                    "has no subject"),
    "a comment block without a subject": ({"src/core/bad.cpp": "// which ends\n// of that\nint a;\n"}, "src/core/bad.cpp",
                                          'begins with "which"'),
    "a wide line": ({"src/core/bad.cpp": "// " + "x" * 118 + "\n"}, "src/core/bad.cpp", "has 121 columns"),
    "a folder that the table does not know": ({"src/utils/a.cpp": "\n"}, "src/utils/a.cpp", "not in the table"),
    "a distribution": ({"src/core/bad.cpp": "std::normal_distribution<> d;\n"}, "src/core/bad.cpp", "distribution"),
    "a random device": ({"src/core/bad.cpp": "std::random_device d;\n"}, "src/core/bad.cpp", "random_device"),
    "rand": ({"src/core/bad.cpp": "int i = std::rand();\n"}, "src/core/bad.cpp", "banned"),
    "a clock": ({"src/planner/bad.cpp": "auto t = std::chrono::steady_clock::now();\n"},
                "src/planner/bad.cpp", "time is an argument"),
    "a clock in the simulation": (
        {"src/simulation/bad.cpp": "auto t = std::chrono::system_clock::now();\n"},
        "src/simulation/bad.cpp", "time is an argument"),
    "a distribution in a benchmark": (
        {"bench/bad.cpp": "std::uniform_int_distribution<> d;\n"}, "bench/bad.cpp", "distribution"),
    "a number that depends on the locale": (
        {"src/cli/bad.cpp": "int i = std::stoi(text);\n"}, "src/cli/bad.cpp", "from_chars"),
    "the environment": ({"src/core/bad.cpp": 'auto v = getenv("X");\n'}, "src/core/bad.cpp", "settings are arguments"),
    "an end of the process": ({"src/core/bad.cpp": "std::exit(1);\n"}, "src/core/bad.cpp", "errors are values"),
    "an exception that escapes": ({"src/core/bad.cpp": "\nthrow 1;\n"}, "src/core/bad.cpp", "does not catch"),
    "a thread": ({"src/planner/bad.cpp": "#include <thread>\n"}, "src/planner/bad.cpp", "no threads"),
    "a lock": ({"src/planner/bad.cpp": "std::shared_mutex m;\n"}, "src/planner/bad.cpp", "no threads"),
    "output": ({"src/core/bad.cpp": "std::cerr << 1;\n"}, "src/core/bad.cpp", "do not print"),
    "output of C": ({"src/core/bad.cpp": "std::fprintf(stderr, x);\n"}, "src/core/bad.cpp", "do not print"),
    "a walk over an unordered container": (
        {"src/core/bad.cpp": "std::unordered_map<int, std::vector<int>> by_id;\nfor (auto& [a, b] : by_id) f(b);\n"},
        "src/core/bad.cpp", "walks by_id"),
    "a walk over an unordered member": (
        {"src/core/time.h": "#pragma once\nstd::unordered_set<int> seen_;\n",
         "src/core/time.cpp": '#include "core/time.h"\nfor (const int id : seen_) f(id);\n'},
        "src/core/time.cpp", "walks seen_"),
    "a regex, even in a shell": ({"src/cli/bad.cpp": "std::regex r;\n"}, "src/cli/bad.cpp", "std::regex"),
    "a file where none is read": (
        {"src/planner/bad.cpp": "std::ifstream f;\n"}, "src/planner/bad.cpp", "files are read"),
    "unsafe math": ({"cmake/x.cmake": "add_compile_options(-ffast-" + "math)\n"}, "cmake/x.cmake", "unsafe math"),
    "a header without a guard": (
        {"src/core/time.h": "// pragma once\n"}, "src/core/time.h", "#pragma once"),
    "a header that opens a namespace": (
        {"src/core/time.h": "#pragma once\nusing namespace std;\n"}, "src/core/time.h", "opens no namespace"),
    "an error that may be overlooked": (
        {"src/core/time.h": "#pragma once\ncore::Result<int> parse(int text);\n"}, "src/core/time.h", "[[nodiscard]]"),
    "a heavy library in a header": (
        {"src/core/time.h": "#pragma once\n#include <nlohmann/json.hpp>\n"}, "src/core/time.h", "stays out of headers"),
    "what is for tests in a product": (
        {"src/core/bad.cpp": '#include "core/a_testing.h"\n', "src/core/a_testing.h": "#pragma once\n"},
        "src/core/bad.cpp", "is for tests"),
    "a header that only its own source uses": (
        {"src/core/dead.h": "#pragma once\n", "src/core/dead.cpp": '#include "core/dead.h"\n',
         "src/core/dead_property_test.cpp": '#include "core/dead.h"\n'}, "src/core/dead.h", "nothing but its own"),
    "a source that nothing builds": ({"src/net/a.cpp": "\n"}, "src/net/a.cpp", "nothing builds src/net"),
    "a test that nothing builds": ({"src/cli/main_test.cpp": "\n"}, "src/cli/main_test.cpp", "builds no tests"),
    "a long file": ({"src/core/long.cpp": "\n" * 501}, "src/core/long.cpp", "501 lines"),
    "a long class": (
        {"src/core/a.h": "#pragma once\nclass A {\n" + " public:\n  void f();\n" * 100 + "};\n",
         "src/core/a.cpp": '#include "core/a.h"\nvoid A::f() {\n' + "  g();\n" * 250 + "}\n",
         "src/core/b.cpp": '#include "core/a.h"\n'}, "src/core/a.h", "A has 454 lines of code"),
    "an unused arrow": (
        {"src/planner/policy.cpp": '#include "signals/observation.h"\n'}, "tests/tidy/tidy.py",
        "no file of planner uses core"),
    "an unused link": (
        {"src/planner/policy.cpp": '#include "signals/observation.h"\n'}, "CMakeLists.txt",
        "no file of planner uses core"),
    "a README that lists arrows": (
        {"src/core/README.md": "# core\nIt may be included by all.\n"}, "src/core/README.md", "lists which folders"),
    "work that is not done": ({"tools/x.sh": f"# {TO_DO}: later\n"}, "tools/x.sh", TO_DO),
    "a test that is switched off": (
        {"src/core/a_test.cpp": "TEST(A, DISABLE" + "D_B) {}\n"}, "src/core/a_test.cpp", "DISABLE" + "D_"),
    "a test that is skipped": ({"src/core/a_test.cpp": "GTEST_SKI" + "P();\n"}, "src/core/a_test.cpp", "SKI" + "P"),
    "a path of one machine": ({"docs/x.md": f"Run {HOME}\n"}, "docs/x.md", "path of one machine"),
    "a path of one machine in a sample": (
        {"tests/golden/a.txt": f"{HOME}\n"}, "tests/golden/a.txt", "path of one machine"),
    "a control character": ({"src/core/a.cpp": "int a;\x07\n"}, "src/core/a.cpp", "control character"),
    "a tab": ({"src/core/a.cpp": "\tint a;\n"}, "src/core/a.cpp", "a tab"),
    "blanks at the end of a line": ({"docs/a.md": "text  \n"}, "docs/a.md", "blanks"),
    "blanks at the end of a line of a file without a suffix": ({"Makefile": "all: \n"}, "Makefile", "blanks"),
    "no newline at the end": ({"docs/a.md": "text"}, "docs/a.md", "newline"),
    "bytes that are not UTF-8": ({"src/core/a.cpp": b"// \xff\n"}, "src/core/a.cpp", "UTF-8"),
    "a script that does not parse": (
        {"tools/x.sh": "set -euo pipefail\nif true; then\n"}, "tools/x.sh", "does not parse"),
    "a script that goes on after an error": ({"tools/x.sh": "true\n"}, "tools/x.sh", "set -euo pipefail"),
    "a script that cannot be called": ({"tools/x.sh": "set -euo pipefail\n"}, "tools/x.sh", "not executable"),
    "a document that nothing leads to": ({"docs/x.md": "# x\n"}, "docs/x.md", "no other document links to it"),
    "inputs without a fuzz target": (
        {"fuzz/corpus/none/a": "a", "fuzz/README.md": "# fuzz\n"}, "fuzz/corpus/none", "no fuzz/none_fuzz.cpp"),
    "a link to nothing": ({"README.md": "[a](docs/none.md)\n"}, "README.md", "docs/none.md, which is not there"),
    "an image that is missing": ({"README.md": "![a](docs/none.png)\n"}, "README.md", "docs/none.png"),
    "a link by name to nothing": ({"README.md": "[a]\n\n[a]: docs/none.md\n"}, "README.md", "docs/none.md"),
    "an image of HTML that is missing": (
        {"README.md": '<img src="docs/none.png" width="9">\n'}, "README.md", "docs/none.png"),
    "a link to a heading that is not there": (
        {"README.md": "[a](src/core/README.md#speed)\n"}, "README.md", "no such heading"),
    "a folder that does not explain itself": (
        {"src/core/README.md": None, "src/signals/README.md": "# signals\n"}, "src/core/README.md", "is missing"),
    "a fuzz target without inputs": (
        {"fuzz/trace_fuzz.cpp": "\n", "fuzz/README.md": "# fuzz\n"}, "fuzz/trace_fuzz.cpp", "has no inputs"),
}


def write_tree(root, files):
    for name, content in files.items():
        if content is None:
            continue
        path = Path(root) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


def findings_of(files):
    with tempfile.TemporaryDirectory() as root:
        write_tree(root, files)
        return tidy.check(root)[1]


class TidyTest(unittest.TestCase):
    def test_a_tree_that_keeps_the_rules_has_no_findings(self):
        self.assertEqual(findings_of(GOOD), [])

    def test_each_rule_fires_on_a_sample_that_breaks_it(self):
        for rule, (files, named, part) in BAD.items():
            with self.subTest(rule):
                findings = findings_of({**GOOD, **files})
                self.assertTrue(any(name == named and part in what for name, _, what in findings), findings)

    def test_a_finding_names_the_line(self):
        findings = findings_of({**GOOD, "src/core/a.cpp": "int a;\n/* two\nlines */ std::mutex m;\n"})
        self.assertEqual([(name, line) for name, line, _ in findings], [("src/core/a.cpp", 3)])

    def test_samples_may_contain_any_bytes(self):
        odd = {"fuzz/corpus/trace/a.csv": b"a,\xff\x00\t \n", "fuzz/trace_fuzz.cpp": "",
               "src/core/testdata/b.json": "{ \t\n"}
        self.assertEqual(findings_of({**GOOD, **odd, "fuzz/README.md": "# fuzz\n"}), [])

    def test_what_is_for_tests_may_throw_and_use_heavy_libraries(self):
        files = {"src/core/a_testing.h": "#pragma once\n#include <zlib.h>\ninline void f() { throw 1; }\n",
                 "src/core/a_test.cpp": '#include "core/a_testing.h"\nauto text = "XX' 'X";\n',
                 "src/core/b_test.cpp": '#include "core/a_testing.h"\n'}
        self.assertEqual(findings_of({**GOOD, **files}), [])

    def test_the_table_has_no_cycle_and_the_planner_does_not_reach_the_simulation(self):
        def reach(folder, above=()):
            self.assertNotIn(folder, above)
            return {folder}.union(*(reach(used, above + (folder,)) for used in tidy.MAY_USE[folder] if folder != "cli"))
        for folder in tidy.MAY_USE:
            reach(folder)
        self.assertNotIn("simulation", reach("planner"))

    def test_what_git_ignores_and_what_lies_at_the_top_is_not_checked(self):
        with tempfile.TemporaryDirectory() as root:
            clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
            write_tree(root, {**GOOD, ".gitignore": "/scratch/\n"})
            subprocess.run(["git", "init", "-q", root], check=True, env=clean)
            subprocess.run(["git", "-C", root, "add", "."], check=True, env=clean)
            write_tree(root, {"scratch/a.cpp": "\t;\n", "mine.csv": "\t;", "src/core/new.cpp": "\t;\n"})
            self.assertEqual([name for name, _, _ in tidy.check(root)[1]], ["src/core/new.cpp"])

    def test_a_script_that_keeps_the_rules_has_no_findings(self):
        with tempfile.TemporaryDirectory() as root:
            write_tree(root, {**GOOD, "tools/README.md": "# tools\n", "tools/x.sh": "#!/bin/bash\nset -euo pipefail\n"})
            (Path(root) / "tools/x.sh").chmod(0o755)
            self.assertEqual(tidy.check(root)[1], [])


if __name__ == "__main__":
    unittest.main()
