from dataclasses import asdict, dataclass

from verify.evidence import Claim, Evidence, Finding, Ruling, Table, Verdict
from verify.options import blame, option
from verify.session import Session


@dataclass(frozen=True)
class Options:
    """Check a certificate of Theorem 1: exit status 0 if it proves what it claims, 1 if not, 2 if it cannot be read."""

    file: str = option(
        help="the certificate, as written by verify theorem --certificate", metavar="FILE", positional=True
    )


MEANING = {
    "gram": "with f = round ({rule}) Theorem 1 holds for these {n} keys in {d} dimensions and every sequence of swaps",
    "coherence": "every two of these {n} keys in {d} dimensions have |cosine| below 1/8 (Assumption 1)",
}


def run(options: Options, session: Session) -> Finding:
    from theorem.checker import read_certificate, violation

    with blame("FILE", options.file):
        certificate, carried = read_certificate(options.file)
    session.progress("checking every pair of keys")
    reason = violation(certificate)
    if reason is None and certificate.sha256() != carried:
        reason = "the hash is another one: the file was changed after it was written"
    n, d = certificate.z.shape
    claims = [
        Claim(
            id=f"certificate-{name}",
            source="P App. E",
            statement=MEANING[name].format(n=n, d=d, rule=certificate.rule),
            command=f"python -m verify check {options.file}",
            ruling=Ruling(
                Verdict.REFUTED if reason else Verdict.CONFIRMED,
                Evidence.PROOF,
                reason or "every inequality checked in integers",
                {"n": n, "d": d, "scale": certificate.scale, "rule": certificate.rule},
            ),
        )
        for name in certificate.claims
    ]
    rows = [
        ("keys", f"{n} in {d} dimensions, {certificate.z.dtype}"),
        ("scale", f"{certificate.scale}"),
        ("rounding rule", certificate.rule),
        ("claims", ", ".join(certificate.claims)),
        ("sha256", carried if certificate.sha256() == carried else f"{carried}, but its content has another"),
    ]
    return Finding(
        "check",
        asdict(options),
        claims=claims,
        tables=[Table("Certificate", ("what", "is"), rows)],
        summary=f"NOT VALID: {reason}" if reason else "Valid: " + "; ".join(c.statement for c in claims) + ".",
        status=1 if reason else 0,
    )
