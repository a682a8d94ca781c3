"""Programs that judge what we print, borrowed for one run: nothing is installed on the machine."""

import os
import shutil
import subprocess
import sys
from pathlib import Path


class NotToBeHad(Exception):
    """Neither the machine nor a package registry has it."""


def run(*command: str | Path, cwd: Path | None = None, stdin: str | None = None) -> str:
    """What *command* says on both streams. RuntimeError with that when it fails."""
    done = subprocess.run(
        command,
        cwd=cwd,
        input=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{Path(command[0]).name} {' '.join(map(str, command[1:]))}\n{done.stdout}")
    return done.stdout


def debian_programs(package: str, names: tuple[str, ...], folder: Path) -> dict[str, str]:
    """Where *names* are: on the PATH, or in Debian's *package*, unpacked into *folder*. Raises NotToBeHad.

    Package lists are read into *folder* as well, so this needs neither root nor an `apt-get update` before.
    """
    found = {name: shutil.which(name) for name in names}
    if all(found.values()):
        return {name: str(path) for name, path in found.items()}
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
        raise NotToBeHad(f"{', '.join(names)} are not on the PATH, and there is no apt-get to ask")
    for name in ("lists/partial", "archives/partial", "unpacked"):
        (folder / name).mkdir(parents=True)
    options = [
        "-q", "-o", f"Dir::State::Lists={folder / 'lists'}", "-o", f"Dir::Cache={folder}",
        "-o", f"Dir::Cache::Archives={folder / 'archives'}", "-o", "APT::Sandbox::User=root",
        "-o", "Acquire::Retries=1", "-o", "Acquire::http::Timeout=20", "-o", "Acquire::https::Timeout=20",
    ]  # fmt: skip
    try:
        run("apt-get", *options, "update")
        run("apt-get", *options, "download", package, cwd=folder)
        (archive,) = folder.glob("*.deb")
        run("dpkg-deb", "-x", archive, folder / "unpacked")
    except RuntimeError as error:
        raise NotToBeHad(f"apt-get could not bring the package {package}: {error}") from error
    return {name: str(folder / "unpacked" / "usr" / "bin" / name) for name in names}


def npm_packages(folder: Path, *packages: str) -> None:
    """Put npm *packages* (`name@version`) into *folder*. Raises NotToBeHad."""
    if not (shutil.which("npm") and shutil.which("node")):
        raise NotToBeHad("there is no npm on the PATH")
    options = (
        "--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock", "--prefix", str(folder),
        "--fetch-retries=1", "--fetch-retry-mintimeout=1000", "--fetch-timeout=30000",
    )  # fmt: skip  # without the last three npm waits for minutes for a registry that is not there
    try:
        run("npm", "install", *options, *packages, cwd=folder)
    except RuntimeError as error:
        raise NotToBeHad(f"npm could not bring {', '.join(packages)}: {error}") from error


def without(what: str, why: NotToBeHad) -> int:
    """Say loudly that *what* was not checked; 0, unless AIJOBS_ORACLES=required makes that a failure."""
    required = os.environ.get("AIJOBS_ORACLES") == "required"
    lines = str(why).strip().splitlines()
    print(f"!!! NOT CHECKED: {what}. {lines[0]} !!!", *lines[1:], sep="\n", file=sys.stderr, flush=True)
    return 1 if required else 0
