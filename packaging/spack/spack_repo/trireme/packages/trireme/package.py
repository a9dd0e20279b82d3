# package.py - the Spack package. It builds the tree around it at the checked-out commit.
# SPDX-License-Identifier: BSD-3-Clause
#
# spack repo add packaging/spack/spack_repo/trireme && spack install trireme +cuda cuda_arch=90
import pathlib

from spack_repo.builtin.build_systems.cmake import CMakePackage, generator
from spack_repo.builtin.build_systems.cuda import CudaPackage

from spack.package import *


class Trireme(CMakePackage, CudaPackage):
    """Reinforcement learning of language models on Slurm clusters: one C program, one MPI rank per GPU."""

    git = pathlib.Path(__file__).resolve().parents[6].as_uri()

    license("BSD-3-Clause")

    version("main", branch="main")

    variant("nccl", default=True, when="+cuda", description="Collectives between GPUs by NCCL, else through host memory")
    variant("pmix", default=True, description="Ask PMIx for rank and node")
    variant("curl", default=True, description="The reward http")
    variant("onednn", default=True, description="Matrix products by oneDNN, else by OpenBLAS (f32 only)")

    depends_on("c", type="build")
    depends_on("cxx", type="build", when="+cuda")
    depends_on("cmake@3.21:", type="build")
    depends_on("ninja", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("mpi@3:")
    depends_on("hdf5+mpi")
    depends_on("libyaml")
    depends_on("jansson")
    depends_on("pcre2")
    depends_on("utf8proc")
    depends_on("zlib-api")
    depends_on("zstd")
    depends_on("onednn@2.6:", when="+onednn")
    depends_on("openblas", when="~onednn")
    depends_on("pmix", when="+pmix")
    depends_on("curl", when="+curl")
    depends_on("cuda@12:", when="+cuda")
    depends_on("nccl@2.26:", when="+nccl")
    depends_on("cmocka", type="test")

    generator("ninja")

    conflicts("cuda_arch=none", when="+cuda", msg="name the GPUs that are meant: cuda_arch=80, cuda_arch=90")

    def cmake_args(self):
        args = [
            self.define("TRI_ARCH", ""),  # Spack's compiler wrapper says for which processor, at the least
            self.define("TRI_MODULES", ""),  # libraries are found by their run path
            self.define("TRI_CUDA", "ON" if self.spec.satisfies("+cuda") else "OFF"),
            self.define("TRI_NCCL", "ON" if self.spec.satisfies("+cuda +nccl") else "OFF"),
            self.define("TRI_PMIX", "ON" if self.spec.satisfies("+pmix") else "OFF"),
            self.define("TRI_CURL", "ON" if self.spec.satisfies("+curl") else "OFF"),
            self.define("TRI_ONEDNN", "ON" if self.spec.satisfies("+onednn") else "OFF"),
        ]
        if self.spec.satisfies("+cuda"):
            args.append(self.define("CMAKE_CUDA_ARCHITECTURES", ";".join(self.spec.variants["cuda_arch"].value)))
        return args
