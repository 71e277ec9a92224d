from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from verify.evidence import Claim, Finding, Table, Verdict
from verify.exchange_rulings import BOUNDS, MOST_KEYS, assumption_1, assumption_claim, lemma_claim, replay_claim, when
from verify.options import BadInput, blame, integer, option, real
from verify.session import Session, check_writable

if TYPE_CHECKING:
    from pathlib import Path

    from theorem.exchange import FactoredGram, Gram, Replay
    from theorem.known import Narrowest
    from theorem.lemma import GramCondition
    from theorem.packings import Attempt, KeySet
    from theorem.swaps import Swaps

OTHERS = ("linear", "exp4")  # shown beside f: the linear state, and what P App. E.2 prints
OTHERS_ON_GPU = ("linear", "relu")  # the kernels have no exp4


@dataclass(frozen=True)
class Options:
    """Prove state exchange (Theorem 1) for n keys in R^d and replay swaps through DeltaFormer.

    Builds keys, compares their coherence with the bounds, proves Lemma 1 for every pair of swaps in integers, and runs
    random and adversarial swap sequences through the recurrence, reading out all slots.
    """

    n: int | None = option(None, help="number of slots, at least 2 (a file of keys brings its own)", parse=integer(2))
    d: int | None = option(None, help="width of the keys, at least 1 (a file of keys brings its own)", parse=integer(1))
    keys: str = option(
        "auto", help="auto builds the best it can, random draws them, FILE is .npz (z and scale, or keys) or .npy"
    )
    f: str = option("round", help="the similarity: round, round-half-away, linear, relu, exp4, hermite8, exp5 to exp60")
    steps: int = option(10_000, help="number of swaps of each sequence", parse=integer(1, 10_000_000))
    swaps: str | None = option(
        None, help="replay the swaps of this CSV instead: two slot numbers from 0 a line", metavar="FILE"
    )
    rewrite: int | None = option(
        None, help="read all slots out and write them anew every K swaps (P App. E.3)", parse=integer(1), metavar="K"
    )
    device: str = option("cpu", help="cuda replays through the GPU kernel", choices=("cpu", "cuda"))
    certificate: str | None = option(None, help="write a certificate that verify check can check", metavar="FILE")
    max_seconds: float = option(12.0, help="time for building the keys", parse=real(0.1, 86_400))
    seed: int = option(0, help="seed of random keys, of descent and of the swaps", parse=integer(0, 2**32 - 1))


def run(options: Options, session: Session) -> Finding:
    import numpy as np

    from theorem.activations import fitted_terms
    from theorem.bounds import coherence_bounds
    from theorem.known import narrowest
    from theorem.swaps import SEQUENCES, read_swaps

    with blame("--f", options.f):
        fitted_terms(options.f)
    if options.certificate is not None:
        check_writable("--certificate", options.certificate)
    if options.device == "cuda":
        _check_cuda(options)
    keys, tried = _keys(options, session)
    if options.swaps is not None:
        with blame("--swaps", options.swaps):
            sequences = {"given": read_swaps(options.swaps, keys.n)}
    else:
        rng = np.random.default_rng(np.random.SeedSequence(options.seed, spawn_key=(1,)))
        sequences = {name: make(keys.n, options.steps, rng) for name, make in SEQUENCES.items()}
    session.progress("proving the lemma for every pair of swaps")
    keys, condition = _lemma(options, keys)
    replayer = _Replayer(options, session, keys)
    certificate, files, none = _certificate(options, keys, condition)
    replays = {name: replayer.run(options.f, swaps, name) for name, swaps in sequences.items()}
    first, swaps = next(iter(sequences.items()))
    beside = OTHERS if options.device == "cpu" else OTHERS_ON_GPU
    others = {f: replayer.run(f, swaps, first, stop=True) for f in beside if f != options.f}
    session.progress("computing bounds")
    bounds, least = coherence_bounds(keys.n, keys.d), narrowest(keys.n)
    claims = tuple(
        replace(claim, command=shlex.join(session.argv))
        for claim in (
            assumption_claim(keys, bounds),
            lemma_claim(_rule(options), keys, condition),
            replay_claim(options.f, condition, replays),
        )
    )
    point = {
        "n": keys.n,
        "d": keys.d,
        "keys": keys.construction,
        "coherence": keys.coherence,
        "welch": bounds["welch"],
        "assumption1": assumption_1(keys),
        "lemma": _lemma_numbers(claims[1], condition),
        "replay": _numbers(min(replays.values(), key=lambda r: (r.exact, -r.max_error))),
        "replays": {name: _numbers(r) for name, r in replays.items()},
        "others": {f: _numbers(r) for f, r in others.items()},
        "bounds": bounds,
        "least_d": {
            "bound": least.bound,
            "known": least.d,
            "construction": least.construction,
            "constructed": least.constructed,
            "condition": None if least.condition is None else least.condition.d,
        },
        "tried": [{"construction": a.construction, "coherence": a.coherence, "exact": a.exact} for a in tried],
        "certificate": certificate,
    }
    return Finding(
        "theorem",
        {**asdict(options), "n": keys.n, "d": keys.d},
        points=[point],
        claims=claims,
        tables=[
            _table_keys(keys, tried, bounds, least, claims, certificate, none),
            _table_replays(keys.n, replays, others, first),
        ],
        summary=_summary(options.f, claims, others),
        files=files,
    )


