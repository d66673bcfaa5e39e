#!/usr/bin/env python3
"""Checks rules of the tree that no compiler checks: which folder may include which, which calls are banned where,
walks over unordered containers, dead files, long files and classes, left-over marks, comments without a subject, private
words, shell scripts, links of the documents.
Prints `file:line: finding`; exits 1 if there is any.
"""

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import words  # noqa: E402
from named_tests import check_named_tests  # noqa: E402

# Which folder of src/ may use which, in the order of the way through. The one place where this is written down.
MAY_USE = {
    "core": [],
    "options": ["core"],
    "workload": ["core"],
    "engine": ["core"],
    "telemetry": ["core"],
    "signals": ["core", "telemetry"],
    "decision": ["core", "signals"],
    "capacity": ["core", "engine", "signals", "decision"],
    "profiling": ["core", "telemetry", "engine"],
    "forecast": ["core"],
    "planner": ["core", "signals", "decision", "capacity", "forecast"],
    "actuation": ["core", "decision"],
    "routing": ["core"],
    "admission": ["core"],
    "ledger": ["core"],
    "dispatch": ["core", "signals", "admission", "routing", "ledger"],
    "simulation": ["core", "workload", "engine", "signals", "decision", "capacity", "forecast", "planner", "actuation",
                   "routing", "admission", "ledger", "dispatch"],
    "report": ["core", "telemetry", "signals", "decision"],
    "logging": ["core"],
    "net": ["core"],
    "api": ["core"],
    "gateway": ["core", "logging", "net", "api", "telemetry", "routing", "dispatch", "connect"],
    "connect": ["core", "options", "net", "telemetry", "signals", "decision", "actuation", "ledger"],
    "engine_server": ["core", "net", "api", "engine", "telemetry", "signals", "connect"],
    "configuration": ["core", "options", "workload", "engine", "signals", "dispatch", "forecast", "planner", "routing",
                      "simulation", "logging", "connect", "gateway"],
    "replay": ["core", "options", "workload", "engine", "decision", "capacity", "forecast", "planner", "simulation",
               "report", "configuration"],
    "allocation": ["core", "options", "planner", "simulation", "report", "configuration", "replay"],
    "load": ["core", "options", "net", "api", "workload", "signals", "report", "configuration"],
    "controller": ["core", "logging", "net", "telemetry", "signals", "decision", "actuation", "report",
                   "connect"],
    "dashboard": ["core", "logging", "net", "telemetry", "report", "controller"],
    "deployment": ["core", "options"],
}
MAY_USE["cli"] = list(MAY_USE)

LINES_MAX = 500
COLUMNS_MAX = 120  # of a line of C++
CLASS_LINES_MAX = 400  # of one class: its body in the header and its member functions, without blank and comment lines
SKIPPED_FOLDERS = {".git", "build", "node_modules", "report", "out", "__pycache__"}  # in a tree without git, at its top

