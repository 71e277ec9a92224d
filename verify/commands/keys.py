from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from verify.evidence import Finding, Table
from verify.options import BadInput, blame, integer, option, real
from verify.session import Session, check_writable

if TYPE_CHECKING:
    from theorem.packings import KeySet


@dataclass(frozen=True)
class Options:
    """Build near-orthogonal keys and set their coherence beside the lower bounds.

    With --n and --d: the least coherence within reach. With --n alone: the smallest d found for coherence below
    --epsilon. With --d alone: the most keys a construction promises below --epsilon.
    """

    n: int | None = option(None, help="how many keys", parse=integer(2, 2**23))
    d: int | None = option(None, help="their dimension", parse=integer(1, 2**16))
    epsilon: float = option(
        0.125, help="coherence to stay below, with --n or --d alone", parse=real(0, 0.99, open_low=True)
    )
    construction: str | None = option(None, help="only constructions whose name begins so", metavar="NAME")
    max_seconds: float = option(20.0, help="time for descent", parse=real(0, 86400, open_low=True))
    seed: int = option(0, help="of random starts", parse=integer(0))
    out: str | None = option(
        None, help="write the keys to FILE.npz: integers z and scale, or float keys", metavar="FILE"
    )


def run(options: Options, session: Session) -> Finding:
    if options.n is None and options.d is None:
        raise BadInput("--n: expected --n, --d or both")
    if options.out is not None:
        if not options.out.endswith(".npz"):
            raise BadInput(f"--out {options.out}: expected a name that ends in .npz")
        check_writable("--out", options.out)
    if options.n is None:
        return _most(options)
    if options.d is None:
        return _smallest(options, session)
    return _best(options, session)


def _best(options: Options, session: Session) -> Finding:
    """The least coherence for (n, d)."""
    from theorem.packings import build

    assert options.n is not None
    assert options.d is not None
    name, value = ("--construction", options.construction) if options.construction is not None else ("--n", options.n)
    with blame(name, value):
        built = build(
            options.n,
            options.d,
            options.max_seconds,
            options.seed,
            only=options.construction or "",
            progress=session.progress,
        )
    point, bounds = _point(built.keys)
    point["tried"] = [asdict(attempt) for attempt in built.tried]
    rows = [
        (
            a.construction,
            f"{a.coherence:.5f}",
            "measured" if a.measured else "by its theorem",
            "yes" if a.exact else "no",
        )
        for a in built.tried
    ]
    tables = [
        Table(f"{options.n} keys in R^{options.d}", ("construction", "coherence", "how known", "integers"), rows),
        _bounds_table(bounds),
    ]
    gap = built.keys.coherence / bounds["lp"] if bounds["lp"] else 1.0
    below = "below" if built.keys.coherence < 1 / 8 else "not below"
    summary = f"{built.keys.construction}: coherence {built.keys.coherence:.6f}, {below} the 1/8 of Assumption 1; " + (
        f"no {options.n} keys in R^{options.d} have less than {bounds['lp']:.6f} (a factor {gap:.3f})"
        if bounds["lp"]
        else "least possible"
    )
    return _finding(options, point, tables, summary, built.keys)


def _smallest(options: Options, session: Session) -> Finding:
    """The smallest d for n keys of coherence below epsilon."""
    from theorem.bounds import least_dimension
    from theorem.packings import smallest

    assert options.n is not None
    if options.construction is not None:
        raise BadInput(f"--construction {options.construction}: expected --d with it")
    with blame("--n", options.n):
        keys, log = smallest(options.n, options.epsilon, options.max_seconds, options.seed, progress=session.progress)
    point, _ = _point(keys)
    least = least_dimension(options.n, options.epsilon)
    point["least_d"] = least
    point["tried"] = [{"d": d, "coherence": c, "construction": name} for d, c, name in log]
    rows = [(str(d), f"{c:.6f}", name) for d, c, name in log]
    bound = max(least, key=lambda name: (least[name], name != "lp"))
    tables = [
        Table(
            f"Dimensions tried for {options.n} keys below {options.epsilon:g}", ("d", "coherence", "construction"), rows
        ),
        Table("Least d that each bound allows", ("bound", "d"), [(name, str(d)) for name, d in least.items()]),
    ]
    summary = (
        f"{options.n} keys below {options.epsilon:g} in R^{keys.d} ({keys.construction}, {keys.coherence:.6f}); "
        f"none fit below d = {least['lp']} ({bound} bound)"
    )
    return _finding(options, point, tables, summary, keys)


def _most(options: Options) -> Finding:
    """The most keys below epsilon in R^d, from constructions alone and from the linear programme."""
    import math

    from theorem.bounds import most_keys
    from theorem.packings import most_offered

    assert options.d is not None
    for name, value in (("--construction", options.construction), ("--out", options.out)):
        if value is not None:
            raise BadInput(f"{name} {value}: expected --n with it")
    found, bound = most_offered(options.d, options.epsilon), most_keys(options.d, options.epsilon)
    limit = "no limit that the linear programme proves" if math.isinf(bound) else f"at most {bound:.0f} exist"
    point = {"d": options.d, "epsilon": options.epsilon, "most_found": found, "most_possible": bound}
    summary = f"{found} keys below {options.epsilon:g} in R^{options.d} by a construction; {limit}"
    return Finding("keys", asdict(options), points=[point], summary=summary)


def _point(keys: KeySet) -> tuple[dict[str, Any], dict[str, float]]:
    from theorem.bounds import coherence_bounds

    bounds = coherence_bounds(keys.n, keys.d)
    squared = keys.coherence_squared
    point = {
        "n": keys.n,
        "d": keys.d,
        "coherence": keys.coherence,
        "coherence_squared": None if squared is None else f"{squared.numerator}/{squared.denominator}",
        "construction": keys.construction,
        "exact": keys.exact,
        "bounds": bounds,
    }
    return point, bounds


def _bounds_table(bounds: dict[str, float]) -> Table:
    return Table("No keys have less coherence than", ("bound", "value"), [(k, f"{v:.6f}") for k, v in bounds.items()])


def _finding(options: Options, point: dict[str, Any], tables: list[Table], summary: str, keys: KeySet) -> Finding:
    files = []
    if options.out is not None:
        files = [Path(options.out)]
        with blame("--out", options.out):
            _write(files[0], keys)
    return Finding("keys", asdict(options), points=[point], tables=tables, summary=summary, files=files)


def _write(path: Path, keys: KeySet) -> None:
    """Write `z` and `scale`, or `keys`, whole or not at all."""
    import io

    import numpy as np

    from verify.records import write_whole

    stream = io.BytesIO()
    if keys.scale is not None:
        np.savez_compressed(stream, z=keys.vectors, scale=np.int64(keys.scale))
    else:
        np.savez_compressed(stream, keys=keys.vectors)
    write_whole(path, stream.getvalue())
