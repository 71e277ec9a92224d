"""P App. D and D §3: what each form costs, counted."""

from __future__ import annotations

from collections.abc import Mapping

from verify.evidence import Claim, Evidence, Ruling, Verdict


def _proof(holds: bool, detail: str, **numbers: object) -> Ruling:
    return Ruling(Verdict.CONFIRMED if holds else Verdict.REFUTED, Evidence.PROOF, detail, numbers)


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
