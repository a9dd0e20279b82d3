#!/usr/bin/env python3
# sass.py - counts in every kernel's machine code, and its blocks on a multiprocessor; worse than was committed fails.
# SPDX-License-Identifier: BSD-3-Clause
"""
    tests/gpu/sass.py FILE...                 objects of nvcc --no-compress, or cubins; compares with tests/gpu/sass.txt
    tests/gpu/sass.py --write LOG FILE...     writes that file anew, for a commit that says why; LOG: the folder of launches that the
                                              emulated tests leave (build/cpu-emulated/tests/launched), for their shared memory
    tests/gpu/sass.py --print FILE...         prints the counts

Needs no GPU and none of CUDA's tools: it reads the files themselves. Of each kernel are counted, by opcode (NVIDIA, CUDA Binary
Utilities: Instruction Set Reference; the bits as cuobjdump shows them): hmma, products of tensor cores; ldsm, their operands from
shared memory; ldgsts, copies past the registers; wide, reads and writes of global memory of 16 bytes; local, reads and writes of
spilled registers and arrays; loop, instructions of the hottest loop for each of its products: the shortest loop with half of them.
blocks is what fits a multiprocessor by registers, shared memory and threads (CUDA Programming Guide, "Compute Capabilities").
"""
import collections
import glob
import os
import struct
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
LIST = os.path.join(HERE, "sass.txt")
HMMA, LDSM, LDGSTS, LDG, STG, LDL, STL, BRA = 0x23C, 0x83B, 0xFAE, 0x981, 0x986, 0x983, 0x387, 0x947
COUNTS = ["hmma", "ldsm", "ldgsts", "wide", "local", "loop"]
# Of a multiprocessor: registers, bytes of shared memory, threads, blocks; of these devices alike but the second.
SM = {80: 164 * 1024, 90: 228 * 1024}
REGISTERS, THREADS, BLOCKS, RESERVED, REGISTER_UNIT, WARP_UNIT = 65536, 2048, 32, 1024, 256, 4

Kernel = collections.namedtuple("Kernel", "registers static threads counts")


def images(data):
    """The ELF images of GPU code in a file: the file itself, or what nvcc put into an object."""
    at = data.find(b"\x7fELF\x02")
    while at >= 0:
        if struct.unpack_from("<H", data, at + 18)[0] == 190:
            yield data[at:]
        at = data.find(b"\x7fELF\x02", at + 4)


def sections(image):
    """Name, type, bytes, and the size in the program, of each section."""
    at, = struct.unpack_from("<Q", image, 40)
    size, n, names = struct.unpack_from("<HHH", image, 58)
    headers = [struct.unpack_from("<IIQQQQIIQQ", image, at + i * size) for i in range(n)]
    text = headers[names][4]
    for h in headers:
        name = image[text + h[0]:image.index(b"\0", text + h[0])].decode()
        yield name, h[1], image[h[4]:h[4] + h[5]] if h[1] != 8 else b"", h[5]


def attributes(info):
    """Number and bytes of each attribute of a .nv.info section."""
    at = 0
    while at + 4 <= len(info):
        form, number, size = struct.unpack_from("<BBH", info, at)
        at += 4
        if form == 4:
            yield number, info[at:at + size]
            at += size


def count(code, arch):
    n = dict.fromkeys(COUNTS, 0)
    products, loops = [0], []
    for i, (low, high) in enumerate(struct.iter_unpack("<QQ", code)):
        op = low & 0xFFF
        wide = (high >> 9 & 7) == 6
        n["hmma"] += op == HMMA
        n["ldsm"] += op == LDSM
        n["ldgsts"] += op == LDGSTS
        n["wide"] += op in (LDG, STG) and wide
        n["local"] += op in (LDL, STL)
        products.append(n["hmma"])
        if op == BRA:  # signed, in units of 4 bytes, behind the branch
            by = (low >> 34) | ((high & 0x3FFFF) << 30)
            by -= 1 << 48 if by >> 47 else 0
            by = (by << 8 | (low >> 16 & 0xFF)) if arch >= 90 else by
            to = i + 1 + by * 4 // 16
            if 0 <= to <= i:
                loops.append((i + 1 - to, to, i + 1))
    for size, begin, end in sorted(loops):
        inside = products[end] - products[begin]
        if inside and 2 * inside >= n["hmma"]:
            n["loop"] = round(size / inside, 1)
            break
    return n


