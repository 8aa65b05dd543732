# The doors of the project, for people and for CI. `make` alone lists them.

SHELL := bash
.DEFAULT_GOAL := help

# For `make demo` and the `make bench` family: more arguments, as in `make demo ARGS=--once`.
ARGS ?=

# What the tests run besides redis-server; .ci/install puts it there.
TSUBAKI_VALKEY_SERVER ?= $(CURDIR)/.cache/valkey/valkey-server
TSUBAKI_PYTHON ?= $(CURDIR)/.cache/python/bin/python
TSUBAKI_NODE_MODULES ?= $(CURDIR)/.cache/node/node_modules

# These crates decide and never do I/O: no runtime, no sockets, no metrics, no clock, no threads.
PURE_CRATES := tsubaki-protocol tsubaki-config tsubaki-core
PURE_SOURCES := protocol/src config/src proxy/core/src
IMPURE_CRATES := tokio|mio|socket2|rustix|libc|nix|metrics|metrics-exporter-prometheus|axum|hyper|tracing-subscriber|core_affinity
IMPURE_STD := std::(thread|process)|Tcp(Stream|Listener)|UdpSocket|UnixStream|(Instant|SystemTime)::now

.PHONY: help
help: ## list what can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "  make %-16s %s\n", $$1, $$2 }'

.PHONY: demo
demo: ## a cluster and the proxy on this machine, a proof on the screen; ARGS=--once ends after it
	@.ci/install redis
	cargo run --release -p tsubaki -- demo $(ARGS)

.PHONY: test
test: deps ## all tests, against real servers and real clients
	TSUBAKI_REQUIRE_SERVERS=1 \
	TSUBAKI_VALKEY_SERVER='$(TSUBAKI_VALKEY_SERVER)' \
	TSUBAKI_PYTHON='$(TSUBAKI_PYTHON)' \
	TSUBAKI_NODE_MODULES='$(TSUBAKI_NODE_MODULES)' \
	PATH='$(CURDIR)/.cache/node/bin':"$$PATH" \
	cargo test --workspace

.PHONY: check
check: ## formatting, lints, documentation, and that the pure crates are pure
	@.ci/install rust
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --document-private-items
	@$(MAKE) --no-print-directory pure

.PHONY: pure
pure:
	@for crate in $(PURE_CRATES); do \
		tree=$$(cargo tree --locked -p $$crate -e normal --prefix none) || exit 1; \
		if grep -E '^($(IMPURE_CRATES)) v' <<<"$$tree"; then echo "$$crate depends on the above; it must not" >&2; exit 1; fi; \
	done
	@find $(PURE_SOURCES) -name '*.rs' -not -path '*/tests*' | xargs awk ' \
		/#\[cfg\(test\)\]/ { nextfile } \
		/$(IMPURE_STD)/ { print FILENAME ":" FNR ": " $$0 " -- not in a pure crate"; bad = 1 } \
		END { exit bad }'
	@echo "$(PURE_CRATES): pure"

.PHONY: e2e
e2e: e2e-numa ## what needs a machine of its own: all of the e2e targets

.PHONY: e2e-numa
e2e-numa: ## placement on a virtual machine with two NUMA nodes and a card of four queues; needs root, 2 minutes
	@.ci/install redis
	@e2e/numa/install
	cargo build --release -p tsubaki
	$$([ "$$(id -u)" = 0 ] || echo sudo) python3 -B e2e/numa/prove.py

BENCHES := cargo run --release -p tsubaki-benches --

define compare
	@.ci/install redis peers memtier
	cargo build --release -p tsubaki
	$(BENCHES) compare --suite $(1) $(ARGS)
endef

.PHONY: bench
bench: ## the goals: proxy, direct access and the floor, side by side in one run; 10 minutes
	$(call compare,goals)

.PHONY: bench-peers
bench-peers: ## the same through other proxies; PREDIXY_SRC and CAMELLIA_SRC name checkouts; 15 minutes
	$(call compare,peers)

.PHONY: bench-field
bench-field: ## the field reports' own workloads, as they are; 15 minutes
	$(call compare,field)

.PHONY: bench-placement
bench-placement: ## workers pinned and not, side by side; 10 minutes
	$(call compare,placement)

.PHONY: bench-full
bench-full: ## every command by every number of clients, pipeline and size: hours
	$(call compare,full)

.PHONY: instructions
instructions: ## instructions of the hot path, compared with the committed record
	$(BENCHES) instructions $(ARGS)

.PHONY: readme
readme: ## write the newest record of the benches into README
	$(BENCHES) readme $(ARGS)

.PHONY: deps
deps: ## install what tests need and this machine lacks; says what it does
	@.ci/install redis valkey python node
