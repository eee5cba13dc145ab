"""``optimargin auto``."""
from optimargin.cli._groups import grouped
@grouped
def auto(x: int) -> None:
    """x."""
