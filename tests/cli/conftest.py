"""Running the command, and a table to run it on."""

import numpy as np
import pytest

from optimargin.cli import main


@pytest.fixture
def run(capsys):
    """Run the command; return its exit code, standard output and standard error."""

    def run(*arguments):
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return ended.value.code or 0, captured.out, captured.err

    return run


def passengers(n=60, seed=0, *, separator=";", target=True):
    """Return an ordinary table: an id, names, text, decimal commas, dates, missing cells."""
    rng = np.random.default_rng(seed)
    rows = [["PassengerId", "Name", "Sex", "Age", "Port", "Boarded", "Fare", "Survived"]]
    for k in range(n):
        sex = ("female", "male")[rng.integers(2)]
        age = "" if rng.random() < 0.2 else f"{rng.integers(1, 80)},5"
        port = rng.choice(["Cherbourg", "Queenstown", "NA"])
        fare = f"{rng.gamma(2) + 10 * (sex == 'female'):.2f}".replace(".", ",")
        lives = (sex == "female") ^ (rng.random() < 0.1)
        row = [k + 1, f'"Doe; {k}"', sex, age, port, f"1912-04-{rng.integers(1, 15):02d}", fare]
        rows.append([*row, "yes" if lives else "no"])
    rows = rows if target else [row[:-1] for row in rows]
    return "\n".join(separator.join(map(str, row)) for row in rows) + "\n"


@pytest.fixture
def titanic(tmp_path):
    path = tmp_path / "titanic.csv"
    path.write_text(passengers())
    return path


@pytest.fixture
def heights(tmp_path):
    """A table whose target are measurements."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(80, 2))
    lines = ["age,shoe,kind,height"]
    for row in x:
        kind = ("a", "b")[int(row[0] > 0)]
        height = 170 + 8 * row[1] + 5 * (kind == "a") + rng.normal()
        lines.append(f"{row[0]:.3f},{row[1]:.3f},{kind},{height:.2f}")
    path = tmp_path / "heights.csv"
    path.write_text("\n".join(lines))
    return path