# What no file of C++ may call: (pattern, files that may, why). A pure folder takes values and returns values; what
# fetches, waits, logs and acts is a shell.
SHELLS = "src/(?:logging|net|gateway|connect|engine_server|load|replay|controller|dashboard|cli)/.*"
OUTSIDE = "(?:bench|fuzz|tests)/.*"
TESTS = r".*_(?:test\.cpp|testing\.h)"
BANNED = [
    (r"\bstd::(?:regex|basic_regex|sregex_iterator|smatch|cmatch)\b|#include <regex>", "",
     "std::regex is slow and overflows the stack; parse by hand"),
    (r"\bstd::\w+_distribution\b", "", "distributions differ between standard libraries; use core::RandomStream"),
    (r"\brandom_device\b|\b(?:std::)?s?rand\(", "", "randomness is a seeded core::RandomStream that is passed in"),
    (r"\bstd::sto\w+\(|\bato[fil]l?\(|\bstrto\w+\(|\bsscanf\(|\bsetlocale\b", "",
     "it hides errors, throws or asks the locale; use std::from_chars"),
    (r"\b(?:system|steady|high_resolution)_clock\b|\bclock_gettime\b|\bgettimeofday\b|\b(?:std::)?time\(nullptr\)",
     # The speed of a simulation is the one figure of a run that the wall has a part in.
     rf"src/core/wall_clock\.(?:h|cpp)|src/simulation/run\.cpp|{SHELLS}|{OUTSIDE}", "time is an argument"),
    (r"\bstd::(?:j?thread|(?:\w+_)?mutex|condition_variable|async|lock_guard|unique_lock|scoped_lock)\b"
     r"|#include <(?:thread|mutex|shared_mutex|condition_variable|future)>", rf"{SHELLS}|{OUTSIDE}",
     "pure folders have no threads"),
    (r"\bstd::(?:cout|cerr|clog)\b|\bfmt::print\(|\b(?:std::)?(?:v?f?printf|f?puts|putchar)\(",
     rf"src/core/result\.cpp|{SHELLS}|{OUTSIDE}", "pure folders do not print"),
    (r"(?<![\w.>])(?:std::)?(?:_?exit|quick_exit|abort)\(", rf"src/core/result\.cpp|{SHELLS}|{OUTSIDE}",
     "errors are values; what cannot happen is a PENSTOCK_ASSERT"),
    (r"\bgetenv\(", rf"{SHELLS}|{OUTSIDE}|{TESTS}", "settings are arguments"),
    (r"\bstd::(?:[io]?fstream|cin)\b|#include <(?:fstream|filesystem|iostream)>|\bfopen\(",
     rf"src/(?:workload|options|report|engine)/.*|{SHELLS}|{OUTSIDE}|{TESTS}",
     "files are read and written in workload, options, report, engine and the shells"),
]
# Libraries that are slow to compile, or leak: they stay in .cpp files.
KEPT_OUT_OF_HEADERS = re.compile(r"nlohmann/json\.hpp|yaml-cpp/|simdjson|boost/|spdlog/|lzma\.h|zstd\.h|zlib\.h")
RETURNS_RESULT = re.compile(r"\s*(?:(?:virtual|static|inline|constexpr|friend)\s+)*(?:core::)?Result<[^;=]*>\s+\w+\(")
# Spelt with brackets so that this file does not contain them.
MARKS = re.compile(r"\b(?:TOD[O]|FIXM[E]|HAC[K])\b|(?<!\")\bXX[X]\b|\bDISABLE[D]_|\bGTEST_SKI[P]\b")
MACHINE_PATHS = re.compile(r"(?<![\w.~})-])/(?:wor[k]|hom[e]|roo[t]|Users)/")
UNSAFE_MATH = re.compile(r"-ffast-mat[h]|-Ofas[t]|-funsafe-math-optimization[s]")

CXX = (".h", ".cpp")
TEXT = CXX + (".py", ".sh", ".md", ".cmake", ".txt", ".js", ".css", ".html", ".json", ".yaml", ".yml", ".csv", ".jsonl")
LENGTH_CHECKED = CXX + (".py", ".sh", ".cmake", ".js", ".css", ".html")
# In documents: [text](target "title"), ![image](target), [name]: target, <img src="target">.
LINK = re.compile(r'\]\(<?([^)>\s]+)>?(?:\s+"[^"]*")?\)|^ {0,3}\[[^\]]+\]:\s+<?([^>\s]+)|\b(?:src|href)="([^"\s]+)"')
SAMPLES = re.compile(r"(?:^|/)(?:corpus|golden|testdata)/")  # bytes that are there to be odd


def list_files(root):
    """Paths below root: what git tracks, and what it would track in folders; other files at the top are
    not checked. Without git, everything but what is built."""
    if (root / ".git").exists():
        def listed(*which):
            command = ["git", "-C", str(root), "ls-files", "-z", "--exclude-standard", *which]
            return set(subprocess.run(command, capture_output=True, check=True).stdout.decode().split("\0"))
        names = listed("--cached") | {name for name in listed("--others") if "/" in name}
        return sorted(name for name in names if name and (root / name).is_file())
    names = []
    for folder, folders, files in os.walk(root):
        at_top = Path(folder) == root
        folders[:] = [f for f in folders if f not in SKIPPED_FOLDERS or (not at_top and f in ("report", "out"))]
        names += [str((Path(folder) / name).relative_to(root)) for name in files]
    return sorted(names)


def blank(match):
    return re.sub(r"[^\n]", " ", match.group(0))


CXX_NOISE = re.compile(r'R"([^()\\ ]{0,16})\((?:.|\n)*?\)\1"|//[^\n]*|/\*(?:.|\n)*?\*/'
                       r'|(?<!#include )"(?:\\.|[^"\\\n])*"' r"|'(?:\\.|[^'\\\n])'")


