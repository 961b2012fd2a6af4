"""Compile the loops in src/sfumato/loops when the package is built. Without a C compiler the package works too, in Numba.

``python hatch_build.py`` compiles in place.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shlex
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NAMES = (
    *("hop.c", "products.c", "rows.c", "chain.c", "optimizers.c", "sampler.c", "hash.c", "triangles.c"),
    *("levels.h", "rows.h", "sampler.h"),
)
SOURCES = tuple(Path("src/sfumato/loops") / name for name in NAMES)
LIBRARY = SOURCES[0].with_suffix(".native")
MACOS = "11.0"


class CompileHook(BuildHookInterface):
    """Puts the compiled library into a wheel, or beside its source for an editable installation."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        root = Path(self.root)
        if compile_library([root / source for source in SOURCES], root / LIBRARY):
            build_data["artifacts"].append(f"/{LIBRARY.as_posix()}")
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{platform_tag()}"


def compile_library(sources: Sequence[Path], library: Path) -> bool:
    """Compile ``sources`` to ``library`` and return True; say why not, leave no file, and return False where that fails."""
    library.unlink(missing_ok=True)
    if os.name != "posix":
        return False
    partial = library.with_suffix(".partial")
    macos = [f"-mmacosx-version-min={MACOS}", "-arch", platform.machine()] if sys.platform == "darwin" else []
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()
    flags = [
        "-std=gnu11",
        "-O3",
        "-ffp-contract=off",
        "-fno-math-errno",
        "-shared",
        "-fPIC",
        "-pthread",
        f'-DSOURCE="{digest}"',
        *macos,
    ]
    command = [
        *shlex.split(os.environ.get("CC") or "cc"),
        *flags,
        *(str(source) for source in sources if source.suffix == ".c"),
        "-o",
        str(partial),
        "-lm",
    ]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        partial.unlink(missing_ok=True)
        print(f"{sources[0].name} was not compiled: {getattr(error, 'stderr', None) or error}", file=sys.stderr)
        return False
    partial.replace(library)
    return True


def platform_tag() -> str:
    """The platform of a wheel that holds the library: of the machine that it was compiled on."""
    if sys.platform == "darwin":
        return f"macosx_{MACOS.replace('.', '_')}_{platform.machine()}"
    return sysconfig.get_platform().replace("-", "_").replace(".", "_")


if __name__ == "__main__":
    sys.exit(not compile_library(SOURCES, LIBRARY))
