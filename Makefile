# The commands of this repository; CI calls `make check`.

CARGO ?= cargo
APP ?= examples/score
PYTHON ?= python3

# The folders with Python programs, and their linter and formatter.
PROGRAMS = bench fuzz tools
RUFF_VERSION = 0.17.6
RUFF ?= target/tools/ruff-$(RUFF_VERSION)/bin/ruff
MDBOOK_VERSION = 0.5.4
MDBOOK ?= target/tools/mdbook-$(MDBOOK_VERSION)/bin/mdbook
VERSITYGW_VERSION = 1.8.0
VERSITYGW = target/tools/versitygw-$(VERSITYGW_VERSION)/bin/versitygw
AZURITE_VERSION = 3.37.0
AZURITE = target/tools/azurite-$(AZURITE_VERSION)/node_modules/azurite/dist/src/blob/main.js
DENY_VERSION = 0.20.2
DENY ?= target/tools/cargo-deny-$(DENY_VERSION)/bin/cargo-deny

.PHONY: run build test browser test-python docs-test test-names test-comments check fmt lint sample deny rustdoc docs docs-search tools versitygw stores crash ship-crash outage soak uploads reloads rules abuse script-abuse crowd garbage memory allocators overload faults downloads proxy rows freshness architectures bench bench-smoke disks where fuzz cycles wrap

# Builds the release binary and serves the example app; Ctrl-C drains and ends it.
run: build
	@exec target/release/tollgate serve $(APP)

build:
	$(CARGO) build --release --locked -p tollgate

# All tests, also those after a test binary that failed. What those of faults and power cuts need is installed if it is
# missing (as root). The tests of stores need versitygw, which Go builds once in four minutes.
test: tools versitygw test-python
	$(CARGO) test --workspace --locked --no-fail-fast

# The unit tests of the Python programs: parsers, statistics, packs. They take seconds.
test-python:
	for folder in $(PROGRAMS); do $(PYTHON) -m unittest discover --quiet --start-directory $$folder || exit 1; done

# The command blocks of README, tutorials and how-to pages, each page in a fresh clone of the last commit. `make docs-test
# PAGE=docs/tutorial/first-app.md` runs one page. STRICT=1 fails if a page is not marked. The build stays in
# target/docs-test; BINARY=path/to/tollgate takes another one. Needs the ports 8080 and 5432, and root for PostgreSQL.
docs-test: tools
	@tools/docs_test.py $(if $(BINARY),--binary $(BINARY),--target target/docs-test) $(if $(STRICT),--strict) $(PAGE)

# The names of tests that are gone or new between two commits: `make test-names BEFORE=commit [AFTER=HEAD]`. AFTER=. is
# the worktree. MOVED=1 lists the tests that only changed their module.
test-names:
	@test -n "$(BEFORE)" || { echo "usage: make test-names BEFORE=commit [AFTER=HEAD] [MOVED=1]" >&2; exit 2; }
	@tools/compare_tests.py $(BEFORE) $(or $(AFTER),HEAD) $(if $(MOVED),--moved)

# Shows that only comments changed: `make test-comments BEFORE=commit [AFTER=HEAD]`. AFTER=. is the worktree.
test-comments:
	@test -n "$(BEFORE)" || { echo "usage: make test-comments BEFORE=commit [AFTER=HEAD]" >&2; exit 2; }
	@tools/compare_tokens.py $(BEFORE) $(or $(AFTER),HEAD)

# Licences, bans and sources of the dependencies are checked if cargo-deny is installed, because its build takes four
# minutes of a processor. `make deny` installs it.
check: fmt lint $(if $(wildcard $(DENY)),deny) test rustdoc

fmt: $(RUFF)
	$(CARGO) fmt --all --check
	$(RUFF) format --check $(PROGRAMS)