def code_of(text):
    """C++ without comments and literals; lines stay where they are, and so do the names in #include."""
    return CXX_NOISE.sub(blank, text)


class Tree:
    """The files of one tree, and the findings about them."""

    def __init__(self, root):
        self.root = Path(root).resolve()
        self.files = list_files(self.root)
        self.findings = []
        self.text = {}
        for name in self.files:
            if name.endswith(TEXT) or Path(name).suffix == "":
                data = (self.root / name).read_bytes()
                try:
                    self.text[name] = data.decode()
                except UnicodeDecodeError:
                    if name.endswith(TEXT) and not SAMPLES.search(name):
                        self.add(name, 1, "is not UTF-8")
        self.code = {name: code_of(text) for name, text in self.text.items() if name.endswith(CXX)}
        self.includes = {name: [(number, target) for number, target in includes_of(code)]
                         for name, code in self.code.items()}

    def add(self, name, line, what):
        self.findings.append((name, line, what))

    def each_line(self, names, lines_of=None):
        for name in names:
            for number, line in enumerate((lines_of or self.text)[name].split("\n"), 1):
                yield name, number, line

    def own(self, suffixes=TEXT):
        """Text that people write, without samples."""
        return [name for name in self.text if not SAMPLES.search(name) and
                (name.endswith(suffixes) or (suffixes is TEXT and Path(name).suffix == ""))]


def includes_of(code):
    for number, line in enumerate(code.split("\n"), 1):
        if match := re.match(r'\s*#\s*include\s+["<]([^">]+)[">]', line):
            yield number, match.group(1)


def folder_of(name):
    parts = name.split("/")
    return parts[1] if parts[0] == "src" and len(parts) > 2 else None


def check_arrows(tree):
    """Folders of src/ include what the table allows; CMake links what is included and no more than is allowed."""
    depends = cmake_depends(tree)
    for name in tree.code:
        folder = folder_of(name)
        if folder is None:
            continue
        if folder not in MAY_USE:
            tree.add(name, 1, f"src/{folder} is not in the table of tests/tidy/tidy.py")
            continue
        for number, target in tree.includes[name]:
            used = target.split("/")[0]
            if "/" not in target or used not in MAY_USE or used == folder or "src/" + target not in tree.code:
                continue
            if used not in MAY_USE[folder]:
                tree.add(name, number, f"{folder} may not use {used}: {target}")
            elif folder in depends and used not in depends[folder][1]:
                tree.add(name, number, f"CMakeLists.txt does not list {used} in the DEPENDS of {folder}")
    for folder, (number, listed) in depends.items():
        for used in listed:
            if used not in MAY_USE.get(folder, []):
                tree.add("CMakeLists.txt", number, f"{folder} may not use {used}")
    check_unused_arrows(tree, depends)


def check_unused_arrows(tree, depends):
    """An arrow of the table or a link of CMake that no include needs is removed."""
    uses = {}
    for name, includes in tree.includes.items():
        if folder := folder_of(name):
            uses.setdefault(folder, set()).update(target.split("/")[0] for _, target in includes)
    for folder, used in uses.items():
        number, linked = depends.get(folder, (1, []))
        for other in MAY_USE.get(folder, []):
            if folder != "cli" and other in uses and other not in used:
                tree.add("tests/tidy/tidy.py", 1, f"no file of {folder} uses {other}; remove it from the table")
        for other in linked:
            if other in uses and other not in used:
                tree.add("CMakeLists.txt", number, f"no file of {folder} uses {other}; remove it from its DEPENDS")


def cmake_depends(tree):
    """{folder: (line, [folder it links])} from the penstock_module lines."""
    text = re.sub(r"#[^\n]*", "", tree.text.get("CMakeLists.txt", ""))
    depends = {}
    for match in re.finditer(r"penstock_module\((\w+)([^)]*)\)", text):
        listed = re.search(r"DEPENDS\s+([\w\s]*?)(?:LIBRARIES|$)", match.group(2))
        line = text.count("\n", 0, match.start()) + 1
        depends[match.group(1)] = (line, listed.group(1).split() if listed else [])
    return depends


