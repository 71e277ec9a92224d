from dataclasses import asdict, dataclass
from pathlib import Path

from verify.evidence import Finding, Table
from verify.options import blame, integer, option
from verify.session import Session


@dataclass(frozen=True)
class Options:
    """Search keys for Theorem 1's own condition (P App. E, sharpened) rather than for low coherence."""

    n: int = option(help="slots", parse=integer(2, 4096))
    d: int = option(help="dimensions", parse=integer(1, 8192))
    start: str = option(
        "random", help="random, or an .npz file of n keys (z or keys) in d or more dimensions", metavar="random|FILE"
    )
    iterations: int = option(150, help="steps of descent at each of five sharpnesses", parse=integer(1, 100_000))
    peak: int = option(1023, help="largest entry of the integer keys; 127 fits int8", parse=integer(1, 32767))
    seed: int = option(0, help="seed of a random start", parse=integer(0))
    certificate: str | None = option(None, help="write a certificate to FILE if the condition holds", metavar="FILE")


def run(options: Options, session: Session) -> Finding:
    import numpy as np

    from theorem.certificate import write_certificate
    from theorem.lemma import gram_condition
    from theorem.rounding import HALF_EVEN
    from theorem.spread import integer_keys, lower_spread, without_least_direction
    from verify.session import check_writable

    if options.certificate is not None:
        check_writable("--certificate", options.certificate)
    generator = np.random.default_rng(options.seed)
    if options.start == "random":
        keys = generator.standard_normal((options.n, options.d)) / np.sqrt(options.d)
    else:
        with blame("--start", options.start):
            keys = _read_keys(options.start)
            if len(keys) != options.n or keys.shape[1] < options.d:
                raise ValueError(f"{len(keys)} keys in {keys.shape[1]} dimensions; expected --n keys in --d or more")
        keys = keys + 0.003 * generator.standard_normal(keys.shape)  # off the symmetry, where the slope can vanish
    rows, points = [], []
    while True:
        session.progress(f"descending in {keys.shape[1]} dimensions")
        keys = lower_spread(keys, options.iterations)
        z, scale = integer_keys(keys, options.peak)
        found = gram_condition(z, scale)
        margins = float(gram_condition(keys).margin), float(found.margin)
        points.append({"n": options.n, "d": keys.shape[1], "scale": scale, "margin": margins[1], "holds": found.holds})
        rows.append((f"{keys.shape[1]}", f"{margins[0]:+.5f}", f"{margins[1]:+.5f}", "yes" if found.holds else "no"))
        if keys.shape[1] == options.d:
            break
        keys = without_least_direction(keys)
    files = []
    if options.certificate is not None and found.holds:
        write_certificate(options.certificate, z, scale, HALF_EVEN, ["gram"])
        files.append(Path(options.certificate))
    return Finding(
        "spread",
        asdict(options),
        points=points,
        tables=[Table("Margin of Theorem 1", ("d", "float keys", f"integers up to {options.peak}", "holds"), rows)],
        summary=(
            f"Theorem 1 holds for these {options.n} integer keys in {options.d} dimensions."
            if found.holds
            else f"Not found: {found.tightest}. More --iterations or a larger --peak may help."
        ),
        files=files,
    )


def _read_keys(path: str):  # type: ignore[no-untyped-def]
    """Float keys [n, d] from an .npz file with `keys`, or with `z` and `scale`."""
    import numpy as np

    try:
        with np.load(path, allow_pickle=False) as archive:
            names = set(archive.files)
            if "keys" in names:
                keys = archive["keys"].astype(float)
            elif {"z", "scale"} <= names:
                keys = archive["z"] / np.sqrt(float(archive["scale"]))
            else:
                raise ValueError("expected an array `keys`, or `z` and `scale`")
    except (EOFError, TypeError, AttributeError) as error:
        raise ValueError("not an .npz file of arrays") from error
    if keys.ndim != 2 or not np.isfinite(keys).all():
        raise ValueError(f"keys of shape {keys.shape}: expected finite numbers [n, d]")
    return keys
