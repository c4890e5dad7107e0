# make help tells what there is.

GO      ?= go
PREFIX  ?= /usr/local
DESTDIR ?=

# Where the manual and the completions go, below PREFIX.
MAN  := share/man/man1
BASH := share/bash-completion/completions
ZSH  := share/zsh/site-functions
FISH := share/fish/vendor_completions.d

# The tools of 'make lint' are pinned in tools.mod, so that go.mod stays small.
TOOL := $(GO) tool -modfile=tools.mod

# What must build. Only linux/amd64 is run by the tests.
PLATFORMS := linux/amd64 linux/arm64 linux/arm darwin/amd64 darwin/arm64 freebsd/amd64 freebsd/arm64

.PHONY: all
all: ## build bin/xlock
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/xlock ./cmd/xlock

.PHONY: install
install: all ## install xlock, its manual and its completions below $(PREFIX); with FLOCK=1 as flock too
	install -d $(addprefix '$(DESTDIR)$(PREFIX)'/,bin $(MAN) $(BASH) $(ZSH) $(FISH))
	install -m 755 bin/xlock '$(DESTDIR)$(PREFIX)/bin/xlock'
	install -m 644 man/*.1 '$(DESTDIR)$(PREFIX)/$(MAN)'
	install -m 644 completions/xlock.bash '$(DESTDIR)$(PREFIX)/$(BASH)/xlock'
	install -m 644 completions/_xlock '$(DESTDIR)$(PREFIX)/$(ZSH)/_xlock'
	install -m 644 completions/xlock.fish '$(DESTDIR)$(PREFIX)/$(FISH)/xlock.fish'
ifeq ($(FLOCK),1)
	ln -sf xlock '$(DESTDIR)$(PREFIX)/bin/flock'
endif

.PHONY: uninstall
uninstall: ## remove what install has installed
	[ "$$(readlink '$(DESTDIR)$(PREFIX)/bin/flock')" != xlock ] || rm -f '$(DESTDIR)$(PREFIX)/bin/flock'
	rm -f '$(DESTDIR)$(PREFIX)/bin/xlock' \
		$(patsubst man/%,'$(DESTDIR)$(PREFIX)/$(MAN)/%',$(wildcard man/*.1)) \
		'$(DESTDIR)$(PREFIX)/$(BASH)/xlock' '$(DESTDIR)$(PREFIX)/$(ZSH)/_xlock' '$(DESTDIR)$(PREFIX)/$(FISH)/xlock.fish'

.PHONY: release
release: ## build tarballs, .deb and .rpm into dist/, with VERSION= or the tag
	scripts/release

.PHONY: test-release
test-release: ## test the release: same bytes twice, install, remove; as root
	scripts/test-release

.PHONY: demo
demo: all ## install xlock into ./bin and show its main job on a real lock
	scripts/demo

.PHONY: test
test: ## run all tests, with the race detector; fetches what it lacks where it can
	scripts/test

.PHONY: model
model: ## check the model of the protocol, with Spin (part of test)
	XLOCK_TEST_STRICT=1 $(GO) test -v ./docs/model

.PHONY: fuzz
fuzz: ## run each fuzz target for FOR=10s, or so often: FOR=20000x
	scripts/fuzz $(FOR)

.PHONY: soak
soak: ## let many contend and be killed, FOR=1h or until it is interrupted
	scripts/soak $(FOR)

.PHONY: check
check: lint test ## everything that must hold before a change goes in

.PHONY: lint
lint: format vet staticcheck modules modern workflows cross ## all of check but the tests

.PHONY: format
format:
	@unformatted=$$($(TOOL) gofumpt -l cmd docs internal testdata) && \
	if [ -n "$$unformatted" ]; then echo "not formatted by gofumpt: $$unformatted" >&2; exit 1; fi

.PHONY: vet
vet:
	GOOS=linux $(GO) vet ./...
	GOOS=darwin $(GO) vet ./...
	GOOS=freebsd $(GO) vet ./...

.PHONY: staticcheck
staticcheck:
	printf '%s\n' 'linux: GOOS=linux' 'darwin: GOOS=darwin' 'freebsd: GOOS=freebsd' | \
		$(TOOL) staticcheck -matrix ./...

.PHONY: modules
modules:
	$(GO) mod tidy -diff

.PHONY: modern
modern:
	$(GO) fix -diff ./...

.PHONY: workflows
workflows:
	$(TOOL) actionlint -shellcheck= -pyflakes= .github/workflows/*.yml

.PHONY: cross
cross:
	@set -e; for platform in $(PLATFORMS); do \
		echo "build for $$platform"; \
		CGO_ENABLED=0 GOOS=$${platform%/*} GOARCH=$${platform#*/} $(GO) build -trimpath -o /dev/null ./cmd/xlock; \
	done

.PHONY: help
help: ## show this
	@sed -n 's/^\([a-z-]*\):.*## /  make \1	/p' Makefile | expand -t 22