def check_banned_calls(tree):
    for name, number, line in tree.each_line(tree.code, tree.code):
        for pattern, may, why in BANNED:
            if (match := re.search(pattern, line)) and not re.fullmatch(may, name):
                tree.add(name, number, f"{match.group(0).strip()} is banned here: {why}")
    for name, code in tree.code.items():
        if folder_of(name) and not re.fullmatch(TESTS, name) and (match := re.search(r"\bthrow\b", code)) and not re.search(r"\bcatch\b", code):
            tree.add(name, line_of(code, match), "throws and does not catch; errors are core::Result values")
    cmake = [name for name in tree.text if Path(name).name in ("CMakeLists.txt", "CMakePresets.json", "Makefile")
             or name.endswith(".cmake")]
    for name, number, line in tree.each_line(cmake):
        if UNSAFE_MATH.search(line):
            tree.add(name, number, "unsafe math breaks `same seed, same bytes`")


def line_of(text, match):
    return text.count("\n", 0, match.start()) + 1


def unordered_names(code):
    """Variables and members that are declared as std::unordered_* or tsl::robin_*."""
    for match in re.finditer(r"\b(?:std::unordered|tsl::robin)_\w+\s*<", code):
        at, depth = match.end(), 1
        while at < len(code) and depth > 0:
            depth += {"<": 1, ">": -1}.get(code[at], 0)
            at += 1
        if declared := re.match(r"[\s&*]*(\w+)\s*[;={,)]", code[at:]):
            yield declared.group(1)


def check_order(tree):
    """Unordered containers are not iterated: their order differs between machines, and would reach a result."""
    for name, code in tree.code.items():
        if folder_of(name) is None:
            continue
        header = tree.code.get(re.sub(r"(?:_test)?\.cpp$", ".h", name), "")
        names = set(unordered_names(code)) | set(unordered_names(header))
        for match in re.finditer(r"\bfor\s*\([^;()]*[^:]:\s*(\w+)\)", code):
            if match.group(1) in names:
                tree.add(name, line_of(code, match), f"walks {match.group(1)}, whose order differs between machines")


def check_headers(tree):
    for name in tree.code:
        if not re.fullmatch(f"{TESTS}|{OUTSIDE}", name):
            for number, target in tree.includes[name]:
                if target.endswith("_testing.h"):
                    tree.add(name, number, f"{target} is for tests")
        if not name.endswith(".h"):
            continue
        if "#pragma once" not in tree.code[name].split("\n"):
            tree.add(name, 1, "has no `#pragma once`")
        for number, line in enumerate(tree.code[name].split("\n"), 1):
            if re.match(r"\s*using namespace\b", line):
                tree.add(name, number, "a header opens no namespace for those who include it")
            if RETURNS_RESULT.match(line):
                tree.add(name, number, "a function that returns Result is [[nodiscard]]")
        if folder_of(name) and not re.fullmatch(TESTS, name):
            for number, target in tree.includes[name]:
                if KEPT_OUT_OF_HEADERS.match(target):
                    tree.add(name, number, f"{target} stays out of headers; include it in the .cpp file")


def check_dead_files(tree):
    """A header is used by more than its own source and test; a source belongs to a folder that is built."""
    users = {}
    for name, includes in tree.includes.items():
        for _, target in includes:
            users.setdefault(target, set()).add(name)
            users.setdefault(str(Path(name).parent / target), set()).add(name)
    build = tree.text.get("CMakeLists.txt", "")
    for name in tree.code:
        folder = folder_of(name)
        if folder is None:
            continue
        if name.endswith(".h"):
            stem = re.escape(name[:-2])
            own = re.compile(stem + r"(?:(?:_\w+)?_test)?\.cpp")
            includers = users.get(name[4:], set()) | users.get(name, set())
            if all(own.fullmatch(user) for user in includers):
                tree.add(name, 1, "nothing but its own source and test includes it")
        elif not re.search(rf"penstock_module\({folder}\b|add_subdirectory\(src/{folder}\)", build):
            tree.add(name, 1, f"nothing builds src/{folder}")
        elif name.endswith("_test.cpp") and not re.search(rf"penstock_module\({folder}\b", build):
            if "_test" not in re.sub(r".*EXCLUDE REGEX.*", "", tree.text.get(f"src/{folder}/CMakeLists.txt", "")):
                tree.add(name, 1, f"src/{folder}/CMakeLists.txt builds no tests")


