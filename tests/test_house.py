"""What the tree promises about itself: sizes, imports, words."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = sorted((ROOT / "src").rglob("*.py"))
OTHERS = [path for folder in ("tests", "training", "benchmarks") for path in sorted((ROOT / folder).rglob("*.py"))]
PYTHON = [*SOURCES, *OTHERS]
MOST_FILE_LINES, MOST_FUNCTION_LINES = 500, 60
MOST_FILE_BYTES, MOST_DATA_BYTES = 7 << 20, 40 << 20


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", PYTHON, ids=relative)
def test_files_and_functions_stay_small(path: Path) -> None:
    text = path.read_text()
    assert text.count("\n") <= MOST_FILE_LINES
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef) and node.end_lineno is not None:
            assert node.end_lineno - node.lineno < MOST_FUNCTION_LINES, node.name


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_nothing_catches_everything_or_defers_annotations(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ExceptHandler):
            assert node.type is not None
            assert not (isinstance(node.type, ast.Name) and node.type.id == "Exception"), node.lineno
        if isinstance(node, ast.ImportFrom):
            assert node.module != "__future__", node.lineno


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_only_the_kernels_of_ops_and_the_row_reader_import_the_native_module(path: Path) -> None:
    names = {
        name
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in [getattr(node, "module", None) or "", *[alias.name for alias in node.names]]
    }
    allowed = r"src/shoal/(ops/\w*kernels|weights/row_reader)\.py"
    assert ("shoal._native" in names) <= bool(re.fullmatch(allowed, relative(path)))


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_only_cli_prints_or_reads_the_environment(path: Path) -> None:
    if "cli" in path.parts:
        return
    for node in ast.walk(ast.parse(path.read_text())):
        assert not (isinstance(node, ast.Name) and node.id == "print"), node.lineno
        assert not (isinstance(node, ast.Attribute) and node.attr in ("environ", "getenv")), node.lineno


def test_the_data_of_tests_and_package_stays_small() -> None:
    folders = ROOT / "tests" / "data", ROOT / "src" / "shoal" / "data"
    sizes = [path.stat().st_size for folder in folders for path in folder.rglob("*") if path.is_file()]
    assert max(sizes) <= MOST_FILE_BYTES
    assert sum(sizes) <= MOST_DATA_BYTES


def test_imports_go_down_the_floors() -> None:
    linter = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([linter, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
