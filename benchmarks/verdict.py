"""One line of the benchmark table: `name value unit target ok|short`."""


def at_least(name: str, value: float, unit: str, target: float) -> None:
    """Print a rate that should not be lower than the target."""
    _line(name, value, unit, target, ok=value >= target)


def at_most(name: str, value: float, unit: str, target: float) -> None:
    """Print a cost that should not be higher than the target."""
    _line(name, value, unit, target, ok=value <= target)


def _line(name: str, value: float, unit: str, target: float, *, ok: bool) -> None:
    shown = f"{value:.0f}" if value >= 100 else f"{value:.3g}"
    print(f"{name} {shown} {unit} {target:g} {'ok' if ok else 'short'}", flush=True)
