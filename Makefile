# Driftscope: set-up, the app and its checks. Needs Python 3.11 or newer, pip and make.
#
# A stamp in .venv/.stamps says that a step was finished for just these requirements; its name holds their checksum.
# An install first removes all stamps of installs, so one that is broken off leaves none behind.

PORT ?=
PYTHON =
HASHED =

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help run prepare set-up test lint soak faults lock licences audit bench gpu demo demo-coverage demo-served demo-traces demo-logs claims lost-third parity demo-parity vllm vllm-environment gallery clean FORCE

PY := .venv/bin/python
PIP_INSTALL := $(PY) -m pip install --no-input --disable-pip-version-check
STAMPS := .venv/.stamps
sum = $(shell cat $(1) 2>/dev/null | cksum | tr -cs '0-9\n' '-')
RUN := $(STAMPS)/run-$(call sum,requirements.txt requirements-stmol.txt)
DEV := $(STAMPS)/dev-$(call sum,requirements.txt requirements-dev.txt)
BENCH := $(STAMPS)/bench-$(call sum,requirements.txt requirements-bench.txt)
PARITY := $(STAMPS)/parity-$(call sum,requirements.txt requirements-parity.txt)
VLLM := .venv-vllm/installed-$(call sum,requirements-vllm.txt requirements-vllm.lock)
PREPARED := $(STAMPS)/prepared-$(call sum,requirements.txt engine/assets.py)

# A broken environment (its Python is gone, or its making was broken off) is made again, whatever the stamps say.
# Half an environment falls back to the system's packages, so pip has to be its own.
VENV := $(shell $(PY) -c 'import pip, sys; print(sys.version_info >= (3, 11) and pip.__file__.startswith(sys.prefix) \
    and sys.prefix != sys.base_prefix)' 2>/dev/null)
ifneq ($(VENV),True)
$(RUN) $(DEV) $(BENCH) $(PARITY) $(PREPARED): FORCE
endif

define make_venv
python=; found=; \
for name in $(if $(PYTHON),"$(PYTHON)",python3.11 python3 python); do \
  found="$$found $$name ($$("$$name" -V 2>/dev/null || echo none))"; \
  if "$$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then python=$$name; break; fi; \
done; \
if test -z "$$python"; then \
  echo "Driftscope needs Python 3.11 or newer. Found:$$found." >&2; \
  echo "Install Python 3.11, or name one that is there: make run PYTHON=/path/to/python3.11" >&2; exit 1; \
fi; \
if ! "$$python" -c 'import ensurepip, venv' 2>/dev/null; then \
  echo "$$python cannot make a virtual environment: its venv module is missing (Debian: apt-get install python3-venv)." >&2; \
  exit 1; \
fi; \
echo "Making .venv with $$("$$python" -V)"; \
"$$python" -m venv --clear .venv
endef

help:
	@echo "make run      set up once, then open the app (PORT=8600 for another port)"
	@echo "make prepare  build the tokenizers' caches and fetch 3Dmol.js, again if needed"
	@echo "make set-up   what make test and make lint need, without running them"
	@echo "make test     set up once, then run the tests"
	@echo "make soak     the large property tests at full size"
	@echo "make lint     ruff and mypy"
	@echo "make faults   plant faults and count those that the tests catch (hours)"
	@echo "make lock     write requirements*.lock: a hash for each package (HASHED=1 make ... installs by them)"
	@echo "make licences the licences of all that is installed and shipped"
	@echo "make audit    known vulnerabilities of what the app's two locks name (asks the net)"
	@echo "make lost-third MODEL=ALIAS  what of a checkpoint's coverage each LP costs, and why (an hour or two; resumes)"
	@echo "make bench    every benchmark in tools/bench/, but for make gpu"
	@echo "make gpu      on a machine with a CUDA card, 8 minutes: the CPU's tokens? and how long is a step (PY=python3: no .venv)"
	@echo "make demo     rebuild the demo store in data/demo/"
	@echo "make claims   check the reports' claims again and save the verdicts in data/claims/"
	@echo "make gallery  twelve reports in gallery/, one for each finding that the reports' conclusions rest on"
	@echo "make parity   build llama.cpp (minutes), and compare the embedded models in it with ours"
	@echo "make vllm     our LPs in a real vLLM, on processors alone: an environment of its own (3.4 GB, minutes), a server, tests"
	@echo "make clean    remove the environment, static/ and all caches here; data/ stays"
	@echo "PYTHON=/path/to/python3 names the Python to make the environment from."

