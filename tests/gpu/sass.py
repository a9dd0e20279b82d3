#!/usr/bin/env python3
# sass.py - finds spills in the machine code of every kernel. Counts the wide accesses of hot kernels, and their blocks on a multiprocessor.
# SPDX-License-Identifier: BSD-3-Clause
"""
    tests/gpu/sass.py FILE...                 objects of nvcc --no-compress, or cubins. Fails when a kernel reads or writes local memory
                                              (spilled registers, arrays), when fewer blocks of a kernel of tests/gpu/sass.txt fit, or
                                              when it has fewer wide loads or stores
    tests/gpu/sass.py --write LOG FILE...     writes the figures of the kernels in that file anew. LOG is the folder of launches that the
                                              emulated tests leave (build/cpu-emulated/tests/launched), for their shared memory.
                                              A row "sm_90 0 0 0 0 0 NAME" adds a kernel.
    tests/gpu/sass.py --print FILE...         prints the figures of all kernels

Needs no GPU and none of CUDA's tools: it reads the files themselves. Blocks follow from registers, shared memory and threads (CUDA
Programming Guide, "Compute Capabilities"). Wide loads and stores have 128 bits of global memory: LDG.128, LDGSTS.128 and STG.128 (CUDA
Binary Utilities, "Instruction Set Reference"). A kernel that is meant to be wide loses some if it falls back to narrower ones.
"""
import collections
import glob
import os
import struct
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
LIST = os.path.join(HERE, "sass.txt")
# Loads and stores of local and of global memory, and copies to shared memory, in the low 12 bits of an instruction as cuobjdump shows
# them. Bits 73 to 75 are the size of an access.
LDL, STL, LDG, STG, LDGSTS, BITS_128 = 0x983, 0x387, 0x981, 0x986, 0xFAE, 6
# Limits of a multiprocessor: shared memory in bytes, registers, threads and blocks. Only shared memory differs between these
# devices.
SM = {80: 164 * 1024, 90: 228 * 1024}
REGISTERS, THREADS, BLOCKS, RESERVED, REGISTER_UNIT, WARP_UNIT = 65536, 2048, 32, 1024, 256, 4

Kernel = collections.namedtuple("Kernel", "registers static threads local loads stores")
Listed = collections.namedtuple("Listed", "blocks loads stores dynamic")


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


def count(code):
    """Accesses of local memory, and wide loads and stores of global memory."""
    local = loads = stores = 0
    for low, high in struct.iter_unpack("<QQ", code):
        wide = high >> 9 & 7 == BITS_128
        local += low & 0xFFF in (LDL, STL)
        loads += low & 0xFFF in (LDG, LDGSTS) and wide
        stores += low & 0xFFF == STG and wide
    return local, loads, stores


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
                found[arch, name] = Kernel(registers[name], static, threads, *count(body))
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
    """(architecture, name): Listed"""
    known = {}
    with open(LIST) as f:
        for line in f:
            if not line.startswith("#"):
                arch, blocks_of_sm, loads, stores, _, dynamic, name = line.split()
                known[arch, name] = Listed(int(blocks_of_sm), int(loads), int(stores), int(dynamic))
    return known


def figures(key, kernel, dynamic):
    fit = blocks(int(key[0][3:]), kernel, dynamic) if kernel.threads else 0
    return Listed(fit, kernel.loads, kernel.stores, dynamic)


def row(key, kernel, dynamic):
    now = figures(key, kernel, dynamic)
    return "%s %d %d %d %d %d %s" % (key[0], now.blocks, now.loads, now.stores, kernel.threads, dynamic, key[1])


def compare(rows, known):
    bad = 0
    for key in sorted(rows):
        if rows[key][0].local:
            bad += 1
            print("sass: %s: %d local reads and writes: %s" % (key[0], rows[key][0].local, key[1].replace("_", " ")))
    for key, least in sorted(known.items()):
        if key not in rows:
            bad += 1
            print("sass: in tests/gpu/sass.txt, and not in these files: %s %s" % key)
            continue
        now = figures(key, rows[key][0], least.dynamic)
        for what, has, want in (("blocks", now.blocks, least.blocks), ("wide loads", now.loads, least.loads),
                                ("wide stores", now.stores, least.stores)):
            if has < want:
                bad += 1
                print("sass: %s: %d %s where tests/gpu/sass.txt has %d: %s" % (key[0], has, what, want, key[1].replace("_", " ")))
    print("sass: %d kernels, %d hot; %d findings" % (len(rows), len(known), bad))
    return bad


def main():
    argument = sys.argv[1:]
    if argument[:1] == ["--write"]:
        known, rows = read_list(), table(read(argument[2:]), launched(argument[1]))
        with open(LIST, "w") as f:
            f.write("# sass.txt - the hot kernels: architecture, least blocks on a multiprocessor, least loads and stores of 128 bits, threads,\n"
                    "# dynamic shared memory, name.\n")
            for key in sorted(known, key=lambda k: (k[1], k[0])):
                f.write(row(key, *rows[key]) + "\n")
        print("sass: %d kernels written to %s" % (len(known), LIST))
        return 0
    if argument[:1] == ["--print"]:
        rows, known = table(read(argument[1:]), {}), read_list()
        for key in sorted(rows, key=lambda k: (k[1], k[0])):
            print(row(key, rows[key][0], known[key].dynamic if key in known else 0))
        return 0
    rows = table(read(argument), {})
    if not rows:
        print("sass: no kernel in these files; were they made with nvcc --no-compress? Remove build/cuda-release")
        return 1
    return compare(rows, read_list()) > 0


sys.exit(main())
