# SPDX-License-Identifier: BSD-3-Clause
# The doors of the house; meson does the work. `make help` lists them.
#
#   SANITIZE=address,undefined   build with sanitizers, into build-sanitize/
#   SUITE="unit lint"            test only these suites
#   JOBS=2                       compile with so many processes
#   BENCH="engine hash"          run only these benches
#   SEED=7                       of make faults and make stragglers: what happens when
#   FAULTS="tests/fault/a.json"  play these scenarios only
#   FUZZ_TIME=600                seconds that each fuzz target searches
#   FUZZ="packets host"          search with these targets only
#   PARTS="slowdown detection"   these parts of make stragglers only
#   COMPARE="--hosts 8"          options of make compare (apps/compare/compare.py --help)

SHELL := /bin/sh
JOBS ?= $(shell nproc)
FUZZ_TIME ?= 60
prefix ?= /usr/local
FAULTS ?= $(sort $(wildcard tests/fault/*.json))
PARTS ?= slowdown detection training
ifeq ($(SANITIZE),)
BUILD := build
SETUP :=
else
BUILD := build-sanitize
# -O1: the optimizer's warnings and the sanitizers' code do not go together.
SETUP := -Db_sanitize=$(SANITIZE) -Db_lundef=false -Doptimization=1 \
	-Dc_args=-fno-sanitize-recover=all
export ASAN_OPTIONS := abort_on_error=1:detect_leaks=1:detect_stack_use_after_return=1
export UBSAN_OPTIONS := print_stacktrace=1:halt_on_error=1:abort_on_error=1
endif

.PHONY: help build test faults model fuzz demo bench stragglers compare reference deb format clean install packages

help:
	@echo 'make demo    a switch, four hosts and a verified AllReduce, here, in a few minutes'
	@echo 'make test    all tests (SUITE="unit model eal functional fault instructions fuzz lint", SANITIZE=address,undefined)'
	@echo 'make faults  all scenarios of tests/fault: losses, stragglers, dead hosts and switches, in some minutes'
	@echo 'make model   search all states of the life of a block in larger models than make test does, in some minutes'
	@echo 'make fuzz    search for packets and texts that break something, a minute a target (needs clang)'
	@echo 'make bench   every figure of docs/performance.md on this machine, in a minute or two (BENCH="engine hash")'
	@echo 'make stragglers  slow hosts, waited for and not: docs/compare.md, in five minutes (SEED=7, PARTS="slowdown")'
	@echo 'make reference  what the headers say, as pages, into $(BUILD)/docs/reference/ (needs doxygen)'
	@echo 'make compare Weir beside Open MPI and Gloo on the same links, in ten minutes (COMPARE="--hosts 8 --sizes 1M")'
	@echo 'make deb     a Debian package, into build-deb/'
	@echo 'make install build what users need and install it: make install prefix=/usr DESTDIR=/tmp/x'
	@echo 'make packages install the Debian packages that the build needs'
	@echo 'make build   only build, into $(BUILD)/'
	@echo 'make format  put the C sources into the house format'
	@echo 'make clean   remove build/, build-sanitize/, build-fuzz/, build-deb/ and build-install/'

packages:
	@.ci/install

# What users need, and no tests; build-install/ has a prefix of its own.
install:
	@if [ -f build-install/build.ninja ]; then meson configure build-install --prefix=$(prefix); \
	else meson setup build-install -Dtests=false --prefix=$(prefix); fi >/dev/null
	@ninja -C build-install -j $(JOBS) --quiet
	@DESTDIR=$(DESTDIR) meson install -C build-install --no-rebuild --quiet

# meson is asked to configure once, and again when the options are others than last time.
build: packages
	@set -e; if [ ! -f $(BUILD)/build.ninja ]; then \
		echo 'build: configure $(BUILD)/'; \
		rm -rf $(BUILD); meson setup $(BUILD) $(SETUP); echo '$(SETUP)' >$(BUILD)/.setup; \
	elif [ "$$(cat $(BUILD)/.setup 2>/dev/null)" != "$$(echo '$(SETUP)')" ]; then \
		echo 'build: configure $(BUILD)/ again'; \
		meson configure $(BUILD) $(SETUP); echo '$(SETUP)' >$(BUILD)/.setup; \
	fi
	@echo 'build: compile into $(BUILD)/'
	@ninja -C $(BUILD) -j $(JOBS)

test: build
	@tests/run $(BUILD) $(SUITE)

# The last line is `faults: N passed, N failed, N wrong, N hung`.
faults: build
	@WEIR_BUILD=$(BUILD) apps/faults/weir-faults all $(FAULTS) $(if $(SEED),--seed $(SEED))

model: packages
	@tests/spin/check.py --large

# Beside the tests: what it finds and is kept in tests/fuzz/corpus, they play again.
fuzz: packages
	@command -v clang >/dev/null || { echo 'fuzz: libFuzzer is part of clang: apt-get install clang'; exit 1; }
	@[ -f build-fuzz/build.ninja ] || CC=clang meson setup build-fuzz -Dfuzz=true \
		-Db_sanitize=address,undefined -Db_lundef=false -Doptimization=1 \
		-Dc_args=-fno-sanitize-recover=all
	@ninja -C build-fuzz -j $(JOBS) fuzzers
	@tests/fuzz/search build-fuzz -t $(FUZZ_TIME) $(FUZZ)

demo: build
	@apps/demo/demo.py $(BUILD)

bench: build
	@apps/bench/bench.py $(BUILD) $(BENCH)

stragglers: build
	@apps/stragglers/stragglers.py $(BUILD) $(if $(SEED),--seed $(SEED)) --only $(PARTS) \
		--json $(BUILD)/stragglers/stragglers.json --plots $(BUILD)/stragglers

reference: build
	@ninja -C $(BUILD) reference

# The last line is `compare: 8 hosts 1 MiB: X.XX of the link, Y.YY x the best other`.
compare: build
	@.ci/install packages.compare
	@apps/compare/compare.py $(BUILD) --json $(BUILD)/compare/compare.json --plots $(BUILD)/compare $(COMPARE)

deb: packages
	@JOBS=$(JOBS) .ci/deb build-deb

format:
	@git ls-files -co --exclude-standard '*.c' '*.h' | xargs -r clang-format -i

clean:
	rm -rf build build-sanitize build-fuzz build-deb build-install
