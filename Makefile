.PHONY: demo test test-all soak lint bench fuzz mutation docs
demo: ; scripts/demo
test: ; scripts/test
test-all: ; scripts/test --all
soak: ; scripts/test --soak
lint: ; scripts/lint
bench: ; scripts/bench
fuzz: ; scripts/fuzz
mutation: ; scripts/mutation
docs: ; scripts/docs
