# The few things done by hand. CI runs .ci/run, which checks more than "check".

GO       ?= go
TIME     ?= 10s
BENCH    ?= .
PKG      ?= ./...

.PHONY: help build test check house generate testdata bench fuzz cuda archive kernels gputest sanitize console tools

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## polyscan, polyscand, conveyor and plcgateway into build/, pure Go
	CGO_ENABLED=0 $(GO) build -o build/ ./clients/polyscan ./clients/conveyor ./clients/plcgateway ./clients/camera ./server/cmd/polyscand

test: ## all tests
	$(GO) test ./...

check: ## formatting, vet, staticcheck, schemas, generated files, modules (no tests)
	bash .ci/run gofmt text vet build staticcheck proto generated modules

house: ## what the tree weighs, and the bounds
	@$(GO) run -C tools ./house ..

generate: tools ## Go code of the schemas in proto and of kernels/cu/abi, tables of colours, and the schemas in proto/third_party
	bin/vendorproto -out proto/third_party
	bin/buf lint
	bin/buf generate
	bin/kernelabi kernels/cu/abi kernels/driver kernels/cuda/abi.go
	$(GO) run -C tools ./colortables ../kernels/cpu/colortables.go ../kernels/cu/colortables.cuh
	@if command -v grpc_python_plugin >/dev/null; then /usr/bin/python3 clients/python/generate.py; else echo "clients/python/src: not generated: no grpc_python_plugin (protobuf-compiler-grpc)"; fi

testdata: ## frames, regions and goldens of testdata/
	$(GO) run ./testdata/gen

bench: ## benchmarks: make bench PKG=./polygon BENCH=Reduce
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem $(PKG)

fuzz: ## every fuzz target for a while: make fuzz TIME=1m
	FUZZTIME=$(TIME) bash .ci/run fuzz

cuda: build ## the same with the CUDA backend, in build/libexec; needs cgo, a C compiler, CUDA headers 11 or 12 and libcuda
	CGO_ENABLED=1 $(GO) build -tags cuda -ldflags '-s -w' -o build/libexec/ ./clients/polyscan ./clients/conveyor ./server/cmd/polyscand

archive: cuda ## build/polyscan.tar.gz: the programs with their libexec; they compute on the GPU where there is one
	tar -C build -czf build/polyscan.tar.gz polyscan conveyor plcgateway polyscand libexec

kernels: ## kernels/cuda/fatbin from kernels/cu; needs nvcc 11.8 (kernels/cu/install-nvcc.sh)
	bash kernels/cu/build.sh

gputest: ## build/cuda.test, the GPU suite; on a machine with a GPU run: build/cuda.test -report kernels/cuda/testdata/gpu_report.json
	CGO_ENABLED=1 $(GO) test -c -tags cuda -o build/cuda.test ./kernels/cuda

sanitize: ## the GPU suite under compute-sanitizer: memcheck, racecheck, initcheck; needs a GPU
	bash kernels/cu/sanitize.sh

console: tools ## server/console/dist, the page in the browser, from its sources; needs Node.js with npm
	bash server/console/build.sh

tools:
	@$(GO) build -C tools -o ../bin/ tool ./vendorproto ./gpureport ./house ./kernelabi
