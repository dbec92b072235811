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


@pytest.fixture(scope="module")
def trees() -> dict[str, ast.Module]:
    """Of each file its syntax tree."""
    return {str(path.relative_to(ROOT)): ast.parse(path.read_text()) for path in PYTHON}


@pytest.fixture(scope="module")
def shipped(trees: dict[str, ast.Module]) -> dict[str, ast.Module]:
    return {name: tree for name, tree in trees.items() if name.startswith("src/")}


def test_files_and_functions_stay_small(trees: dict[str, ast.Module]) -> None:
    long_files = [str(path) for path in PYTHON if path.read_text().count("\n") > MOST_FILE_LINES]
    assert long_files == []
    long_functions = [
        (name, node.name)
        for name, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and (node.end_lineno or 0) - node.lineno >= MOST_FUNCTION_LINES
    ]
    assert long_functions == []


def test_nothing_catches_everything_or_defers_annotations(shipped: dict[str, ast.Module]) -> None:
    for name, tree in shipped.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ExceptHandler):
                assert node.type is not None, (name, node.lineno)
                assert not (isinstance(node.type, ast.Name) and node.type.id == "Exception"), (name, node.lineno)
            if isinstance(node, ast.ImportFrom):
                assert node.module != "__future__", (name, node.lineno)


def imported(tree: ast.AST) -> set[str]:
    return {
        name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in [getattr(node, "module", None) or "", *[alias.name for alias in node.names]]
    }


def test_only_the_kernels_of_ops_and_what_reads_rows_and_experts_import_the_native_module(
    shipped: dict[str, ast.Module],
) -> None:
    allowed = r"src/shoal/(ops/\w*kernels|weights/(row_reader|engram_store|expert_reader))\.py"
    found = [name for name, tree in shipped.items() if "shoal._native" in imported(tree)]
    assert found
    assert [name for name in found if not re.fullmatch(allowed, name)] == []


def test_only_cli_prints_or_reads_the_environment(shipped: dict[str, ast.Module]) -> None:
    for name, tree in shipped.items():
        if "cli" in Path(name).parts:
            continue
        for node in ast.walk(tree):
            assert not (isinstance(node, ast.Name) and node.id == "print"), (name, node.lineno)
            assert not (isinstance(node, ast.Attribute) and node.attr in ("environ", "getenv")), (name, node.lineno)


def test_the_data_of_tests_and_package_stays_small() -> None:
    folders = ROOT / "tests" / "data", ROOT / "src" / "shoal" / "data"
    sizes = [path.stat().st_size for folder in folders for path in folder.rglob("*") if path.is_file()]
    assert max(sizes) <= MOST_FILE_BYTES
    assert sum(sizes) <= MOST_DATA_BYTES


def test_imports_go_down_the_floors() -> None:
    linter = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([linter, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