lint: $(RUFF)
	$(CARGO) clippy --workspace --all-targets --locked -- --deny warnings
	$(CARGO) clippy -p tollgate --test browser --locked -- --deny warnings
	$(CARGO) clippy -p tollgate-ship --test azure --locked -- --deny warnings
	$(CARGO) metadata --locked --manifest-path fuzz/Cargo.toml --format-version 1 >/dev/null
	$(RUFF) check $(PROGRAMS)
	tools/check_phrases.py

# 120 sentences to judge by the rules of CONTRIBUTING.md: `make sample SEED=7`.
sample:
	@test -n "$(SEED)" || { echo "usage: make sample SEED=number" >&2; exit 2; }
	@tools/sample_sentences.py $(SEED)

# Ruff comes from PyPI into a folder below target/. Debian's pip, which is installed if it is missing (as root), allows
# that without a virtual environment.
target/tools/ruff-$(RUFF_VERSION)/bin/ruff:
	@$(PYTHON) -m pip --version >/dev/null || { apt-get update && apt-get install -y --no-install-recommends python3-pip; }
	$(PYTHON) -m pip install --quiet --disable-pip-version-check --root-user-action=ignore \
	  --target target/tools/ruff-$(RUFF_VERSION) ruff==$(RUFF_VERSION)

# The rules of deny.toml that need no network. `make deny DENY_CHECKS=advisories` asks for known faults of dependencies.
DENY_CHECKS ?= licenses bans sources
deny: $(DENY)
	$(DENY) check $(DENY_CHECKS)

# cargo-deny comes from crates.io into a folder below target/, at the lowest priority.
target/tools/cargo-deny-$(DENY_VERSION)/bin/cargo-deny:
	nice -n 19 $(CARGO) install cargo-deny --version $(DENY_VERSION) --locked --root target/tools/cargo-deny-$(DENY_VERSION)

# The documentation of the code. It fails at a broken link and at other faults that rustdoc finds.
rustdoc:
	RUSTDOCFLAGS="--deny warnings --allow rustdoc::private-intra-doc-links" $(CARGO) doc --workspace --no-deps --document-private-items --locked

# The pages of docs/ as a site with search, in target/book/site. A browser opens it from this folder, without a server.
docs: $(MDBOOK)
	@tools/build_book.py $(MDBOOK)

# Builds this site, and searches it in a real browser, which is installed if it is missing (as root).
docs-search: $(MDBOOK)
	@which chromium >/dev/null || { apt-get update && apt-get install -y --no-install-recommends chromium; }
	@tools/build_book.py $(MDBOOK) --chromium chromium

# mdBook comes from crates.io into a folder below target/, at the lowest priority. The site needs no server, so mdBook is
# built without its own.
target/tools/mdbook-$(MDBOOK_VERSION)/bin/mdbook:
	nice -n 19 $(CARGO) install mdbook --version $(MDBOOK_VERSION) --locked --no-default-features --features search \
	  --root target/tools/mdbook-$(MDBOOK_VERSION)

# What the tests need beside Rust and a C++ compiler, on Debian: faults of system calls, power cuts of a mounted image,
# PostgreSQL and certificates for it, and the clients that people have: curl and wget.
tools:
	@PATH="$$PATH:/usr/sbin:$$(echo /usr/lib/postgresql/*/bin)" which strace mkfs.ext4 mkfs.xfs initdb psql openssl curl wget >/dev/null || \
	{ apt-get update && apt-get install -y --no-install-recommends strace e2fsprogs xfsprogs postgresql openssl curl wget; }

# A server with the protocol of S3, for the tests of stores. It comes from the Go module proxy into a folder below
# target/, at the lowest priority. Go 1.25 or later has to be there.
versitygw: $(VERSITYGW)
$(VERSITYGW):
	@which go >/dev/null || { echo "the tests of stores need Go 1.25 or later, which builds versitygw: install it" >&2; exit 1; }
	GOBIN=$(CURDIR)/$(dir $@) nice -n 19 go install github.com/versity/versitygw/cmd/versitygw@v$(VERSITYGW_VERSION)

