"""Files that appear whole or not at all, and points kept as JSON Lines beside a manifest."""

from __future__ import annotations

import hashlib
import json
import math
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any


def jsonable(value: Any) -> Any:
    """`value` in JSON's own types: infinities as "inf" and "-inf", NaN as null, arrays as lists, paths as text."""
    if isinstance(value, Mapping):
        return {str(key): jsonable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [jsonable(item) for item in value]
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "to_json"):
        return jsonable(value.to_json())
    if hasattr(value, "tolist"):  # a numpy scalar or array
        return jsonable(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else ("inf" if value > 0 else "-inf")
    return value


def canonical(value: Any) -> str:
    """The one JSON text of `value`: sorted keys, no spaces."""
    return json.dumps(jsonable(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def spec_hash(spec: Any) -> str:
    """Sixteen hexadecimal digits that name a spec."""
    return hashlib.sha256(canonical(spec).encode(errors="backslashreplace")).hexdigest()[:16]


def write_whole(path: Path, content: str | bytes) -> None:
    """Write `path` under a temporary name, then rename it: readers see the old file or the new, never half of one.

    What is no regular file (/dev/null, /dev/stdout, a named pipe) is written to and never replaced.
    """
    path = Path(os.path.realpath(path))  # through a link, which stays one
    raw = content.encode() if isinstance(content, str) else content
    if path.exists() and not path.is_file():  # a device or a pipe: a rename would put a file in its place
        with path.open("wb") as stream:
            stream.write(raw)
        return
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(raw)
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


class Records:
    """Finished points of one spec: `PATH` holds a JSON line a point, `PATH.manifest.json` the spec and provenance.

    Opening drops a half-written last line and nothing else. Raises ValueError where the file belongs to another spec.
    """

    def __init__(self, path: Path, spec: Mapping[str, Any], provenance: Mapping[str, Any]) -> None:
        self.path = Path(path)
        if self.path.exists() and not self.path.is_file():
            raise ValueError("is no regular file; expected one that can be read again")
        self.manifest = self.path.with_name(self.path.name + ".manifest.json")
        name = spec_hash(spec)
        if self.manifest.exists():
            found, begun = self._manifest()
            if found != name:
                other = _different(begun, jsonable(spec))
                raise ValueError(f"holds points of another spec (other {other}); choose another file")
        elif self.path.exists() and self.path.stat().st_size:
            raise ValueError("exists without its manifest; choose another file")
        else:
            text = json.dumps(jsonable({"spec_hash": name, "spec": spec, "provenance": provenance}), indent=1)
            write_whole(self.manifest, text + "\n")
        self._points = dict(self._read())

    def _manifest(self) -> tuple[str, Any]:
        """The hash of the spec that the file was begun with, and the spec."""
        try:
            found = json.loads(self.manifest.read_text())
            return str(found["spec_hash"]), found.get("spec")
        except (ValueError, KeyError, TypeError):
            raise ValueError(f"its manifest {self.manifest.name} cannot be read; choose another file") from None

    def _read(self) -> Iterator[tuple[str, dict[str, Any]]]:
        if not self.path.exists():
            return
        raw = self.path.read_bytes()
        whole = raw[: raw.rfind(b"\n") + 1]
        if len(whole) < len(raw):
            with self.path.open("r+b") as stream:
                stream.truncate(len(whole))
        for number, line in enumerate(whole.splitlines(), 1):
            try:
                record = json.loads(line)
                key, point = str(record["key"]), dict(record["point"])
            except (ValueError, KeyError, TypeError):
                raise ValueError(f"line {number} is no finished point; take it out or choose another file") from None
            yield key, point

    def get(self, key: str) -> dict[str, Any] | None:
        """The finished point of that key, or None."""
        return self._points.get(key)

    def append(self, key: str, point: Mapping[str, Any]) -> None:
        """Add a finished point and flush it to the disk."""
        self._points[key] = jsonable(point)
        with self.path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps({"key": key, "point": self._points[key]}, ensure_ascii=False) + "\n")
            stream.flush()
            os.fsync(stream.fileno())

    def __len__(self) -> int:
        return len(self._points)


def _different(begun: Any, spec: Mapping[str, Any]) -> str:
    """The names of what differs between two specs."""
    if not isinstance(begun, Mapping):
        return "spec"
    names = [name for name in dict.fromkeys([*begun, *spec]) if begun.get(name) != spec.get(name)]
    return ", ".join(name.replace("_", "-") for name in names) or "spec"
