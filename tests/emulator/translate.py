#!/usr/bin/env python3
"""Translates kernel code that a C++ compiler for CPUs does not understand, by means of cuda.h.

    translate.py KERNELS OUT

Writes every file of the folder KERNELS to OUT. Unknown PTX is an error that names it.
"""

import pathlib
import re
import sys

# $0, $1 … are operands. The PTX keys have no leading or trailing white space; {} around local
# registers are part of them.
MEANINGS = {
    "": "",
    "trap;": 'emulator::fail("trap")',
    "mov.u32 %0, %%lanemask_lt;": "$0 = (1u << threadIdx.x % 32) - 1",
    "bar.sync %0, %1;": "emulator::barrier($0, $1)",
    "fence.acq_rel.gpu;": "",
    # Shared memory.
    "ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];": "{ const uint4 of4 = emulator::shared<uint4>($4); $0 = of4.x, $1 = of4.y, $2 = of4.z, $3 = of4.w; }",
    "st.shared.v4.u32 [%0], {%1, %2, %3, %4};": "emulator::shared<uint4>($0) = {$1, $2, $3, $4}",
    "ld.shared.v2.u32 {%0, %1}, [%2];": "{ const uint2 of2 = emulator::shared<uint2>($2); $0 = of2.x, $1 = of2.y; }",
    "st.shared.v2.u32 [%0], {%1, %2};": "emulator::shared<uint2>($0) = {$1, $2}",
    "ld.shared.u32 %0, [%1];": "$0 = emulator::shared<unsigned>($1)",
    "st.shared.u32 [%0], %1;": "emulator::shared<unsigned>($0) = $1",
    "ld.shared.u16 %0, [%1];": "$0 = emulator::shared<unsigned short>($1)",
    "st.shared.u16 [%0], %1;": "emulator::shared<unsigned short>($0) = $1",
    "ld.shared.u8 %0, [%1];": "$0 = emulator::shared<unsigned char>($1)",
    "st.shared.u8 [%0], %1;": "emulator::shared<unsigned char>($0) = static_cast<unsigned char>($1)",
    "red.shared.add.u32 [%0], 1;": "emulator::shared<unsigned>($0) += 1",
    "red.shared.or.b32 [%0], %1;": "emulator::shared<unsigned>($0) |= $1",
    # Mbarriers.
    "mbarrier.init.shared.b64 [%0], %1;": "emulator::init($0, $1)",
    "{ .reg .b64 state; mbarrier.arrive.shared.b64 state, [%0]; }": "emulator::arrive($0)",
    "{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2, %3; selp.u32 %0, 1, 0, p; }": "$0 = emulator::wait($1, $2)",
    "{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }": "$0 = emulator::wait($1, $2)",
    # Global memory. A thread that polls it yields to other threads.
    "st.global.v2.u32 [%0], {%1, %2};": "emulator::global<uint2>($0) = {$1, $2}",
    "st.global.v4.u32 [%0], {%1, %2, %3, %4};": "emulator::global<uint4>($0) = {$1, $2, $3, $4}",
    "st.global.cs.v4.u32 [%0], {%1, %2, %3, %4};": "emulator::global<uint4>($0) = {$1, $2, $3, $4}",
    "prefetch.global.L1 [%0];": "",
    "prefetch.global.L2 [%0];": "",
    "ld.relaxed.gpu.u64 %0, [%1];": "emulator::yield(); $0 = *($1)",
    "st.relaxed.gpu.u64 [%0], %1;": "*($0) = $1",
    "ld.acquire.gpu.global.u32 %0, [%1];": "emulator::yield(); $0 = *($1)",
    "atom.release.gpu.global.add.u32 %0, [%1], %2;": "$0 = atomicAdd($1, $2)",
    "cp.async.cg.shared.global.L2::256B [%0], [%1], 16;": "emulator::copy_later($0, $1, 16)",
    "cp.async.cg.shared.global.L2::128B [%0], [%1], 16;": "emulator::copy_later($0, $1, 16)",
    "cp.async.cg.shared.global [%0], [%1], 16;": "emulator::copy_later($0, $1, 16)",
    "cp.async.ca.shared.global [%0], [%1], %2;": "emulator::copy_later($0, $1, $2)",
    "cp.async.wait_all;": "emulator::copy_now()",
    # Arithmetic.
    "lop3.b32 %0, %1, %2, %3, 0xca;": "$0 = ($1 & $2) | (~$1 & $3)",
    "prmt.b32 %0, %1, 0, %2;": "$0 = emulator::permute($1, 0, $2)",
    "prmt.b32 %0, %1, 0, 0xbb99;": "$0 = emulator::permute($1, 0, 0xbb99)",
    "bfind.u32 %0, %1;": "$0 = emulator::highest_one($1)",
    "bfind.u64 %0, %1;": "$0 = emulator::highest_one($1)",
    "bfe.s32 %0, %1, 0, 1;": "$0 = 0u - ($1 & 1)",
    "{ .reg .b16 h, t; mov.b32 {h, t}, %1; cvt.f32.f16 %0, h; }": "$0 = emulator::float_of_half(static_cast<unsigned short>($1))",
    "{ .reg .b16 h; cvt.rn.f16.f32 h, %1; cvt.u32.u16 %0, h; }": "$0 = emulator::half_of_float($1)",
    "{ .reg .pred p; .reg .u32 at; setp.gt.u32 p, %1, %2; vote.sync.ballot.b32 %0, p, 0xffffffff; and.b32 at, %0, %3; popc.b32 at, at;"
    " mad.lo.u32 at, at, 4, %4; @p st.shared.u32 [at], %1; }": "$0 = emulator::list_greater($1, $2, $3, $4)",
    "{ .reg .pred p; .reg .u32 at; setp.gt.u64 p, %1, %2; vote.sync.ballot.b32 %0, p, 0xffffffff; and.b32 at, %0, %3; popc.b32 at, at;"
    " mad.lo.u32 at, at, 8, %4; @p st.shared.u64 [at], %1; }": "$0 = emulator::list_greater($1, $2, $3, $4)",
}