def read(paths):
    """(architecture, mangled name): Kernel"""
    found = {}
    for path in paths:
        with open(path, "rb") as f:
            data = f.read()
        for image in images(data):
            arch = struct.unpack_from("<I", image, 48)[0] >> 8 & 0xFF
            parts = {name: (kind, body, size) for name, kind, body, size in sections(image)}
            symbols = parts[".symtab"][1]
            names = parts[".strtab"][1]
            registers = {}
            for number, value in attributes(parts[".nv.info"][1]):
                if number == 0x2F:  # symbol, registers
                    symbol, n = struct.unpack("<II", value)
                    at, = struct.unpack_from("<I", symbols, symbol * 24)
                    registers[names[at:names.index(b"\0", at)].decode()] = n
            for name, (_, body, _) in parts.items():
                if not name.startswith(".text."):
                    continue
                name = name[len(".text."):]
                about = dict(attributes(parts[".nv.info." + name][1]))
                threads = struct.unpack("<III", about[0x05])[0] if 0x05 in about else 0
                static = parts.get(".nv.shared." + name, (0, b"", 0))[2]
                found[arch, name] = Kernel(registers[name], static, threads, count(body, arch))
    return found


def blocks(arch, kernel, dynamic):
    """How many blocks of a kernel a multiprocessor takes."""
    unit = -(-kernel.registers * 32 // REGISTER_UNIT) * REGISTER_UNIT
    warps = -(-kernel.threads // 32)
    by_registers = REGISTERS // unit // WARP_UNIT * WARP_UNIT // warps
    shared = -(-(kernel.static + dynamic + RESERVED) // 128) * 128
    return min(by_registers, SM[arch] // shared, THREADS // (warps * 32), BLOCKS)


def demangle(names):
    said = subprocess.run(["c++filt", "-p"], input="\n".join(names), capture_output=True, text=True, check=True).stdout
    return dict(zip(names, said.splitlines()))


def plain(name):
    """One spelling of a kernel's name, of the compiler's and of the emulation's."""
    return name.replace("short unsigned int", "unsigned short").replace(" ", "_")


def launched(folder):
    """Name: most bytes of dynamic shared memory of a launch, as the emulated tests had them."""
    most = {}
    for path in glob.glob(os.path.join(folder, "*")):
        with open(path) as f:
            for line in f:
                if line.startswith("most "):
                    _, size, name = line.rstrip("\n").split(" ", 2)
                    most[plain(name)] = max(most.get(plain(name), 0), int(size))
    return most


def table(found, dynamic):
    """Rows of the list: architecture, name, figures."""
    names = demangle(sorted({name for _, name in found}))
    rows = {}
    for (arch, name), k in found.items():
        name = plain(names[name])
        rows["sm_%d" % arch, name] = (k, dynamic.get(name, 0))
    return rows


def read_list():
    known = {}
    with open(LIST) as f:
        for line in f:
            if not line.startswith("#"):
                word = line.split()
                known[word[0], word[-1]] = [float(w) for w in word[1:-1]]
    return known


def figures(arch, kernel, dynamic):
    c = kernel.counts
    return [blocks(int(arch[3:]), kernel, dynamic) if kernel.threads else 0, kernel.threads, dynamic] + [c[n] for n in COUNTS]


def compare(rows, known):
    bad = 0
    what = ["blocks of a multiprocessor", "threads", "dynamic"] + COUNTS
    fewer = {0, 3, 5, 6}  # worse when there are fewer; the others but threads and dynamic when more
    for key in sorted(rows):
        if key not in known:
            bad += 1
            print("sass: not in the list: %s %s" % key)
            continue
        want = known[key]
        now = figures(key[0], rows[key][0], int(want[2]))
        for i in (0, 3, 4, 5, 6, 7, 8):
            if now[i] < want[i] if i in fewer else now[i] > want[i]:
                bad += 1
                print("sass: %s: %g %s where %g stand in the list: %s" % (key[0], now[i], what[i], want[i], key[1].replace("_", " ")))
    for key in sorted(set(known) - set(rows)):
        bad += 1
        print("sass: in the list, and not in these files: %s %s" % key)
    print("sass: %d kernels, %d worse than tests/gpu/sass.txt" % (len(rows), bad))
    return bad


def lines(rows):
    return ["%s %s %s" % (a, " ".join("%g" % x for x in figures(a, *rows[a, n])), n) for n, a in sorted((n, a) for a, n in rows)]


def main():
    argument = sys.argv[1:]
    if argument[:1] == ["--write"]:
        rows = table(read(argument[2:]), launched(argument[1]))
        with open(LIST, "w") as f:
            f.write("# sass.txt - what sass.py allows each kernel: architecture, blocks, threads, dynamic shared memory, "
                    + ", ".join(COUNTS) + ", name.\n" + "\n".join(lines(rows)) + "\n")
        print("sass: %d kernels written to %s" % (len(rows), LIST))
        return 0
    if argument[:1] == ["--print"]:
        print("\n".join(lines(table(read(argument[1:]), {}))))
        return 0
    rows = table(read(argument), {})
    if not rows:
        print("sass: no kernel in these files; were they made with nvcc --no-compress? Remove build/cuda-release")
        return 1
    return compare(rows, read_list()) > 0


sys.exit(main())