# The law of a store with Azurite, which stands for Azure Blob Storage. Node.js 20 or later has to be there. No
# server for Google Cloud Storage takes the XML calls of `object_store`, so its tests bring one of their own.
stores: versitygw $(AZURITE)
	$(CARGO) test --locked -p tollgate-ship --test store --test azure
$(AZURITE):
	npm install --no-fund --no-audit --loglevel=error --prefix target/tools/azurite-$(AZURITE_VERSION) azurite@$(AZURITE_VERSION)

# The examples in a real browser, which is installed if it is missing (as root).
browser: tools
	@which chromium >/dev/null || { apt-get update && apt-get install -y --no-install-recommends chromium; }
	$(CARGO) test --locked -p tollgate --test browser

# The crash tests of the log with many more seeds, and many more power cuts, on ext4 and XFS (as
# root), kills of a loader, and mutants of segments that every command and start meets.
crash: tools
	TOLLGATE_CRASH_SEEDS=$${SEEDS:-2000} $(CARGO) test --release --locked -p tollgate-log --test log -- --nocapture
	for disk in ext4 xfs; do \
	  TOLLGATE_DISK=$$disk TOLLGATE_POWER_CUTS=$${CUTS:-200} TOLLGATE_SEED=$$(date +%N) \
	  $(CARGO) test --locked -p tollgate --test it power -- --nocapture || exit 1; \
	done
	TOLLGATE_KILLS=$${KILLS:-200} TOLLGATE_SEED=$$(date +%N) \
	$(CARGO) test --locked -p tollgate --test it killed_at_any_moment -- --nocapture
	TOLLGATE_MUTANTS=$${MUTANTS:-2000} TOLLGATE_SEED=$$(date +%N) \
	$(CARGO) test --locked -p tollgate --test it mutants -- --nocapture

# A store that misbehaves between a machine that ships and one that loads: RUNS runs, 10,000 otherwise.
ship-crash:
	TOLLGATE_SHIP_RUNS=$${RUNS:-10000} TOLLGATE_SEED=$$(date +%N) \
	$(CARGO) test --locked -p tollgate --test it ship_faults -- --nocapture

# Sinks that are away while BYTES, 5 GiB otherwise, are recorded: latency meanwhile, memory of the catch-up. Needs three times the room.
outage: tools
	TOLLGATE_OUTAGE_BYTES=$${BYTES:-5368709120} \
	$(CARGO) test --release --locked -p tollgate --test it outage -- --nocapture --test-threads=1

# A hundred reloads under load, half of them broken on purpose.
reloads:
	TOLLGATE_RELOADS=$${RELOADS:-100} $(CARGO) test --locked -p tollgate --test it reload_storm -- --nocapture

# Prometheus reads the rules for alarms, tries each, and reads what a server tells (promtool, of Debian's package prometheus,
# which is installed if it is missing, as root).
PROMTOOL ?= promtool
rules: build
	@which $(PROMTOOL) >/dev/null || { apt-get update && apt-get install -y --no-install-recommends prometheus; }
	$(PROMTOOL) check rules dist/prometheus/tollgate.rules.yml
	$(PROMTOOL) test rules dist/prometheus/tollgate.rules.test.yml
	folder=$$(mktemp -d) && cp dist/prometheus/check.toml $$folder/tollgate.toml && \
	{ target/release/tollgate serve $$folder >/dev/null 2>&1 & server=$$!; \
	  curl -s --retry 30 --retry-delay 1 --retry-all-errors --unix-socket $$folder/data/log/admin.sock http://localhost/metrics >$$folder/metrics && \
	  $(PROMTOOL) check metrics <$$folder/metrics; result=$$?; \
	  kill $$server; wait $$server; rm -r $$folder; exit $$result; }

# A form of 2 GiB whose file a script saves, in constant memory; needs 5 GiB of room.
uploads:
	TOLLGATE_UPLOAD_MIB=2048 $(CARGO) test --release --locked -p tollgate --test it a_form_is_saved -- --nocapture

