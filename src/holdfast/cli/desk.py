"""What ``holdfast serve`` does."""

from __future__ import annotations

from pathlib import Path

from holdfast.cli import screen
from holdfast.errors import HoldfastError

#: where the demo's ledger is made
DEMO = Path("holdfast-desk-demo")


def run_serve(
    ledger: str | None,
    case: Path | None,
    demo: bool,
    port: int,
    host: str,
    home: Path | None,
    names: list[str],
    secure: bool,
) -> int:
    """Serve the desk until it is stopped."""
    from holdfast.desk.serving import LOOPBACK, serve

    if demo:
        from holdfast.desk.demo import filled

        if ledger is not None or case is not None:
            raise HoldfastError("the demo has a ledger of its own: leave out ⟦ledger⟧ and ⟦case⟧")
        ledger = filled(DEMO)
    if ledger is None and case is None:
        raise HoldfastError(
            "what is the desk about? Name a ledger with ⟦ledger⟧, a case with ⟦case⟧, or try ⟦demo⟧"
        )

    def tell(address: str) -> None:
        with screen.reading():
            screen.out().print(
                "The desk is open. Its address is good for one visit, within 15 minutes:\n\n"
                f"  {address}\n\nCtrl-C closes it.",
                markup=False,
                soft_wrap=True,
                highlight=False,
            )
        if host not in LOOPBACK and not secure:
            screen.note(
                "passwords cross the network as they are: put a proxy that speaks TLS before it "
                "and say --tls-proxy"
            )

    serve(
        ledger,
        case,
        host=host,
        port=port,
        home=home,
        names=names,
        secure=secure,
        tell=tell,
    )
    screen.note("the desk is closed")
    return 0