def end_of_parentheses(text, begin):
    """Position after the parenthesis that closes the one at `begin`; parentheses in strings
    are ignored."""
    depth, at = 0, begin
    while True:
        character = text[at]
        if character == '"':
            at = text.index('"', at + 1)
        depth += (character == "(") - (character == ")")
        at += 1
        if depth == 0:
            return at


def operands(text):
    """The expressions in `"constraint"(expression), …`."""
    at = 0
    while (begin := re.compile(r'\s*,?\s*"[^"]*"\s*(?=\()').match(text, at)) is not None:
        end = end_of_parentheses(text, begin.end())
        yield text[begin.end() : end]
        at = end


def translated_ptx(source):
    out, at = [], 0
    for found in re.finditer(r"\basm\s*(?:volatile)?\s*\(", source):
        end = end_of_parentheses(source, found.end() - 1)
        inside = source[found.end() : end - 1]
        template = re.match(r'(\s*"[^"]*"\s*)+', inside)
        ptx = "".join(re.findall(r'"([^"]*)"', template[0]))
        if ptx not in MEANINGS:
            sys.exit(f"unknown PTX {ptx!r}; add it to tests/emulator/translate.py")
        values = list(operands_of_sections(inside[template.end() :]))
        meaning = re.sub(r"\$(\d)", lambda digit: values[int(digit[1])], MEANINGS[ptx])
        out += [source[at : found.start()], f"do {{ {meaning}; }} while (false)"]
        at = end
    return "".join(out) + source[at:]


def operands_of_sections(text):
    """Parses all operands of `: outputs : inputs : clobbers`."""
    at = 0
    for _ in range(2):
        colon = re.compile(r"\s*:").match(text, at)
        if colon is None:
            return
        at = colon.end()
        found = list(operands(text[at:]))
        yield from found
        # Position after the last operand.
        for value in found:
            at = text.index(value, at) + len(value)


def translated(source):
    source = translated_ptx(source)
    source = re.sub(r"extern __shared__ __align__\(\d+\) unsigned char (\w+)\[\]", r"unsigned char* const \1 = emulator::dynamic_shared", source)
    source = source.replace("__shared__ ", "static ")
    return re.sub(r"const __grid_constant__ ([\w<>]+) (\w+)\)", r"const \1& \2)", source)


def main():
    kernels, out = map(pathlib.Path, sys.argv[1:])
    for file in sorted(kernels.glob("*/*.cu*")):
        target = out / file.relative_to(kernels)
        target.parent.mkdir(parents=True, exist_ok=True)
        text = translated(file.read_text())
        if not target.exists() or target.read_text() != text:
            target.write_text(text)


main()
