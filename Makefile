# make run    build, mount a file system in memory, unpack a source tree into it
# make install
#             put the command esker into PREFIX/bin, by default /usr/local/bin
# make test   every test
# make check  formatting and lints
# make suites build real programs on a mount, with their own tests (takes an hour, needs the network)
# make image-suites
#             pack whole trees at every level and compare what comes out (as root, hours, needs the network and 60 GB)
# make bench  measure beside the kernel's file systems, write docs/benchmarks (as root, an hour and a half)
# make clean  remove what was built

.PHONY: run install test check suites image-suites bench clean help

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

image-suites:
	cargo build --release --locked -p esker-cli
	mkdir -p target/images
	scripts/suites/images.sh "$$(scripts/target.sh)/release/esker" target/images

bench:
	@scripts/bench.sh

clean:
	cargo clean
