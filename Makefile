# Two commands for a newcomer: `make run` shows Tidegate at work, `make test` proves it.
#   make sim NAME=node-hol SEED=7      make bench NAME=hol      make fuzz TARGET=topic_filter TIME=60
SEEDS ?= 1000
TARGET ?= topic_filter
TIME ?= 60
CARGO ?= cargo
LAB = $(CARGO) run --release --locked --quiet -p tidegate-lab --

.PHONY: help run demo check test test-full python wheel setup rivals sim lab bench report bench-full deb dist dist-test cross fuzz docs deny
help:
	@sed -n 's/^\([a-z-]*\): ## /\1\t/p' Makefile
run: ## the demo: alarms and bulk through a 2 Mbit/s uplink (needs Rust, a C and C++ compiler, cmake)
	$(CARGO) run --release --locked -p tidegate -- demo
check: ## format and lints
	scripts/check.sh
test: ## all that CI runs; installs what the tests need and says so
	scripts/test.sh
test-full: ## the same, and lints, types, documentation, other processors, many seeds: before an issue is closed
	scripts/test.sh full
rivals: ## installs the rivals that Debian has not, or only old ones: NATS by Go, HiveMQ by Maven, zenoh by pip
	scripts/rivals.sh
setup: ## only installs what the tests need
	scripts/setup.sh
demo: ## real sensor data to RabbitMQ over 2 Mbit/s, every record verified (needs root)
	$(CARGO) build --release --locked -p tidegate
	$(LAB) demo
sim: ## one scenario in virtual time: NAME, SEED
	$(LAB) sim $(or $(NAME),node-hol) $(if $(SEED),--seed $(SEED))
lab: ## the long runs: many seeds (SEEDS), rivals in namespaces, strangers, every fuzz target (FUZZ_TIME seconds each)
	SEEDS=$(SEEDS) scripts/lab.sh
report: ## a page of all that was measured here: target/results/report.md
	$(LAB) report
bench: ## the short set of benchmarks (10 minutes), recorded; or one: NAME=backlog, core, hol, ingest, kill9, link-h, load, overhead, spool
	scripts/bench.sh $(NAME)
bench-full: ## all benchmarks at full length (more than an hour), recorded
	scripts/bench.sh full
dist: ## all that is given to others, in target/dist: tarball, .deb, wheel, OCI image, SBOM, SHA256SUMS (TARGET, GLIBC, TIDEGATE_BINARY)
	scripts/dist.sh
dist-test: ## tries what make dist made: in an empty Debian (mmdebstrap, root), as an image, by pip, and docs/start.md from nothing
	scripts/dist-test.sh
deb: ## a Debian package of this machine's architecture, with a hardened service (TARGET=... for another one)
	scripts/deb.sh
cross: ## builds for aarch64 and armv7 (only builds)
	scripts/cross.sh
fuzz: ## one fuzz target for a while, or all: TARGET, TIME in seconds (needs nightly Rust and cargo-fuzz; SKIP_MISSING=1 goes on without)
	TARGET=$(TARGET) TIME=$(TIME) scripts/fuzz.sh
python: ## lints and tests of the Python package (needs a package index)
	$(CARGO) build --locked -p tidegate
	scripts/python.sh full
wheel: ## the Python package with this machine's program in it: target/wheel
	$(CARGO) build --release --locked -p tidegate
	TIDEGATE_BINARY=$(CURDIR)/target/release/tidegate python3 -m pip wheel --quiet --no-deps -w target/wheel ./python
docs: ## the documentation of every crate; warnings are errors
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked
deny: ## licences, bans, known vulnerabilities of every dependency (needs cargo-deny and network; SKIP_MISSING=1 goes on without)
	scripts/deny.sh
