# The short way round: each target installs what is missing (tools/setup.sh), then builds in build/.
# CMake and Ninja do the work; see docs/BUILDING.md for presets and options.
MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := build
.PHONY: help setup build run test bench format lint clean

JOBS ?= $(shell nproc 2>/dev/null || echo 2)
RUN_ARGS ?=
SOURCES = $(shell find include src tests bench examples cmake lab -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' 2>/dev/null)

help: ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup:
	@tools/setup.sh

build: setup ## build the library, the command, the tests and the examples
	@mkdir -p build
	@cmake --preset release >build/configure.log 2>&1 || { cat build/configure.log; exit 1; }
	@grep -E '^-- (brim|  (found|missing))' build/configure.log
	@ninja -C build -j $(JOBS)

run: build ## train the tutorial network on the embedded data set (RUN_ARGS="--epochs 1" adds options)
	@build/bin/brim train tutorial-cnn $(RUN_ARGS)

test: build ## run the tests
	@ctest --test-dir build --output-on-failure -j $(JOBS)

bench: build ## build and run the micro-benchmarks
	@ninja -C build -j $(JOBS) bench
	@for b in build/bench/*_bench; do [ -x $$b ] && { echo "== $$b"; $$b $(BENCH_ARGS) || exit 1; }; done

format: ## format every source file with clang-format
	@tools/setup.sh dev
	@clang-format -i $(SOURCES)

lint: build ## check formatting, include directions and clang-tidy
	@tools/setup.sh dev
	@tools/lint.sh

clean: ## remove everything that was built
	@rm -rf build