# Steady load with faults on for SOAK_SECONDS, an hour otherwise: memory and descriptors flat, the audit exact. In `make test` for 25 s.
soak: tools
	TOLLGATE_SOAK_SECONDS=$${SOAK_SECONDS:-3600} \
	$(CARGO) test --release --locked -p tollgate --test it soak -- --nocapture

# The fuzz targets with coverage feedback, FUZZ_SECONDS each. `make fuzz TARGETS=head` runs one target. `fuzz/minimise`
# puts the inputs that were found into the packs of the corpus.
fuzz:
	fuzz/run $(TARGETS)

# Scripts that do what no script should, and what a neighbour in the same VM sees meanwhile; three minutes.
script-abuse: build
	bench/study.py script_abuse

# Crowds that ask for scripts which compute for a while, and what others see meanwhile; a minute.
crowd: build
	bench/study.py crowd

# Ten thousand clients of each kind that means no good, and what a normal one sees meanwhile; six minutes.
abuse: build
	bench/study.py abuse

# What collecting garbage costs scripts; a minute and a half.
garbage: build
	bench/study.py garbage

# Memory while clients pipeline requests for long replies and read nothing, alone and with two busy loops; fails if it is too much. Six minutes.
memory: build
	bench/study.py memory

# Allocators side by side: requests a second, and memory behind such a wave; five minutes (needs wrk, gcc, libjemalloc2, libmimalloc2.0).
allocators: build
	bench/study.py allocators

# Twice as many requests as the server can answer; seven minutes.
overload: build
	bench/study.py overload

# Backends that fail in twenty ways, what their clients see, and what the other routes notice; half an hour (needs gcc).
faults: build
	$(CARGO) build --release --locked -p tollgate-faults
	bench/study.py faults

# Files by sendfile and by writes beside nginx, lighttpd, h2o and Yaws, and a small file beside cold ones; ten minutes (as root).
downloads: build
	bench/study.py downloads

# A reverse proxy beside nginx, and requests of scripts that wait for backends; two minutes (as root).
proxy: build
	bench/study.py proxy

# Rows a second into PostgreSQL beside psql \copy, and into SQLite beside a bare loop of INSERTs (as root).
rows: build tools
	bench/study.py rows

# The rate up to which rows are there within a second of the reply, in SQLite and PostgreSQL (as root).
freshness: build tools
	bench/study.py freshness

# An INSERT per request, a log that is loaded in bulk, and a queue: side by side into one PostgreSQL; five minutes (as root).
architectures: build tools
	bench/study.py architectures

# Tollgate beside its peers; installs them as root. `make bench CASE=recorded` for one case. `make bench BEFORE=path/to/tollgate`
# runs another build in the same rounds.
bench: build
	bench/run.py $(if $(CASE),--case $(CASE)) $(if $(BEFORE),--before $(BEFORE))

# Where the time of a request goes, by perf, as a picture.
where: build
	bench/study.py where --out docs/explanation/where.svg

# File systems side by side, each in a mounted image (as root).
disks: build
	bench/study.py disks

# Does the bench run? Asserts nothing about speed.
bench-smoke: build
	bench/run.py --smoke --case recorded --out target/bench/smoke

# The import cycles of each crate. `make cycles CRATE=tollgate-log` for one, EDGES=1 for the imports in them, CUT=1 for imports to cut,
# MODULES=1 between the modules that the root of a crate declares.
cycles:
	@$(CARGO) run --quiet --locked -p tollgate-tidy -- cycles $(if $(CRATE),--crate $(CRATE)) $(if $(EDGES),--edges) $(if $(CUT),--cut) $(if $(MODULES),--modules)

# Wraps comments that are wider than 110 characters. `make wrap PATHS=crates/tollgate-log` for one crate.
wrap:
	@$(CARGO) run --quiet --locked -p tollgate-tidy -- wrap $(or $(PATHS),crates fuzz)
