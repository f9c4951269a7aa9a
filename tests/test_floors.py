"""The architecture's rules that a machine can hold: floors, faces without engines, what lies at the top."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

import pytest

from tests.support import ROOT
from tests.test_size import PAGES, ROOMS

# The rooms of docs/architecture.md and tests/test_size.py, from the top, each with its floors, from the top. A module
# may import from floors below its own, from its own package, and a lone module of `engine` also from those beside it.
FLOORS: dict[str, list[tuple[str, ...]]] = {
    "app.py, pages/*.py": [("app",), ("pages",)],
    "pages/_live/, _drift/, ...": [tuple(f"pages._{name}" for name in ("app", *PAGES))],
    "pages/_kit/": [("pages._kit",)],
    "engine/cli/": [("engine.__main__",), ("engine.cli",)],
    "engine/handover/": [("engine.handover",)],
    "engine/questions/": [("engine.questions",)],
    "engine/evidence/, engine/comparing/": [("engine.evidence", "engine.comparing")],
    "engine/jobs/": [("engine.jobs",)],
    "engine/inspection/": [("engine.inspection",)],
    "engine/profile/, engine/logits/": [("engine.profile", "engine.logits")],
    "engine/store/": [("engine.store",)],
    "engine/decode/": [("engine.decode",)],
    "engine/lp/, engine/models/": [("engine.lp",), ("engine.models",)],
    "engine/text/": [("engine.text",)],
    "engine/chem/": [("engine.chem",)],
    "engine/figures/, sandbox.py, errors.py, records.py, paths.py": [
        ("engine.assets",),
        ("engine.figures",),
        (
            *("engine.records", "engine.lp_records", "engine.errors", "engine.paths", "engine.user_files"),
            *("engine.file_forms", "engine.installed", "engine.processes", "engine.sandbox"),
        ),
        ("engine",),  # the package itself: its version
    ],
}
_FROM_THE_GROUND = [units for floors in FLOORS.values() for units in floors][::-1]
FLOOR_OF = {unit: floor for floor, units in enumerate(_FROM_THE_GROUND) for unit in units}
LONE = {unit for unit in FLOOR_OF if (ROOT / f"{unit.replace('.', '/')}.py").is_file()}

SOURCE_SUFFIXES = {".py", ".js", ".css", ".html", ".sql"}

# Joined here, so that this file does not hold what it forbids.
_ENDS = {"org": "pypi pythonhosted npmjs debian", "com": "npmjs unpkg", "io": "crates", "net": "jsdelivr"}
REGISTRY_HOSTS = [f"{name}.{end}".encode() for end, names in _ENDS.items() for name in names.split()]


def sources(*tops: str) -> list[Path]:
    paths = [path for top in tops for path in ([ROOT / top] if top.endswith(".py") else (ROOT / top).rglob("*"))]
    return sorted(path for path in paths if path.suffix in SOURCE_SUFFIXES and path.is_file())


def modules(*tops: str) -> list[Path]:
    return [path for path in sources(*tops) if path.suffix == ".py"]


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def parsed(source: str) -> ast.Module:
    """Python 3.11's parser fails at times where another thread, such as a worker of a test before, is in it too."""
    for _ in range(10):
        with suppress(SystemError):
            return ast.parse(source)
    return ast.parse(source)