def check_text(tree):
    for name in tree.own(LENGTH_CHECKED):
        length = tree.text[name].count("\n")
        if length > LINES_MAX:
            tree.add(name, LINES_MAX + 1, f"has {length} lines; {LINES_MAX} at most")
    for name, number, line in tree.each_line(tree.text):
        if match := MACHINE_PATHS.search(line):
            tree.add(name, number, f"{match.group(0)}… is a path of one machine")
    for name, number, line in tree.each_line(tree.own()):
        if name.endswith("package-lock.json"):
            continue
        if match := MARKS.search(line):
            tree.add(name, number, f"{match.group(0)} marks work that is not done; do it, or open an issue")
        if re.search(r"[\x00-\x08\x0b-\x1f\x7f]", line):
            tree.add(name, number, "has a control character")
        if name.endswith(CXX + (".py",)) and "\t" in line:
            tree.add(name, number, "has a tab")
        if line != line.rstrip() and not name.endswith((".csv", ".jsonl")):
            tree.add(name, number, "has blanks at its end")
    for name in tree.own():
        if tree.text[name] and not tree.text[name].endswith("\n"):
            tree.add(name, tree.text[name].count("\n") + 1, "does not end with a newline")


def check_comments(tree):
    """A comment is a sentence with its own subject, and lines of C++ have a limit."""
    for name in tree.own(CXX):
        above = ""
        for number, line in enumerate(tree.text[name].split("\n"), 1):
            if len(line) > COLUMNS_MAX:
                tree.add(name, number, f"has {len(line)} columns; {COLUMNS_MAX} at most")
            if word := words.fragment(line, above):
                tree.add(name, number, f"a comment that begins with \"{word}\" has no subject; write a sentence")
            above = line


CLASS_HEAD = re.compile(r"^(?:class|struct)\s+(?:alignas\([^)]*\)\s*)?(\w+)\b[^;{]*\{", flags=re.M)
MEMBER_HEAD = re.compile(r"^(?!using\b|namespace\b|class\b|struct\b|enum\b|#|//)[^\n;={}]*?\b(\w+)::[~\w:]+[^;]*?\{[^\n]*$", flags=re.M)


def lines_to_end(code, begin):
    """Lines with code from `begin`, which starts a line, to the brace that closes at the start of a line."""
    end = re.compile(r"^\}", flags=re.M).search(code, begin)
    text = code[begin:end.end() if end else len(code)]
    return sum(1 for line in text.split("\n") if line.strip())


def check_classes(tree):
    """No class is longer than CLASS_LINES_MAX, however many files it is spread over."""
    found, sizes = {}, {}
    for name, code in tree.code.items():
        if not folder_of(name) or re.fullmatch(TESTS, name):
            continue
        folder = folder_of(name)
        for match in CLASS_HEAD.finditer(code):
            line_end = code.find("\n", match.start())
            whole = "}" in code[match.end():line_end]  # on one line
            size = 1 if whole else lines_to_end(code, match.start())
            key = folder, match.group(1)
            found.setdefault(key, (name, line_of(code, match)))
            sizes[key] = sizes.get(key, 0) + size
    for name, code in tree.code.items():
        if not folder_of(name) or not name.endswith(".cpp") or re.fullmatch(TESTS, name):
            continue
        for match in MEMBER_HEAD.finditer(code):
            key = folder_of(name), match.group(1)
            if key in found:
                whole = match.group(0).rstrip().endswith("}")
                sizes[key] += match.group(0).count("\n") + 1 if whole else lines_to_end(code, match.start())
    for key, (name, line) in found.items():
        if sizes[key] > CLASS_LINES_MAX:
            tree.add(name, line, f"{key[1]} has {sizes[key]} lines of code with its sources; {CLASS_LINES_MAX} at most")


def check_scripts(tree):
    """Shell scripts parse, stop at the first error, and can be called by name."""
    for name, text in tree.text.items():
        if SAMPLES.search(name) or not (name.endswith(".sh") or re.match(r"#!.*\b(?:ba)?sh\b", text)):
            continue
        parsed = subprocess.run(["bash", "-n"], input=text.encode(), capture_output=True)
        if parsed.returncode != 0:
            tree.add(name, 1, "does not parse: " + parsed.stderr.decode(errors="replace").strip().split("\n")[0])
        if not re.search(r"^set -e?uo pipefail$", text, flags=re.M):
            tree.add(name, 1, "has no `set -euo pipefail`")
        if not os.access(tree.root / name, os.X_OK):
            tree.add(name, 1, "is not executable")


