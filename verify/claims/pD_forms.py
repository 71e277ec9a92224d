"""P App. D and D §3: the inverse inside a chunk, and what each form costs."""

from __future__ import annotations

from collections.abc import Mapping

from verify.evidence import Claim, Evidence, Ruling, Verdict

SIZES = (2, 4, 8, 16, 32, 64)
UNEVEN = (3, 5, 7, 12, 31)


def _proof(holds: bool, detail: str, **numbers: object) -> Ruling:
    return Ruling(Verdict.CONFIRMED if holds else Verdict.REFUTED, Evidence.PROOF, detail, numbers)


def _inverse(name: str) -> Ruling:
    from theorem import recurrence

    fast = {"product": recurrence.product_inverse, "Newton": recurrence.newton_inverse}[name]
    exact, fewer = [], []
    for size in SIZES + UNEVEN:
        lower = recurrence.strictly_lower(size, seed=size)
        steps = (size - 1).bit_length()  # ⌈log₂ C⌉
        true = recurrence.substitution_inverse(lower)
        exact.append(fast(lower, steps) == true)
        fewer.append(fast(lower, steps - 1) == true)
    detail = (
        f"in integers, C = {', '.join(map(str, sorted(SIZES + UNEVEN)))}: exact after ⌈log₂C⌉ steps in {sum(exact)} of "
        f"{len(exact)}, after one fewer in {sum(fewer)}; for all A because A^C = 0 and each step squares the remainder"
    )
    return _proof(all(exact) and not any(fewer), detail)


def _words(coefficients: Mapping[str, object]) -> str:
    return " + ".join(f"{c} {term}" for term, c in coefficients.items() if c).replace("+ -", "- ")


def _work(form: str, claimed: tuple[str, ...]) -> Ruling:
    from theorem.operation_counts import coefficients

    try:
        found = coefficients(form)
    except ValueError as error:
        return _proof(False, str(error))
    holds = all(c == 0 for term, c in found.items() if term not in (*claimed, "Td", "T"))
    return _proof(holds, f"counted: {_words(found)} multiply-adds, exactly, on held-out sizes too", **_numbers(found))


def _numbers(found: Mapping[str, object]) -> dict[str, str]:
    return {term: str(c) for term, c in found.items()}


def _product_work() -> Ruling:
    from theorem.operation_counts import coefficients

    form = "chunk-wise, nilpotent product"
    chunks = (8, 16, 32, 64)
    per_token = [coefficients(form, chunk=c)["T"] for c in chunks]
    shares = [x / c**2 for x, c in zip(per_token, chunks)]
    growing = [2 * ((c - 1).bit_length() - 1) for c in chunks]
    detail = (
        f"the C x C inverse costs {', '.join(map(str, shares))} times TC² at C = {', '.join(map(str, chunks))}: "
        "2(log₂C - 1) TC²"
    )
    return _proof(shares == growing, detail)


def _serial() -> Ruling:
    from theorem.operation_counts import counted

    length, chunk = 64, 8
    steps = {form: counted(form, length, 4, chunk).serial_steps for form in ("recurrent", "chunk-wise, substitution")}
    holds = list(steps.values()) == [length, length // chunk]
    return _proof(
        holds, f"T = {length}, C = {chunk}: recurrent {steps['recurrent']}, chunk-wise {list(steps.values())[1]}"
    )


CLAIMS = (
    Claim(
        "P-D-nilpotent-product",
        "P App. D; D §3",
        "∏_{m<log₂C} (I + (-A)^{2^m}) is exactly (I + A)⁻¹ for a strictly lower triangular C x C matrix A",
        check=lambda: _inverse("product"),
    ),
    Claim(
        "P-D-newton",
        "P App. D; D §3",
        "Newton's X ← X(2I - (I + A)X) from X = I reaches (I + A)⁻¹ exactly after log₂C steps",
        check=lambda: _inverse("Newton"),
    ),
    Claim(
        "P-D-work-recurrent",
        "P App. D; D §3",
        "the recurrent form does O(T²d) work",
        check=lambda: _work("recurrent", ("T²d",)),
    ),
    Claim(
        "P-D-work-parallel",
        "P App. D; D §3",
        "the parallel form does O(T²d) work",
        check=lambda: _work("parallel", ("T²d",)),
    ),
    Claim(
        "P-D-work-chunked",
        "P App. D; D §3",
        "the chunk-wise form does O(T²d + TCd + TC²) work",
        ("the C x C inverse is made by substitution",),
        check=lambda: _work("chunk-wise, substitution", ("T²d", "TCd", "TC²")),
    ),
    Claim(
        "P-D-work-chunked-product",
        "P App. D; D §3",
        "with the nilpotent product the C x C inverses cost TC² log C: more than TC² by a logarithm",
        check=_product_work,
    ),
    Claim(
        "P-D-serial-steps",
        "P App. D; D §3",
        "the recurrent form takes T serial steps, the chunk-wise form T/C",
        check=_serial,
    ),
)