def imported(source: str, package: str) -> Iterator[tuple[int, str]]:
    """Line and dotted name of each import anywhere in ``source``; ``from a import b`` counts as ``a.b``."""
    for node in ast.walk(parsed(source)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            origin = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                origin = ".".join([*above, *([origin] if origin else [])])
            yield from ((node.lineno, f"{origin}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Call) and _calls_import(node.func) and node.args:
            first = node.args[0]
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                yield node.lineno, first.value


def _calls_import(function: ast.expr) -> bool:
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return name in ("import_module", "__import__")


@cache
def imports_of(path: Path) -> list[tuple[int, str]]:
    name = module_name(path)
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    return list(imported(path.read_text(encoding="utf-8"), package))


def unit_of(dotted: str) -> str | None:
    """The longest entry of FLOORS that ``dotted`` lies in; None for what is not ours."""
    parts = dotted.split(".")
    names = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
    return next((name for name in names if name in FLOOR_OF), None)


def allowed(importer: str, target: str) -> bool:
    below = FLOOR_OF[target] < FLOOR_OF[importer]
    same_floor = FLOOR_OF[target] == FLOOR_OF[importer] and {importer, target} <= LONE
    return below or same_floor or importer == target


def test_a_module_imports_only_from_floors_below_its_own() -> None:
    wrong = []
    for path in modules("engine", "pages", "app.py"):
        importer = unit_of(module_name(path))
        assert importer is not None
        if importer == "engine":
            assert path.name == "__init__.py", f"{path.relative_to(ROOT)} stands on no floor: add it to FLOORS"
        wrong += [
            f"{path.relative_to(ROOT)}:{line}: {dotted}"
            for line, dotted in imports_of(path)
            if (target := unit_of(dotted)) is not None and not allowed(importer, target)
        ]
    assert not wrong, "these reach up or sideways"


def test_documents_and_tests_have_the_same_rooms_in_one_order() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = re.search(r"^\| room \|.*\n\|---.*\n((?:\|.*\n)+)", text, re.MULTILINE)
    assert table
    described = [row.split(" | ")[0].removeprefix("| ").replace("`", "") for row in table[1].splitlines()]
    assert described == list(FLOORS) == list(ROOMS)[: len(FLOORS)] and len(FLOORS) == 16


def may_page_import(importer: str, target: str) -> bool:
    """A page, and app.py, has its own folder and the kit; the kit has itself. The rest is the floors' matter."""
    parts = target.split(".")
    if parts[0] != "pages" or len(parts) == 1:
        return True
    name = importer.split(".")[1] if importer.startswith("pages.") else importer
    return parts[1] in ("_kit", f"_{name.removeprefix('_')}")


def circles(imports: dict[str, set[str]]) -> list[set[str]]:
    """Groups of modules that import each other, directly or through others."""
    reached: dict[str, set[str]] = {}
    for name in imports:
        reached[name], waiting = set(), [*imports[name]]
        while waiting:
            if (target := waiting.pop()) not in reached[name]:
                reached[name].add(target)
                waiting += imports.get(target, ())
    groups = {frozenset(other for other in reached[name] if name in reached[other]) for name in imports}
    return sorted((set(group) for group in groups if group), key=sorted)


def test_no_circle_among_modules() -> None:
    """Imports anywhere count, also those inside a function and those for the type checker."""
    paths = {module_name(path): path for path in modules("engine", "pages", "app.py")}

    def module_of(dotted: str) -> str:
        return dotted if dotted in paths else dotted.rpartition(".")[0]

    imports = {name: {module_of(dotted) for _, dotted in imports_of(path)} for name, path in paths.items()}
    ours = {name: (targets & paths.keys()) - {name} for name, targets in imports.items()}
    assert not circles(ours)


def test_circles_are_found() -> None:
    imports = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": set(), "f": {"g"}, "g": {"f"}}
    assert circles(imports) == [{"a", "b", "c"}, {"f", "g"}]


def test_pages_share_the_kit_alone() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {dotted}"
        for path in modules("pages", "app.py")
        for line, dotted in imports_of(path)
        if not may_page_import(module_name(path), dotted)
    ]
    assert not wrong, "these belong to another page: move what both need to pages/_kit"


UNPICKLERS = {"pickle", "cPickle", "_pickle", "cloudpickle", "dill", "joblib", "shelve", "marshal", "copyreg"}
MAY_PICKLE = {
    "engine.chem.molecule_unpickler",  # files, in a process of their own
    "engine.inspection.conformers",  # writes alone
}
UNPICKLING = re.compile(r"\btorch\.load\(|read_pickle\(|allow_pickle=True|\bpickle\.loads?\(|Unpickler\(")


def test_files_are_unpickled_in_one_place() -> None:
    paths = {module_name(path): path for path in modules("engine", "pages", "app.py", "tools")}
    assert {name for name, path in paths.items() if top_names(path) & UNPICKLERS} == MAY_PICKLE
    texts = {name: path.read_text(encoding="utf-8") for name, path in paths.items()}
    reading = {name for name, text in texts.items() if UNPICKLING.search(text)}
    assert reading == {"engine.chem.molecule_unpickler"}


def top_names(path: Path) -> set[str]:
    return {dotted.split(".")[0] for _, dotted in imports_of(path)}


def test_the_product_imports_and_starts_no_tool() -> None:
    names = {module_name(path): path.read_text("utf-8") for path in modules("engine", "pages", "app.py")}
    wrong = {module_name(path) for path in modules("engine", "pages", "app.py") if "tools" in top_names(path)}
    assert wrong | {name for name, text in names.items() if re.search(r"[\"']-m[\"'], [\"']tools\b", text)} == set()


def test_a_face_imports_no_engine_room_and_the_engine_no_face() -> None:
    assert not [path for path in modules("pages", "app.py") if top_names(path) & {"torch", "transformers", "duckdb"}]
    assert not [path for path in modules("engine") if "streamlit" in top_names(path)]


def repository_files() -> list[Path]:
    """What is tracked or would be: everything that git does not ignore."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    names = listed.stdout.decode("utf-8", "surrogateescape").split("\0")
    return [ROOT / name for name in names if name and (ROOT / name).is_file()]


def test_the_top_level_holds_what_it_should() -> None:
    top = {path.relative_to(ROOT).parts[0] for path in repository_files()}
    folders = set(".ci .streamlit data docs engine pages tests tools".split())
    files = set(".dockerignore .gitattributes .gitignore .pre-commit-config.yaml CHANGELOG.md CITATION.cff".split())
    files |= set("CONTRIBUTING.md Dockerfile LICENSE Makefile README.md app.py pyproject.toml".split())
    assert not {name for name in top - folders - files if not re.fullmatch(r"requirements[a-z-]*\.(txt|lock)", name)}


def test_the_container_serves_as_a_user_without_rights() -> None:
    """Who owns the program, and the folder that the store's volume covers, which is there before it."""
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    made, user, copied, store, volume, served = (
        next(at for at, line in enumerate(lines) if part in line)
        for part in ("useradd", "USER ", "COPY --chown=driftscope", "mkdir -p data/store", "VOLUME ", "CMD ")
    )
    assert made < user < copied < store < volume < served
    assert [line for line in lines if line.startswith("USER")] == ["USER driftscope"]


def test_hooks_before_a_commit_are_ruff_alone() -> None:
    hooks = re.findall(r"entry: (.+)", (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    assert [hook.split(" -m ")[1].split()[:2] for hook in hooks] == [["ruff", "check"], ["ruff", "format"]]


def test_no_file_names_a_package_registry() -> None:
    named = [
        f"{path.relative_to(ROOT)}: {host.decode()}"
        for path in repository_files()
        for host in REGISTRY_HOSTS
        if host in path.read_bytes()
    ]
    assert not named