def anchors_of(text):
    """The anchors that GitHub gives to the headings of a document."""
    anchors = set()
    for heading in re.findall(r"^#{1,6}\s+(.*?)\s*#*$", re.sub(r"```.*?```", "", text, flags=re.S), flags=re.M):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").lower()
        anchors.add(re.sub(r"[^\w\- ]", "", plain).replace(" ", "-"))
    return anchors


def check_links(tree):
    present = set(tree.files) | {str(parent) for name in tree.files for parent in Path(name).parents}
    reached = set()
    for name in tree.own((".md",)):
        prose = re.sub(r"```.*?```", blank, tree.text[name], flags=re.S)
        for number, line in enumerate(prose.split("\n"), 1):
            for target in map("".join, LINK.findall(re.sub(r"`[^`]*`", "", line))):
                if re.match(r"[a-z][a-z+.-]*:", target):
                    continue
                path, _, anchor = target.partition("#")
                linked = os.path.normpath(os.path.join(os.path.dirname(name), path)) if path else name
                if linked != name:
                    reached |= {linked, linked + "/README.md"}
                if linked not in present:
                    tree.add(name, number, f"links to {target}, which is not there")
                elif anchor and linked.endswith(".md") and anchor not in anchors_of(tree.text[linked]):
                    tree.add(name, number, f"links to {target}, but that file has no such heading")
    for name in tree.own((".md",)):
        if name.startswith("docs/") and name not in reached:
            tree.add(name, 1, "no other document links to it")


ARROWS_IN_WORDS = re.compile(r"may be (?:included|used) by|may (?:include|use) it|\bUses (?:only )?`\w+`|Only `\w+` may")


def check_folders(tree):
    """Each room explains itself, and each fuzz target starts from something."""
    rooms = {"/".join(name.split("/")[:2]) for name in tree.files if folder_of(name)}
    rooms |= {name.split("/")[0] for name in tree.files} & {"bench", "fuzz", "tests", "tools", "web"}
    for room in sorted(rooms):
        readme = room + "/README.md"
        if readme not in tree.text:
            tree.add(readme, 1, "is missing: purpose and main types")
        elif match := re.search(ARROWS_IN_WORDS, tree.text[readme]):
            tree.add(readme, line_of(tree.text[readme], match),
                     "lists which folders use which; the table of tests/tidy/tidy.py holds that")
    for name in tree.code:
        if match := re.fullmatch(r"fuzz/(\w+)_fuzz\.cpp", name):
            corpus = f"fuzz/corpus/{match.group(1)}/"
            if not any(file.startswith(corpus) for file in tree.files):
                tree.add(name, 1, f"has no inputs in {corpus}")
    for corpus in sorted({name.split("/")[2] for name in tree.files if re.match(r"fuzz/corpus/[^/]+/", name)}):
        if f"fuzz/{corpus}_fuzz.cpp" not in tree.code:
            tree.add(f"fuzz/corpus/{corpus}", 1, f"there is no fuzz/{corpus}_fuzz.cpp that reads it")


def check_words(tree):
    for name, number, line in tree.each_line([name for name in tree.own() if not name.endswith("package-lock.json")]):
        for word, better in words.find(name, line):
            tree.add(name, number, f"\"{word}\" is a private word; write: {better}")


CHECKS = [check_arrows, check_banned_calls, check_order, check_headers, check_dead_files, check_classes, check_text,
          check_comments, check_words, check_scripts, check_links, check_folders,
          check_named_tests]


def check(root):
    tree = Tree(root)
    for rule in CHECKS:
        rule(tree)
    return tree, sorted(set(tree.findings))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", default=Path(__file__).resolve().parents[2], help="the tree to check")
    tree, findings = check(parser.parse_args().root)
    for name, line, what in findings:
        print(f"{name}:{line}: {what}")
    print(f"tidy: {len(tree.files)} files, {len(findings)} findings")
    return 1 if findings or not tree.code else 0


if __name__ == "__main__":
    sys.exit(main())
