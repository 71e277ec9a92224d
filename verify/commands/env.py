from dataclasses import dataclass

from verify.evidence import Finding, Table
from verify.session import Session


@dataclass(frozen=True)
class Options:
    """Show versions, machine and commit: what a bug report or a replay needs."""


def run(options: Options, session: Session) -> Finding:
    origin = session.provenance({})
    rows = [("commit", f"{origin['commit']['id']}" + (" (changed since)" if origin["commit"]["dirty"] else ""))]
    rows += [("python", origin["python"])]
    rows += [(name, version or "not installed") for name, version in origin["versions"].items()]
    rows += [(name, str(value)) for name, value in origin["machine"].items() if value is not None]
    return Finding(command="env", spec={}, tables=[Table("Environment", ("what", "is"), rows)])
