# make demo | test | bench | lint | docs | consumers | stable-abi | corpus | oracle | fuzz | san | tsan | wheel | wheels | wheel-aarch64.
# Each target sets up what it needs; a second call is quick.
VENV   := .venv
JOBS   ?= $(shell nproc)
PY     := $(VENV)/bin/python
BUILD  := build/release
SOURCES := $(shell find ptx python/src python/pyptx tests/*/*.cpp bench examples -type f \
             \( -name '*.cpp' -o -name '*.h' -o -name '*.def' -o -name '*.py' -o -name '*.pyi' -o -name CMakeLists.txt \) 2>/dev/null)

.PHONY: demo test bench lint docs consumers stable-abi corpus corpus-part oracle fuzz san tsan wheel wheels wheel-aarch64 clean
.DEFAULT_GOAL := demo

# System packages, the virtual environment, and what pip needs in it.
$(VENV)/.ready: tools/setup tools/requirements.txt
	tools/setup $(VENV)
	@touch $@

# The library and the Python package; with them its tests, benchmarks and examples, in the same CMake build.
INSTALL := $(PY) -m pip install --quiet --no-build-isolation --no-deps --force-reinstall . -C build-dir=$(BUILD) \
           -C cmake.define.PTX_WERROR=ON
$(VENV)/.library: $(VENV)/.ready pyproject.toml CMakeLists.txt $(SOURCES)
	$(INSTALL) -C cmake.define.PTX_TESTS=OFF -C cmake.define.PTX_BENCH=OFF
	@touch $@
$(VENV)/.installed: $(VENV)/.ready pyproject.toml CMakeLists.txt $(SOURCES)
	$(INSTALL) -C cmake.define.PTX_TESTS=ON -C cmake.define.PTX_BENCH=ON
	@touch $(VENV)/.library $@

demo: $(VENV)/.library
	cmake --build $(BUILD) --target example_rms_norm
	$(PY) tools/demo.py --build $(BUILD)

# The smallest part of the corpus is compiled, and Neovim and Helix are unpacked, before the tests that use them; where that cannot be, they
# say so.
test: $(VENV)/.installed
	-$(PY) tools/corpus build --quick
	-tools/editors
	ctest --test-dir $(BUILD) --output-on-failure --parallel $(JOBS)
	$(PY) -m pytest -q -rs -n $(JOBS) --dist loadfile python/tests tests

# Projects that use the library as others do: installed, as a folder of theirs, fetched. With g++ and clang++.
consumers: $(VENV)/.installed
	tests/consumer/run $(BUILD)

# Whether the Python module keeps to the stable ABI of Python 3.12: with such a Python where there is one.
stable-abi: $(VENV)/.library
	$(PY) tools/stable_abi.py --build $(BUILD)

bench: $(VENV)/.installed
	$(PY) bench/run.py --build $(BUILD)

lint: $(VENV)/.ready
	git ls-files '*.h' '*.cpp' | xargs clang-format-19 --dry-run --Werror
	$(PY) -m ruff check python tools tests bench examples fuzz
	$(PY) -m ruff format --check python tools tests bench examples fuzz

# The site, build/site/html, from docs/ and from what the code says of itself.  Strict: a link that leads nowhere ends it.
SITE := build/site
.venv-docs/.ready: tools/site_requirements.txt
	python3 -m venv .venv-docs
	.venv-docs/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	@touch $@
docs: $(VENV)/.library .venv-docs/.ready
	$(PY) tools/site_pages.py lay-out $(SITE)
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs --quiet build --strict --config-file $(SITE)/mkdocs.yml
	$(PY) tools/site_pages.py check $(SITE)

corpus: $(VENV)/.installed
	$(PY) tools/corpus build
	$(PY) tools/corpus check
	$(PY) tests/corpus/promises.py

corpus-part: $(VENV)/.installed
	$(PY) tools/corpus build --part
	$(PY) tools/corpus check --part

# What check says of instances of all rows, of files as they are, mutated and re-emitted, against the assembler; writes
# docs/isa/agreement.md. Earlier assemblers, for the versions that rows name, come from PyPI. FRACTION=n asks every nth instance.
# All of it, about 1.4 million lines, in JOBS processes.
FRACTION ?= 1
ORACLE   := build/oracle
OLD      := $(ORACLE)/13.0/nvidia/cu13/lib/libnvJitLink.so.13 $(ORACLE)/12.8/nvidia/nvjitlink/lib/libnvJitLink.so.12 \
            $(ORACLE)/12.3/nvidia/nvjitlink/lib/libnvJitLink.so.12
$(OLD) &: $(VENV)/.ready
	$(PY) -m pip install --quiet --no-deps --upgrade --target $(ORACLE)/13.0 nvidia-nvjitlink==13.0.88
	$(PY) -m pip install --quiet --no-deps --upgrade --target $(ORACLE)/12.8 nvidia-nvjitlink-cu12==12.8.93
	$(PY) -m pip install --quiet --no-deps --upgrade --target $(ORACLE)/12.3 nvidia-nvjitlink-cu12==12.3.101

oracle: $(VENV)/.installed $(OLD)
	-$(PY) tests/oracle/mutants.py --verdict $(BUILD)/tests/verdict --rounds 2 > $(ORACLE)/mutants.txt; tail -2 $(ORACLE)/mutants.txt
	-$(PY) tests/oracle/verdicts.py --verdict $(BUILD)/tests/verdict > $(ORACLE)/verdicts.txt; tail -1 $(ORACLE)/verdicts.txt
	$(PY) tests/oracle/reemit.py --verdict $(BUILD)/tests/verdict > $(ORACLE)/reemit.txt; tail -1 $(ORACLE)/reemit.txt
	$(PY) tests/oracle/oracle.py --instances $(BUILD)/tests/oracle_instances --full --fraction $(FRACTION) --jobs $(JOBS) \
	    $(addprefix --old ,$(OLD)) --report $(ORACLE)/report.json; failed=$$?; \
	  $(PY) tests/oracle/agreement.py $(ORACLE)/report.json $(ORACLE)/mutants.txt $(ORACLE)/reemit.txt $(ORACLE)/verdicts.txt && exit $$failed

# The command, calls of kernels, transpiled modules and each target of libFuzzer (of the build of `san`), for
# SECONDS_PER_TARGET (60), JOBS at a time.
SECONDS_PER_TARGET ?= 60
fuzz: $(VENV)/.installed
	mkdir -p build && cmake --preset san > build/fuzz.log 2>&1 || (cat build/fuzz.log; false)
	cmake --build --preset san --target fuzz
	fuzz/run $(BUILD) $(SECONDS_PER_TARGET) $(JOBS)

# The C++ tests under address and undefined-behaviour sanitizers (san), and under the thread sanitizer (tsan). Reports name
# lines; more debug information than that would take an eighth of the compiler's time.
san tsan: $(VENV)/.ready
	cmake --preset $@ && cmake --build --preset $@ && ctest --preset $@ --parallel $(JOBS)

# A wheel of the build that is there, tried where nothing else is installed; and all: dist/ then has the sdist, and a wheel for
# each Python that is found, built from the sdist in isolation (tools/wheels.py).
wheel: $(VENV)/.installed
	$(PY) tools/wheels.py --build $(BUILD)
wheels: $(VENV)/.ready
	$(PY) tools/wheels.py
# One for aarch64, cross-compiled and run by qemu; skipped where Debian's g++-aarch64-linux-gnu or qemu-user is not there.
wheel-aarch64: $(VENV)/.installed
	$(PY) tools/wheel_aarch64.py --build $(BUILD)

clean:
	rm -rf build $(VENV) dist
