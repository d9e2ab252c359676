# SPDX-License-Identifier: BSD-3-Clause
# Everything that people call by hand; meson does the work. `make help` lists it.
#
#   prefix=/usr DESTDIR=/tmp/x   where `make install` puts things
#   SANITIZE=address,undefined   build with sanitizers, into build-sanitize/
#   SANITIZE=thread              test SUITE=eal: engines of 2 and 4 workers, in build-thread/
#   SUITE="unit lint"            run only these test suites (test, coverage)
#   BATCH=1                      test, faults, fuzz: switches with this `workers.batch`
#   TEST_JOBS=4                  how many tests run at a time (default: three per CPU)
#   COMPONENTS="host"            build these components only: host, switch, tools (build, install)
#   JOBS=2                       how many compilers run at a time
#   BENCH="engine hash"          run only these benches
#   SEED=7                       the seed of make faults, make soak, make stragglers and make train
#   FAULTS="tests/fault/a.json"  run only these scenarios (docs/faults.md)
#   FUZZ_TIME=600                seconds of search for each fuzz target
#   FUZZ="packets host"          search with these targets only
#   SOAK="model faults"          these parts of make soak only
#   PARTS="slowdown detection"   these parts of make stragglers only
#   COMPARE="--hosts 8"          options of make compare (apps/compare/compare.py --help)

