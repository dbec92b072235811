"""Programs in C++ that drive the native kernels without Python, built with the flags of CMakeLists.txt.

Objects are kept in `build/native-tests` and built again when a source, a header or a flag has changed.
"""

import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
NATIVE, HERE, BUILD = ROOT / "src/shoal/native", ROOT / "tests/native", ROOT / "build/native-tests"
COMMON = ("-std=c++20", "-Wall", "-Wextra", "-Werror", "-pthread", f"-I{NATIVE}", f"-I{HERE}")
SECONDS = 300


def cmake_list(name: str) -> list[str]:
    """What CMakeLists.txt first sets `name` to."""
    text = re.sub(r"#.*", "", (ROOT / "CMakeLists.txt").read_text())
    found = re.search(rf"set\({name}\s+([^)]*)\)", text)
    assert found is not None, name
    words: list[str] = []
    for word in found[1].split():
        inner = re.fullmatch(r"\$\{(flags_\w+|native)\}", word)
        words += cmake_list(inner[1]) if inner else [word]
    return words


def kernel_sources() -> list[Path]:
    """The files that are compiled once per instruction set."""
    return [NATIVE / f"{name}.cpp" for name in ("kernels", *cmake_list("families"))]


def kernel_sources_of(families: Sequence[str]) -> list[Path]:
    """Those of some families; of none named, all."""
    return [path for path in kernel_sources() if path.stem in families or not families]


def module_objects(isa: str) -> list[Path]:
    """What CMake made of the kernels as they are now; nothing where a source is younger."""
    youngest = max(path.stat().st_mtime for path in (*NATIVE.iterdir(), ROOT / "CMakeLists.txt"))
    for folder in ROOT.glob(f"build/*/CMakeFiles/kernels_{isa}.dir/src/shoal/native"):
        made = [folder / f"{source.name}.o" for source in kernel_sources()]
        if all(path.exists() and path.stat().st_mtime > youngest for path in made):
            return made
    return []


@dataclass(frozen=True)
class Toolchain:
    """A compiler, what it builds for, and how that is run here."""

    machine: str
    compiler: str
    options: tuple[str, ...] = ()
    runner: tuple[str, ...] = ()

    def isa_options(self, isa: str) -> list[str]:
        """How CMakeLists.txt has a kernel compiled."""
        flags = [] if isa == "portable" else cmake_list(f"flags_{isa}")
        return ["-O3", *cmake_list("exact"), *flags, f"-DSHOAL_ISA={isa}"]

    def compile(self, source: Path, options: Sequence[str]) -> Path:
        """The object of `source`."""
        headers = sorted(
            path for folder in (NATIVE, HERE) for path in folder.glob("*") if path.suffix in (".h", ".inl")
        )
        contents = b"".join(path.read_bytes() for path in (source, *headers))
        return self._make(f"{source.stem}.o", ["-c", *options], [source], contents)

    def link(self, name: str, objects: Sequence[Path], options: Sequence[str] = ()) -> Path:
        """The program of `objects`."""
        return self._make(name, options, objects, b"".join(path.read_bytes() for path in objects))

    def _make(self, name: str, options: Sequence[str], inputs: Sequence[Path], contents: bytes) -> Path:
        """Runs the compiler, unless it made the same of the same contents before; then what it made of others goes."""
        command = [self.compiler, *COMMON, *self.options, *options]
        kind = hashlib.sha256("\0".join(command).encode()).hexdigest()[:12]
        made = BUILD / f"{kind}-{name}-{hashlib.sha256(contents).hexdigest()[:12]}{Path(name).suffix}"
        with alone(BUILD / f"{kind}-{name}.lock"):
            if not made.exists():
                for old in BUILD.glob(f"{kind}-{name}-*"):
                    old.unlink()
                part = BUILD / f"{kind}-{name}.part"
                done = subprocess.run([*command, *inputs, "-o", part], capture_output=True, text=True, check=False)
                assert done.returncode == 0, done.stderr[-4000:]
                part.rename(made)
        return made

    def program(self, name: str, options: Sequence[str], libraries: Sequence[Path] = ()) -> Path:
        """The program of `tests/native/<name>.cpp` and other sources, all compiled alike."""
        objects = [self.compile(source, options) for source in (HERE / f"{name}.cpp", *libraries)]
        return self.link(name, objects, options)

    def kernel_objects(self, isa: str, options: Sequence[str] = ()) -> list[Path]:
        """The objects of an instruction set; `options` come last and win. Those of the module where they will do."""
        if not options and self.machine == platform.machine() and (made := module_objects(isa)):
            return made
        return [self.compile(source, [*self.isa_options(isa), *options]) for source in kernel_sources()]

    def kernels_test(self, isas: Sequence[str], options: Sequence[str] = ()) -> Path:
        """The driver of the operators, with the tables of `isas`."""
        return self.driver(isas, [path for isa in isas for path in self.kernel_objects(isa, options)], options)

    def emulating(self, isa: str, header: str, families: Sequence[str], options: Sequence[str]) -> Path:
        """The driver of `isa`, where `header` gives the `families` instructions that this machine lacks."""
        given = ["-O1", *options, "-Wno-ignored-attributes", "-include", header]
        compiled = {path: self.compile(path, [*self.isa_options(isa), *given]) for path in kernel_sources_of(families)}
        others = [path for path in kernel_sources() if path not in compiled]
        kept = {} if not others else dict(zip(kernel_sources(), self.kernel_objects(isa), strict=True))
        return self.driver([isa], [*compiled.values(), *(kept[path] for path in others)], name=Path(header).stem)

    def driver(
        self, isas: Sequence[str], objects: Sequence[Path], options: Sequence[str] = (), name: str = "kernels_test"
    ) -> Path:
        """The driver of the operators that the `objects` hold, with the tables of `isas`."""
        tables = BUILD / "-".join(isas)
        tables.mkdir(parents=True, exist_ok=True)
        content = f"#define SHOAL_TABLES(X) {''.join(f'X({isa})' for isa in isas)}\n"
        if not (tables / "tables.h").exists():
            write_whole(tables / "tables.h", content)
        baseline = ["-O2", *options, f"-I{tables}"]
        sources = HERE / "kernels_test.cpp", NATIVE / "dispatch.cpp", NATIVE / "pool.cpp"
        return self.link(
            f"{name}-{tables.name}", [*objects, *(self.compile(path, baseline) for path in sources)], options
        )

    def run(self, program: Path, *arguments: str, runner: Sequence[str] = (), **environment: str) -> str:
        """What it prints; it must end well and say nothing on stderr."""
        command = [*(runner or self.runner), str(program), *arguments]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=SECONDS, env={**os.environ, **environment}
        )
        assert (done.returncode, done.stderr) == (0, ""), done.stderr[-4000:]
        return done.stdout


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """While other test processes wait for the same lock."""
    BUILD.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def write_whole(path: Path, content: str) -> None:
    part = path.with_suffix(f".{os.getpid()}")
    part.write_text(content)
    part.rename(path)


@pytest.fixture(scope="session")
def host() -> Toolchain:
    """The compiler of this machine."""
    compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    return Toolchain(platform.machine(), compiler)


@pytest.fixture(scope="session")
def arm() -> Toolchain:
    """A compiler for AArch64, and an emulator."""
    compiler, emulator = shutil.which("aarch64-linux-gnu-g++"), shutil.which("qemu-aarch64")
    if compiler is None or emulator is None:
        pytest.skip("no aarch64-linux-gnu-g++ or no qemu-aarch64")
    return Toolchain("aarch64", compiler, ("-static",), (emulator, "-cpu", "max"))
