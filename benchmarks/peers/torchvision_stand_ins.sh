#!/bin/bash
# Lets torchvision's CUDA wheel from PyPI decode JPEGs with a CPU build of torch.
#
#     benchmarks/peers/torchvision_stand_ins.sh ENVIRONMENT
#
# Its image extension needs two CUDA libraries that are missing. This script puts two stand-ins into
# torchvision.libs, where the loader looks first. They define the symbols that no other library
# defines; decoding on the CPU calls none of them. Needs gcc and binutils.
set -euo pipefail

cd "$1"/lib/python3.*/site-packages
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
rm -f torchvision.libs/lib{torch,c10}_cuda.so

names() { awk '{ print $NF }' | sed 's/@.*//' | sort -u; }
system=(/lib/*-linux-gnu/lib{c,m}.so.6 /usr/lib/*-linux-gnu/libstdc++.so.6 /lib/*-linux-gnu/libgcc_s.so.1)
nm -D --defined-only torch/lib/*.so torchvision.libs/* "${system[@]}" 2>/dev/null | awk 'NF == 3' | names >"$work/defined"
nm -D --undefined-only torchvision/image.so | awk '$1 == "U"' | names >"$work/wanted"

{
    echo .text
    comm -13 "$work/defined" "$work/wanted" | grep -v -e '^_*Py' -e '^__tls_get_addr$' |
        sed 's/.*/.globl &\n.type &, @function\n&:/'
    echo ud2
} >"$work/names.s"
: >"$work/nothing.s"
gcc -shared -nostdlib -Wl,-soname,libtorch_cuda.so -o torchvision.libs/libtorch_cuda.so "$work/names.s"
gcc -shared -nostdlib -Wl,-soname,libc10_cuda.so -o torchvision.libs/libc10_cuda.so "$work/nothing.s"