def _check_cuda(options: Options) -> None:
    """Raise BadInput now rather than after the keys are built."""
    from theorem.device_replay import check_device, check_similarity

    if options.rewrite:
        raise BadInput(f"--rewrite {options.rewrite}: the GPU keeps every token; expected --device cpu")
    try:
        with blame("--device", options.device):
            check_device(options.device)
        with blame("--f", options.f):
            check_similarity(options.f)
    except ImportError as error:
        raise BadInput(f"--device {options.device}: {error}") from error


def _keys(options: Options, session: Session) -> tuple[KeySet, Sequence[Attempt]]:
    """The slots' keys, and what was weighed to choose them."""
    from theorem.key_file import read_keys
    from theorem.packings import build, random_keys

    if options.keys in ("auto", "random"):
        if options.n is None or options.d is None:
            raise BadInput(f"--keys {options.keys}: expected --n and --d with it")
        _enough_memory(options, options.n, options.d)
        if options.keys == "random":
            return random_keys(options.n, options.d, options.seed), ()
        session.progress(f"building {options.n} keys in R^{options.d}")
        built = build(options.n, options.d, options.max_seconds, options.seed)
        return built.keys, built.tried
    with blame("--keys", options.keys):
        keys = read_keys(options.keys)
    for name, asked, found in (("--n", options.n, keys.n), ("--d", options.d, keys.d)):
        if asked not in (None, found):
            raise BadInput(f"{name} {asked}: {options.keys} holds {keys.n} keys in R^{keys.d}")
    _enough_memory(options, keys.n, keys.d)
    return keys, ()


def _lemma(options: Options, keys: KeySet) -> tuple[KeySet, GramCondition | None]:
    """The keys in integers, and Lemma 1 for every pair of swaps: in int8 if it holds there, else in int16.

    No condition where there are too many keys for O(n³) and coherence has to decide.
    """
    from theorem.key_file import coarse, fine
    from theorem.lemma import gram_condition

    with blame("--keys", options.keys):
        rounded = coarse(keys)
        if keys.n > MOST_KEYS:
            return rounded, None
        condition = gram_condition(rounded.vectors, rounded.scale or 1, _rule(options))
        if not condition.holds and not keys.exact:
            rounded = fine(keys)
            condition = gram_condition(rounded.vectors, rounded.scale or 1, _rule(options))
    return rounded, condition


