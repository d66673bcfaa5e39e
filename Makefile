# What one can do here. `make help` lists it.
.DEFAULT_GOAL := help
.PHONY: help setup build install deb image wheel up test test-tsan test-cluster soak-cluster engines test-engines soak bench fidelity evaluate judged-by-dynamo golden fuzz format lint hooks clean
JOBS ?= $(shell nproc)
CXX_FILES = $(wildcard $(shell git ls-files --cached --others --exclude-standard -- '*.h' '*.cpp'))
BINARY = build/release/penstock

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup:  ## install what build and tests need (Debian 12; root or sudo), once
	@tools/setup-debian.sh

build: setup  ## build the release program: build/release/penstock
	@tools/build.sh release penstock

install: build  ## install program, systemd units and shell completions below PREFIX (/usr/local); DESTDIR is put before it
	cmake --install build/release --prefix $(or $(PREFIX),/usr/local) --strip --component penstock

deb: build  ## make a Debian package: out/penstock_VERSION_ARCH.deb
	@packaging/deb.sh build/release out

image: build  ## make a container image as an OCI archive, without a container engine: out/penstock-VERSION.oci.tar
	@packaging/image.sh build/release out

wheel: build  ## make a Python wheel that contains the program: out/penstock-VERSION-….whl
	@packaging/wheel.py build/release out

up: build  ## build, then run engines, gateway, planner, load and the live page on this machine; Ctrl-C stops them
	$(BINARY) up

test: setup  ## build and run all tests: release, AddressSanitizer, and ThreadSanitizer for threaded code
	@tools/test.sh release asan tsan:threads

test-tsan: setup  ## build everything with ThreadSanitizer and run all tests
	@tools/test.sh tsan

test-cluster: setup  ## all tests with a real Kubernetes control plane, built if needed; TESTS="fleet_test.py lease_test.py:Leases" only these
	@tools/build.sh release penstock kubernetes_client
	PENSTOCK_CLUSTER=$(or $(PENSTOCK_CLUSTER),yes) PENSTOCK=$(BINARY) PENSTOCK_KUBERNETES_CLIENT=build/release/tests/kubernetes_client \
	  python3 -B tests/cluster/run.py $(TESTS)

engines: setup  ## install engines of others for the tests: vLLM, Dynamo, llama.cpp, llm-d's simulator; ENGINES="vllm dynamo" only these
	@python3 -B tests/engines/install.py $(ENGINES)

test-engines: build  ## the same scenarios with each kind of engine that is installed; ENGINES="vllm dynamo" only these
	PENSTOCK=$(BINARY) python3 -B tests/engines/engines_test.py $(ENGINES)
	@PENSTOCK=$(BINARY) python3 -B tests/engines/dynamo_test.py || [ $$? = 77 ]

soak: build  ## soak tests, which take minutes: idle and slow clients, kills under load, guidellm, ten minutes of random faults
	PENSTOCK=$(BINARY) python3 -B tests/live/soak_test.py
	PENSTOCK=$(BINARY) python3 -B tests/live/history_test.py
	PENSTOCK=$(BINARY) python3 -B tests/live/power_loss_test.py

soak-cluster:  ## faults from a seed on a real Kubernetes control plane with an AddressSanitizer build: SECONDS=300 SEED=1
	@tools/build.sh asan penstock
	PENSTOCK_CLUSTER=yes PENSTOCK=build/asan/penstock PENSTOCK_SOAK_SECONDS=$(or $(SECONDS),300) PENSTOCK_SOAK_SEED=$(or $(SEED),1) \
	  PENSTOCK_CLUSTER_SECONDS=100000 python3 -B tests/cluster/run.py soak.py

bench: setup  ## replay speed compared with Dynamo, then hot paths; BENCH=name runs the benchmarks with this in their name
	@tools/build.sh release penstock benchmarks
	@tools/bench.sh build/release '$(BENCH)'

fidelity: setup  ## write docs/fidelity.md: the engine model compared with Dynamo's replay and with measured engines
	@tools/build.sh release fidelity
	@tools/fidelity.sh build/release/bench/fidelity

evaluate: setup  ## write docs/evaluation.md: Penstock's policy at equal attainment with all others; QUICK=1: only the busiest hours of a day
	@tools/build.sh release evaluate
	@tools/evaluate.sh build/release/bench/evaluate --jobs $(JOBS)

judged-by-dynamo: build  ## write docs/judged-by-dynamo.md: the policies in Dynamo's own replay, which it installs from PyPI; 10 minutes
	@python3 -B bench/dynamo_bridge.py --penstock $(BINARY) --traces "$${PENSTOCK_TRACES:-../shared/traces}" --out docs/judged-by-dynamo.md

golden: setup  ## rewrite the golden files from the current output; review the diff
	@tools/build.sh release
	PENSTOCK_UPDATE_GOLDEN=1 ctest --preset release --quiet -j $(JOBS) || true
	@git status --short

fuzz: setup  ## build the libFuzzer programs (clang) and run each for SECONDS_EACH (30) over its corpus
	@tools/fuzz.sh $(or $(SECONDS_EACH),30)

format:  ## format the C++ files
	@clang-format-14 -i $(CXX_FILES)

lint:  ## tests/tidy and the format of all files; clang-tidy and standalone headers for files changed since SINCE (HEAD) or ALL=1
	@tools/lint.sh

hooks:  ## install a git hook that checks the format and tests/tidy before each commit
	@tools/pre-commit.sh --install

clean:  ## remove all build folders
	rm -rf build report out
