# The short way round: each target installs what is missing (tools/setup.sh), then builds in build/.
# CMake and Ninja do the work; see docs/BUILDING.md for presets and options.
MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := build
.NOTPARALLEL: # all targets build in build/, with JOBS at a time
.PHONY: help setup configure build run cuda docs package test bench format lint clean

JOBS ?= $(shell nproc 2>/dev/null || echo 2)
RUN_ARGS ?=
CMAKE_ARGS ?=
# From the command line only: elsewhere CUDA is where a toolkit is.
CUDA = AUTO
CUDA_ARCHITECTURES =
ifeq ($(filter-out 0,$(JOBS)),)
$(error JOBS is '$(JOBS)'; use 1 or more)
endif
SOURCES = $(shell find include src tests bench examples cmake lab -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' 2>/dev/null)

help: ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup:
	@tools/setup.sh

configure: setup
	@mkdir -p build
	@cmake --preset release -DBRIM_CUDA=$(CUDA) "-DBRIM_CUDA_ARCHITECTURES=$(CUDA_ARCHITECTURES)" $(CMAKE_ARGS) >build/configure.log 2>&1 || { cat build/configure.log; exit 1; }
	@grep -E '^-- (brim|  (found|missing))' build/configure.log

build: configure ## build the library, the command, the tests and the examples
	@ninja -C build -j $(JOBS)

run: configure ## build the command and train the tutorial network (RUN_ARGS="--epochs 1" adds options)
	@ninja -C build -j $(JOBS) command
	@build/bin/brim train tutorial-cnn $(RUN_ARGS)

# These configure anew, whatever was configured for another target before.
cuda: ## build the command and the CUDA backend, for the GPU of this machine or else for all
	@$(MAKE) CUDA=ON configure
	@ninja -C build -j $(JOBS) command

docs: ## make the API reference of the public headers in build/docs/html
	@tools/setup.sh docs
	@tools/api_reference.py build/docs
	@echo "see build/docs/html/index.html"

package: ## build a .deb of the command, the library and its headers in build/package/
	@$(MAKE) "CUDA_ARCHITECTURES=$(or $(CUDA_ARCHITECTURES),75;80;86;87;89;90;100;120)" configure
	@tools/setup.sh package
	@ninja -C build -j $(JOBS) command
	@rm -rf build/package
	@cd build && cpack -B package >package.log || { cat package.log; exit 1; }
	@ls -lh build/package/*.deb

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