run: $(RUN) $(PREPARED)
	@$(PY) -m streamlit run app.py $(if $(PORT),--server.port=$(PORT))

prepare: $(RUN)
	@$(PY) -m engine prepare
	@touch $(PREPARED)

set-up: $(DEV) $(PREPARED)

# A process that is done takes tests from the end of another's list.
WORKERS = -n auto --dist=worksteal
# Servers and commands that tests start find our modules compiled: compiling them takes longer than most tests.
test soak: export PYTHONDONTWRITEBYTECODE =

test: $(DEV) $(PREPARED)
	@$(PY) -m pytest $(WORKERS) --durations=5

soak: $(DEV) $(PREPARED)
	@DRIFTSCOPE_SOAK=1 $(PY) -m pytest $(WORKERS) -m soak --durations=5 -o faulthandler_timeout=1100

# Not part of CI. tests/faults/results.jsonl has the last run's verdicts.
faults: $(DEV) $(PREPARED)
	@$(PY) -m tests.faults.check --out tests/faults/results.jsonl

lint: $(DEV)
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy

lock: $(RUN)
	@$(PY) -m tests.supply_chain lock

licences: $(RUN)
	@$(PY) -m tests.supply_chain licences

# pip-audit asks the index and OSV on the net; it has no list of its own to work from.
audit: $(RUN)
	@folder="$$($(PY) -c 'from engine.paths import cache_folder; print(cache_folder() / "audit")')" && \
	  $(PY) -m venv --clear "$$folder" && \
	  "$$folder/bin/python" -m pip install --no-input --disable-pip-version-check --quiet pip-audit && \
	  "$$folder/bin/pip-audit" --strict --disable-pip --require-hashes -r requirements.lock -r requirements-stmol.lock

# One thread: the other core judges.
DEMO_RUN = --threads 1 --sample-size 64 --keep-steps 16 --candidates 5 --rmsd 10 --strain --store data/demo
DEMO_RUNS = --model demo-qwen --model demo-llama --lp none --lp group-v2.1 --lp group-v4.3 --lp exact --lp guarded --lp shaped \
  $(DEMO_RUN) --label "ships with the project"
# The group's v4.3 on the descriptors that demo-qwen was trained on: the effect of descriptors alone.
DEMO_PLAIN = --model demo-qwen --lp group-v4.3 --descriptors plain $(DEMO_RUN) --label "plain descriptors"

# The same molecules in numbers of bins.
DEMO_BINS = --model demo-bins --lp none --lp group-v2.1 --lp exact --lp shaped $(DEMO_RUN) --label "numbers of bins"

# Windows of the runs' first molecules, written again, so that the runs keep the times that they took without a profiler.
DEMO_TRACES = --seed 0 --batch-size 4 --profile --profile-steps 64 --profile-sums --store data/demo

# One molecule at a time: then a log's entries stand text by text, as another engine's do.
DEMO_LOGGED = "CC=O" "CCO" "CC(=O)O" "CC(N)=O" "CCN" "COC" "CC\#N" "C=CC" "CC(C)O" "CC(C)=O" "OCCO" "CNC=O" "CCCl" "CCS" \
  "c1ccoc1" "c1cc[nH]c1"
DEMO_LOG = --lp none --sampling greedy --batch-size 1 --log-logits 8