def _enough_memory(options: Options, n: int, d: int) -> None:
    """Raise BadInput where the keys, their Gram matrix and the cached tokens would not fit into half the memory."""
    import os

    tokens = n + min(options.steps, options.rewrite or options.steps)
    gram = 0 if n > MOST_KEYS else 4 * n * n
    needed = 8 * (4 * n * d + gram + tokens * (n.bit_length() + 2) + 2048 * n)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed > memory / 2:
        raise BadInput(
            f"--n {n} --d {d}: needs about {needed / 2**30:.0f} GiB, half of this machine's memory is"
            f" {memory / 2**31:.0f} GiB; expected fewer or narrower keys"
        )


def _lemma_numbers(claim: Claim, condition: GramCondition | None) -> dict[str, Any]:
    assert claim.ruling is not None
    holds = {Verdict.CONFIRMED: True, Verdict.REFUTED: False}.get(claim.ruling.verdict)
    if condition is None:
        return {"holds": holds, "pairs_checked": 0, "margin": None}
    return {"holds": holds, "pairs_checked": condition.pairs_checked, "margin": float(condition.margin)}


def _rule(options: Options) -> str:
    return "half-away" if options.f == "round-half-away" else "half-even"


def _certificate(
    options: Options, keys: KeySet, condition: GramCondition | None
) -> tuple[dict[str, Any] | None, list[Path], str]:
    """What the independent checker says of these keys, and else why there is no certificate; written to a file first,
    and read back, if one was asked for."""
    from pathlib import Path

    from theorem.certificate import as_certificate, write_certificate
    from theorem.checker import read_certificate, violation

    claims = (("gram",) if condition and condition.holds else ()) + (("coherence",) if assumption_1(keys) else ())
    if not claims:
        return None, [], "none: there is nothing to certify"
    if condition is None and options.certificate is None:
        return None, [], f"none: --certificate FILE writes one of Assumption 1 for more than {MOST_KEYS} keys"
    assert keys.scale is not None
    try:
        certificate = as_certificate(keys.vectors, keys.scale, _rule(options), claims)
    except ValueError as error:
        if options.certificate is not None:
            raise BadInput(f"--certificate {options.certificate}: {error}") from error
        return None, [], f"none: {error}"
    carried, files = certificate.sha256(), []
    if options.certificate is not None:
        files = [Path(options.certificate)]
        with blame("--certificate", options.certificate):
            write_certificate(files[0], keys.vectors, keys.scale, _rule(options), claims)
            certificate, carried = read_certificate(files[0])
    valid = violation(certificate) is None and certificate.sha256() == carried
    return {"claims": claims, "valid": valid, "sha256": carried, "rule": certificate.rule}, files, ""


class _Replayer:
    """Runs sequences of swaps on the device that was asked for."""

    def __init__(self, options: Options, session: Session, keys: KeySet) -> None:
        self.options, self.session, self.keys = options, session, keys
        with blame("--keys", options.keys):
            self.gram = self._gram() if options.device == "cpu" else None

    def _gram(self) -> Gram | FactoredGram:
        from theorem.exchange import FactoredGram, gram_of

        keys = self.keys
        if keys.n <= MOST_KEYS:
            return gram_of(keys.vectors, keys.scale)
        assert keys.scale is not None
        return FactoredGram(keys.vectors, float(keys.scale), keys.coherence)

    def run(self, f: str, swaps: Swaps, name: str, stop: bool = False) -> Replay:
        from theorem.activations import activation
        from theorem.exchange import replay

        if self.gram is None:
            from theorem.device_replay import replay_on_device

            self.session.progress(f"{f}, {name}: {len(swaps):,} swaps on the GPU")
            assert self.keys.scale is not None
            return replay_on_device(self.keys.vectors, self.keys.scale, swaps, f, device="cuda")
        with blame("--f", f):
            similarity = activation(f, self.gram.coherence)
        return replay(
            self.gram,
            swaps,
            similarity,
            rewrite=self.options.rewrite,
            stop_when_wrong=stop,
            progress=lambda swap: self.session.progress(f"{f}, {name}: {swap:,} of {len(swaps):,} swaps"),
        )


