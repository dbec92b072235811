#!/bin/sh
# usage: build.sh DIRECTORY   fetches llama-cpp-python's source package and builds libshoal_peer_ggml.so into DIRECTORY
# (`shoal bench kernels --peers DIRECTORY` finds it there). Some 4 minutes on one core; needs pip, cmake and a compiler.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1/source"
cd "$1"
ls source/llama_cpp_python-*.tar.gz >/dev/null 2>&1 ||
    python3 -m pip download --quiet --no-deps --no-binary llama-cpp-python --dest source llama-cpp-python
package=$(ls source/llama_cpp_python-*.tar.gz | tail -1)
tar -xzf "$package" -C source --wildcards '*/vendor/llama.cpp/ggml'
cmake -S "$here" -B build -DGGML_SOURCE="$PWD/$(basename "$package" .tar.gz | sed 's|^|source/|')/vendor/llama.cpp/ggml"
cmake --build build --target shoal_peer_ggml -j "${JOBS:-1}"
cp build/libshoal_peer_ggml.so .
basename "$package" .tar.gz > version