SHELL := /bin/sh
JOBS ?= $(shell nproc)
FUZZ_TIME ?= 60
prefix ?= /usr/local
FAULTS ?= $(sort $(wildcard tests/fault/*.json))
SOAK ?= model faults fuzz sanitize
PARTS ?= slowdown detection training
comma := ,
empty :=
SETUP := -Dcomponents=$(subst $(empty) $(empty),$(comma),$(strip $(COMPONENTS)))
ifeq ($(SANITIZE),)
BUILD := build
else
BUILD := $(if $(findstring thread,$(SANITIZE)),build-thread,build-sanitize)
# -O1: the optimizer's warnings and the sanitizers' code do not go together.
SETUP += -Db_sanitize=$(SANITIZE) -Db_lundef=false -Doptimization=1 \
	-Dc_args=-fno-sanitize-recover=all
export ASAN_OPTIONS := abort_on_error=1:detect_leaks=1:detect_stack_use_after_return=1
export TSAN_OPTIONS := history_size=7:suppressions=$(CURDIR)/tests/thread/suppressions
export UBSAN_OPTIONS := print_stacktrace=1:halt_on_error=1:abort_on_error=1
endif

ifneq ($(BATCH),)
export WEIR_BATCH := $(BATCH)
endif

.PHONY: help build install test test-nic test-other faults model fuzz coverage demo demo-tree bench stragglers compare train reference deb format keys clean packages \
	wheel packages-test build-all soak soak-model soak-faults soak-fuzz soak-sanitize

help:
	@echo 'make demo        a switch, four hosts and a verified AllReduce on this machine, in about a minute'
	@echo 'make demo-tree   two such racks and two spines: eight hosts, verified, and the bytes on each link'
	@echo 'make build       build the programs into $(BUILD)/'
	@echo 'make build-all   build the programs and the tests'
	@echo 'make install     install them into /usr/local (prefix=/usr DESTDIR=/tmp/x)'
	@echo 'make test        all tests, in about a quarter of an hour (SUITE="unit model eal functional ports hostile fault instructions fuzz lint")'
	@echo 'make coverage    run the tests in a build that counts lines, and print how many of each part they ran (needs gcovr)'
	@echo 'make test-nic    Weir on network cards with vfio-pci, in a guest of QEMU, in about five minutes'
	@echo 'make test-other  the suites unit, eal and functional on Debian 13, in a root that debootstrap makes (RELEASE=trixie)'
	@echo 'make soak        what takes too long for make test, in under two hours (SOAK="model faults fuzz sanitize")'
	@echo 'make faults      all scenarios of tests/fault: losses, stragglers, dead hosts and switches, in some minutes'
	@echo 'make model       search larger models of the life of a block than make test does, in some minutes'
	@echo 'make fuzz        search for packets and texts that break something, a minute for each target (needs clang)'
	@echo 'make bench       the figures of docs/benchmarks.md on this machine, in three minutes (BENCH="engine hash")'
	@echo 'make stragglers  slow hosts, waited for and not: docs/stragglers.md, in five minutes (SEED=7, PARTS="slowdown")'
	@echo 'make compare     Weir beside Open MPI, Gloo and PyTorch on the same links, in about twenty-five minutes (COMPARE="--hosts 8 --sizes 1M")'
	@echo 'make train       PyTorch with and without slow hosts, on gloo and on Weir, in two minutes (SEED=7)'
	@echo 'make reference   the headers as pages, into $(BUILD)/docs/reference/'
	@echo 'make deb         Debian packages, into build-deb/'
	@echo 'make wheel       the Python package for pip, into $(BUILD)/wheel/'
	@echo 'make packages    install the Debian packages that the build needs'
	@echo 'make keys        rewrite what documents say of configuration keys, docs/vectors.json, and what the Python package knows of weir.h'
	@echo 'make format      format the C sources'
	@echo 'make clean       remove build/, build-sanitize/, build-thread/, build-fuzz/, build-coverage/, build-deb/, build-release/, build-install/ and build-nic/'

packages:
	@.ci/install

packages-test:
	@.ci/install packages packages.test packages.wheel

# The programs, without the tests: without COMPONENTS, what the installed packages allow.
build:
	@.ci/install $(if $(filter host,$(COMPONENTS)),$(if $(filter-out host,$(COMPONENTS)),packages,packages.host)) || \
		$(if $(COMPONENTS),exit 1,echo 'build: packages are missing: building what can be built')
	@JOBS=$(JOBS) .ci/build $(BUILD) programs $(SETUP)

# What users need, and no tests; build-install/ has a prefix of its own.
install:
	@JOBS=$(JOBS) .ci/build build-install install --prefix=$(prefix) $(SETUP)
	@DESTDIR=$(DESTDIR) meson install -C build-install --no-rebuild --quiet

# With the tests.
build-all: packages-test
	@JOBS=$(JOBS) .ci/build $(BUILD) all $(SETUP)

test: build-all
	@tests/run $(BUILD) $(SUITE)

# Lines that are compiled into several programs count once, as covered if a test of one of them ran them. build-coverage/FOLDER.txt
# lists the lines of each file that no test ran.
COVERED := ppe rmw hashengine pktbuf ctrl apps/libweir apps/verify
coverage: packages-test
	@command -v gcovr >/dev/null || { echo 'coverage: gcovr is missing: apt-get install gcovr'; exit 1; }
	@JOBS=$(JOBS) .ci/build build-coverage all -Db_coverage=true -Dc_args=-fprofile-update=atomic
	@find build-coverage -name '*.gcda' -delete
	@tests/run build-coverage $(or $(SUITE),unit model eal functional ports hostile fault fuzz) || \
		echo 'coverage: some tests failed'
	@gcovr --root . build-coverage --json build-coverage/coverage.json $(foreach room,$(COVERED),--filter '$(room)/')
	@for room in $(COVERED); do \
		gcovr --root . --add-tracefile build-coverage/coverage.json --filter "$$room/" --print-summary \
			--output build-coverage/$$(basename $$room).txt | sed -n "s|^lines:|$$room|p"; \
	done

# Weir on network cards, in a guest: docs/testing.md.
test-nic: packages-test
	@.ci/install packages.nic
	@.ci/kernel build-nic/kernel
	@JOBS=$(JOBS) .ci/build $(BUILD) nic $(SETUP)
	@tests/run $(BUILD) nic

test-other:
	@.ci/other-release $(or $(RELEASE),trixie) $(SUITE)

# What takes too long for `make test`. A part that fails does not stop the others.
soak: export WEIR_SEED := $(or $(SEED),$(shell od -An -N4 -tu4 /dev/urandom | tr -d ' '))
soak: packages-test
	@echo "soak: $(SOAK): about 100 minutes in all on two CPUs; make soak SEED=$$WEIR_SEED repeats it"
	@echo '      (model 15, faults 20, fuzz 15, sanitize 50)'
	@failed=; for part in $(SOAK); do \
		echo "soak: $$(date +%T) $$part"; \
		$(MAKE) --no-print-directory soak-$$part || failed="$$failed $$part"; \
	done; echo "soak: $$(date +%T) failed:$${failed:- nothing}"; [ -z "$$failed" ]

soak-model: model
soak-faults:
	@$(MAKE) --no-print-directory faults $(if $(WEIR_SEED),SEED=$(WEIR_SEED))
	@$(MAKE) --no-print-directory faults BATCH=1 $(if $(WEIR_SEED),SEED=$(WEIR_SEED))
soak-fuzz:
	@$(MAKE) --no-print-directory fuzz FUZZ_TIME=300
soak-sanitize:
	@$(MAKE) --no-print-directory test SANITIZE=address,undefined

# The last line is `faults: N passed, N failed, N wrong, N hung`.
faults: build
	@WEIR_BUILD=$(BUILD) apps/faults/weir-faults all $(FAULTS) $(if $(SEED),--seed $(SEED))

model: packages-test
	@tests/spin/check.py --large
	@tests/spin/check.py --tree --large

# The tests play what it found and was kept in tests/fuzz/corpus.
fuzz: packages-test
	@command -v clang >/dev/null || { echo 'fuzz: libFuzzer is part of clang: apt-get install clang'; exit 1; }
	@[ -f build-fuzz/build.ninja ] || CC=clang meson setup build-fuzz -Dfuzz=true \
		-Db_sanitize=address,undefined -Db_lundef=false -Doptimization=1 \
		-Dc_args=-fno-sanitize-recover=all
	@ninja -C build-fuzz -j $(JOBS) fuzzers
	@tests/fuzz/search build-fuzz -t $(FUZZ_TIME) $(FUZZ)

# Compiles what the demo runs, and nothing else.
demo: packages
	@JOBS=$(JOBS) .ci/build $(BUILD) demo $(SETUP)
	@apps/demo/demo.py $(BUILD)

demo-tree: packages
	@JOBS=$(JOBS) .ci/build $(BUILD) demo $(SETUP)
	@apps/demo/demo_tree.py $(BUILD)

bench: build packages-test
	@apps/bench/bench.py $(BUILD) $(BENCH)

stragglers: build packages-test
	@apps/stragglers/stragglers.py $(BUILD) $(if $(SEED),--seed $(SEED)) --only $(PARTS) \
		--json=$(BUILD)/stragglers/stragglers.json --plots $(BUILD)/stragglers

reference: build packages-test
	@ninja -C $(BUILD) reference

# The last lines are `compare: 2 racks of 4 hosts 1 MiB: X.XX x the best other`, `compare: 8 hosts 1 MiB through MPI: X.XX x plain
# Open MPI`, `compare: 8 hosts 1 MiB through torch: X.XX x gloo` and `compare: 8 hosts 1 MiB: X.XX of the link, Y.YY x the best other`.
compare: packages
	@.ci/install packages.test packages.compare packages.torch
	@JOBS=$(JOBS) .ci/build $(BUILD) programs $(SETUP)
	@apps/compare/compare.py $(BUILD) --json=$(BUILD)/compare/compare.json --plots $(BUILD)/compare $(COMPARE)

# The last line is `train: 30 % stragglers: X.XX x faster to accuracy than waiting, loss equal to gloo: yes`.
train: build packages-test
	@.ci/install packages.torch
	@apps/train/train.py $(BUILD) $(if $(SEED),--seed $(SEED)) \
		--json=$(BUILD)/train/train.json --plots $(BUILD)/train

deb:
	@.ci/install packages packages.deb
	@JOBS=$(JOBS) .ci/deb build-deb

# Needs no network, nor does `pip install` of the result.
wheel:
	@.ci/install packages.host packages.wheel
	@JOBS=$(JOBS) .ci/build $(BUILD) programs $(SETUP)
	@.ci/wheel $(BUILD) $(BUILD)/wheel

format:
	@git ls-files -co --exclude-standard '*.c' '*.h' | xargs -r clang-format -i

clean:
	rm -rf build build-sanitize build-thread build-fuzz build-coverage build-deb build-release build-install build-nic

# What documents say of keys and packets comes from the lists in the source.
keys: packages
	@[ -f $(BUILD)/build.ninja ] || meson setup $(BUILD) $(SETUP)
	@ninja -C $(BUILD) keys tests/model/weir-vectors
	@$(BUILD)/tests/model/weir-vectors >$(BUILD)/vectors.json && mv $(BUILD)/vectors.json docs/vectors.json
	@apps/python/generate.py
