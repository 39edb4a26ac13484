# The commands of this repository; CI calls `make check`.

CARGO ?= cargo
APP ?= examples/score

.PHONY: run build test check fmt lint doc tools crash abuse overload rows bench bench-smoke disks where fuzz

# Builds the release binary and serves the example app; Ctrl-C drains and ends it.
run: build
	@exec target/release/tollgate serve $(APP)

build:
	$(CARGO) build --release --locked -p tollgate

# All tests. What those of faults and power cuts need is installed if it is missing (as root).
test: tools
	$(CARGO) test --workspace --locked

check: fmt lint test doc

fmt:
	$(CARGO) fmt --all --check

lint:
	$(CARGO) clippy --workspace --all-targets --locked -- --deny warnings

doc:
	RUSTDOCFLAGS="--deny warnings --allow rustdoc::private-intra-doc-links" $(CARGO) doc --workspace --no-deps --document-private-items --locked

# What the tests need beside Rust and a C++ compiler, on Debian: faults of system calls, power cuts of a mounted image,
# PostgreSQL and certificates for it.
tools:
	@PATH="$$PATH:/usr/sbin:$$(echo /usr/lib/postgresql/*/bin)" which strace mkfs.ext4 mkfs.xfs initdb psql openssl >/dev/null || \
	{ apt-get update && apt-get install -y --no-install-recommends strace e2fsprogs xfsprogs postgresql openssl; }

# The crash tests of the log with many more seeds, and many more power cuts, on ext4 and XFS (as
# root), and kills of a loader.
crash: tools
	TOLLGATE_CRASH_SEEDS=$${SEEDS:-2000} $(CARGO) test --release --locked -p tollgate-log --test log -- --nocapture
	for disk in ext4 xfs; do \
	  TOLLGATE_DISK=$$disk TOLLGATE_POWER_CUTS=$${CUTS:-200} TOLLGATE_SEED=$$(date +%N) \
	  $(CARGO) test --locked -p tollgate --test it power -- --nocapture || exit 1; \
	done
	TOLLGATE_KILLS=$${KILLS:-200} TOLLGATE_SEED=$$(date +%N) \
	$(CARGO) test --locked -p tollgate --test it a_loader_that_is_killed -- --nocapture

# The fuzz targets with coverage feedback, FUZZ_SECONDS each. `make fuzz TARGETS=head` for one; `fuzz/minimise` puts what
# was found into the corpus.
fuzz:
	fuzz/run $(TARGETS)

# Ten thousand clients of each kind that means no good, and what a normal one sees meanwhile; two minutes.
abuse: build
	bench/abuse.py

# Twice as many requests as the server can answer; a minute.
overload: build
	bench/overload.py

# Rows a second into PostgreSQL beside psql \copy (as root).
rows: build tools
	bench/rows.py

# Tollgate beside its peers; installs them as root. `make bench CASE=recorded` for one case.
bench: build
	bench/run.py $(if $(CASE),--case $(CASE))

# Where the time of a request goes, by perf, as a picture.
where: build
	bench/where.py --out docs/where.svg

# File systems side by side, each in a mounted image (as root).
disks: build
	bench/disks.py

# Does the bench run? Asserts nothing about speed.
bench-smoke: build
	bench/run.py --smoke --case recorded --out target/bench/smoke