def _numbers(replay: Replay) -> dict[str, Any]:
    return {
        "f": replay.f,
        "steps": replay.steps,
        "wrong_slots": replay.wrong_slots,
        "max_error": replay.max_error,
        "exact": replay.exact,
        "first_wrong": replay.first_wrong,
        "tokens": replay.tokens,
    }


def _table_keys(
    keys: KeySet,
    tried: Sequence[Attempt],
    bounds: dict[str, float],
    least: Narrowest,
    claims: Sequence[Claim],
    certificate: dict[str, Any] | None,
    none: str,
) -> Table:
    rows = [("keys", keys.construction)]
    weighed = [f"{a.construction} {a.coherence:.4f}" for a in tried[:5]]
    if weighed:
        rows.append(("weighed", ", ".join(weighed)))
    rows.append(("coherence", f"{keys.coherence:.4f}"))
    rows.append(("lower bounds", ", ".join(f"{BOUNDS[name]} {value:.4f}" for name, value in bounds.items() if value)))
    allowed = f"the linear programme allows none below {least.bound}"
    known = f"{least.d} known ({least.construction}); "
    if least.record is not None:
        known += f"{least.constructed} by a construction alone; "
    rows.append((f"least d for {keys.n} keys", f"{known}{allowed}"))
    if least.condition is not None:
        words = (
            f"{least.condition.d} are enough for Theorem 1 without Assumption 1 ({least.condition.path.name}, recorded)"
        )
        rows.append(("", words))
    for name, claim in zip(("Assumption 1", "Lemma 1"), [c for c in claims if c.id != "theorem-replay"]):
        assert claim.ruling is not None
        rows.append((name, f"{claim.ruling.verdict}: {claim.ruling.detail}"))
    if certificate is not None:
        words = f"{'valid' if certificate['valid'] else 'NOT VALID'} ({', '.join(certificate['claims'])})"
        rows.append(("certificate", f"{words}, {certificate['sha256'][:16]}"))
    else:
        rows.append(("certificate", none))
    return Table(f"{keys.n} keys in R^{keys.d}", ("what", "is"), rows)


def _table_replays(n: int, replays: dict[str, Replay], others: dict[str, Replay], first: str) -> Table:
    rows = []
    for name, r in [*replays.items(), *((first, r) for r in others.values())]:
        verdict = "exact" if r.exact else f"largest error {r.max_error:.3g}"
        if r.first_wrong is not None:
            verdict = f"wrong {when(r.first_wrong)}; {r.wrong_slots} of {n} slots when it ended"
        rows.append((r.f, name, f"{r.steps:,}", f"{r.tokens:,}", verdict))
    return Table("Replay", ("f", "swaps", "steps", "tokens held", "every slot read out"), rows)


def _summary(f: str, claims: Sequence[Claim], others: dict[str, Replay]) -> str:
    rulings = {claim.id: claim.ruling for claim in claims}
    said = []
    lemma = rulings["theorem-lemma-1"]
    if lemma is not None and lemma.verdict == Verdict.CONFIRMED:
        said.append("Theorem 1 is proved for these keys and every sequence of swaps.")
    elif lemma is not None and lemma.verdict == Verdict.REFUTED:
        said.append("Theorem 1's conclusion fails for these keys.")
    assumption = rulings["theorem-assumption-1"]
    if assumption is not None and assumption.verdict == Verdict.REFUTED:
        said.append(f"Assumption 1 does not hold: {assumption.detail}.")
    replayed = rulings["theorem-replay"]
    if replayed is not None and replayed.verdict == Verdict.REFUTED:
        said.append(f"The replay with f = {f} goes wrong: {replayed.detail}.")
    failing = [f"{f} is wrong {when(r.first_wrong)}" for f, r in others.items() if r.first_wrong is not None]
    if failing:
        said.append("Beside it, " + " and ".join(failing) + ".")
    return " ".join(said)