demo: $(RUN) $(PREPARED)
	@rm -rf data/demo/runs data/demo/staging
	@$(PY) -m tools.reported --into data/demo
	@$(PY) -m engine run $(DEMO_RUNS)
	@$(PY) -m engine run $(DEMO_PLAIN)
	@$(PY) -m engine run $(DEMO_BINS)
	@for run in data/demo/runs/run_id=2*; do run="$${run#*run_id=}"; \
	  $(PY) -m engine cost-of-lp "$$run" --samples 16 --store data/demo && \
	  $(PY) -m engine explain "$$run" --store data/demo && \
	  $(PY) -m engine lost "$$run" --store data/demo || exit 1; \
	done
	@if test -x .venv-vllm/bin/python; then $(MAKE) --no-print-directory demo-served; \
	  else echo "The runs of four engines need vLLM: make vllm-environment demo-served" >&2; fi
	@$(MAKE) --no-print-directory demo-coverage demo-traces demo-logs

# The same molecules in vLLM with our plugin, in vLLM with its own grammar, and in plain generate. Times are told from a
# machine that does nothing else.
demo-served: $(RUN) $(PREPARED) $(VLLM)
	@$(PY) -m tools.demo_served --into data/demo
	@rm -rf data/demo/staging

# RMSDs of the runs' conformers, of which Compare's Coverage and `evaluate` compute COV and MAT at once.
demo-coverage: $(RUN) $(PREPARED)
	@rm -f data/demo/rmsd.arrays
	@$(PY) -m tools.demo_coverage --into data/demo
	@rm -rf data/demo/staging

demo-traces: $(RUN) $(PREPARED)
	@rm -rf data/demo/traces data/demo/staging
	@$(PY) -m tools.reported --into data/demo
	@for model in demo-qwen demo-llama; do for lp in none group-v2.1 exact; do \
	  head -n 4 data/heldout.smi | $(PY) -m engine generate - --model $$model --lp $$lp $(DEMO_TRACES) \
	    --profile-run "$$model-final-$$lp" --json >/dev/null || exit 1; \
	done; done
	@rm -rf data/demo/staging

# Those of another engine stay: they come from where that engine is.
demo-logs: $(RUN) $(PREPARED)
	@rm -rf data/demo/logit_logs/log_id=driftscope-* data/demo/staging
	@folder=$$(mktemp -d) && for model in demo-qwen demo-llama; do \
	  $(PY) -m engine generate $(DEMO_LOGGED) --model $$model $(DEMO_LOG) --logit-log "$$folder/$$model.jsonl.gz" \
	    --json >/dev/null && \
	  $(PY) -m engine logits add "$$folder/$$model.jsonl.gz" --store data/demo --label "ships with the project" || exit 1; \
	done && rm -rf "$$folder"
	@rm -rf data/demo/staging

MODEL = demo-qwen
lost-third: $(RUN) $(PREPARED)
	@$(PY) -m tools.lost_third --model $(MODEL)

claims: $(RUN) $(PREPARED)
	@$(PY) -m engine claims --save

gallery: $(RUN) $(PREPARED)
	@$(PY) -m engine bundle --gallery gallery

bench: $(BENCH) $(PREPARED)
	@failed=; \
	for file in $(filter-out %/card.py,$(wildcard tools/bench/[!_]*.py)); do \
	  name=$$(basename "$$file" .py); echo "== tools/bench/$$name.py"; \
	  $(PY) -m "tools.bench.$$name" || failed="$$failed $$name"; \
	done; \
	test -z "$$failed" || { echo "failed:$$failed" >&2; exit 1; }

# With a Python of one's own (PY=python3) nothing is installed: docs/benchmarks.md lists what it needs.
gpu: $(if $(filter .venv/bin/python,$(PY)),$(RUN) $(PREPARED))
	@$(PY) -m tools.bench.card $(ARGS)

parity: $(PARITY) $(PREPARED)
	@$(PY) -m tools.llama_cpp

