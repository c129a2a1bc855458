# make run    build, mount a file system in memory, unpack a source tree into it
# make install
#             put the command esker into PREFIX/bin, by default /usr/local/bin
# make test   every test
# make check  formatting and lints
# make suites build real programs on a mount, with their own tests (takes an hour, needs the network)
# make bench  measure beside the kernel's file systems, write docs/benchmarks.md (as root, an hour and a half)
# make clean  remove what was built

.PHONY: run install test check suites bench clean help

help:
	@sed -n 's/^# //p' $(firstword $(MAKEFILE_LIST))

run:
	@scripts/run.sh

PREFIX ?= /usr/local

install:
	@scripts/install.sh '$(PREFIX)'

test:
	@scripts/test.sh

check:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings

suites:
	@scripts/suites.sh

bench:
	@scripts/bench.sh

clean:
	cargo clean