# Its logs for the demo store; what ours logged there stays. The first texts of ours, which writes the longest first.
DEMO_BESIDE = "c1ccoc1" "c1cc[nH]c1" "CC(=O)O" "CC(N)=O"

demo-parity: $(PARITY) $(PREPARED)
	@rm -rf data/demo/logit_logs/log_id=llama.cpp-* data/demo/staging
	@$(PY) -m tools.llama_cpp $(DEMO_BESIDE) --setting f32 --setting q4_K_M --first --values 8 \
	  --late 2 --without-ours --label "ships with the project" --store data/demo
	@rm -rf data/demo/staging

# The server is started by the tests, on a free port, and ended by them.
vllm: $(DEV) $(PREPARED) $(VLLM)
	@DRIFTSCOPE_VLLM=1 $(PY) -m pytest tests/vllm --durations=5 -o faulthandler_timeout=900

vllm-environment: $(VLLM)

clean:
	rm -rf .venv .venv-vllm static .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Order-only: what decides is the checksum in a stamp's name, not the time at which git wrote a file.
$(RUN):
	@rm -f $(STAMPS)/run-* $(STAMPS)/dev-* $(STAMPS)/bench-* $(STAMPS)/parity-*
	@{ test "$(VENV)" = True && $(PY) -m pip --version >/dev/null 2>&1; } || { $(make_venv); }
	@echo "Installing requirements.txt (the first time takes minutes) and requirements-stmol.txt"
	@$(if $(HASHED),$(PIP_INSTALL) --no-deps --require-hashes -r requirements.lock)
	@$(PIP_INSTALL) -r requirements.txt
	@$(PIP_INSTALL) --no-deps $(if $(HASHED),--require-hashes -r requirements-stmol.lock,-r requirements-stmol.txt)
	@mkdir -p $(STAMPS) && touch $@

$(DEV): | $(RUN)
	@rm -f $(STAMPS)/run-* $(STAMPS)/dev-*
	@echo "Installing requirements-dev.txt"
	@$(if $(HASHED),$(PIP_INSTALL) --no-deps --require-hashes -r requirements-dev.lock)
	@$(PIP_INSTALL) -r requirements-dev.txt
	@touch $(RUN) $@

# What the benchmarks compare with; requirements-bench.txt says why without dependencies.
$(BENCH): | $(RUN)
	@rm -f $(STAMPS)/bench-*
	@echo "Installing requirements-bench.txt"
	@$(PIP_INSTALL) --no-deps $(if $(HASHED),--require-hashes -r requirements-bench.lock,-r requirements-bench.txt)
	@touch $@

# A second engine, from source: requirements-parity.txt says why without dependencies, and what the flags
# are for. Not from the cache of pip, which would hand out what was built with other flags.
$(PARITY): | $(RUN)
	@rm -f $(STAMPS)/parity-*
	@echo "Building llama.cpp for requirements-parity.txt (minutes)"
	@CMAKE_ARGS="-DGGML_NATIVE=OFF -DGGML_OPENMP=OFF -DLLAVA_BUILD=OFF" CMAKE_BUILD_PARALLEL_LEVEL=$$(nproc) \
	  $(PIP_INSTALL) --no-cache-dir --no-deps --no-binary llama_cpp_python -r requirements-parity.txt
	@touch $@

# The one wheel by its hash, then what it asks for.
$(VLLM): | $(RUN)
	@echo "Installing requirements-vllm.txt into .venv-vllm (3.4 GB, minutes)"
	@$(PY) -m venv --clear .venv-vllm
	@.venv-vllm/bin/python -m pip install --no-input --disable-pip-version-check -q --no-deps --require-hashes -r requirements-vllm.lock
	@.venv-vllm/bin/python -m pip install --no-input --disable-pip-version-check -q -r requirements-vllm.txt
	@.venv-vllm/bin/python -m pip uninstall -q -y torchvision torchaudio torchcodec
	@touch $@

$(PREPARED): | $(RUN)
	@$(PY) -m engine prepare
	@touch $@
