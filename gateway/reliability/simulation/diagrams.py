"""A run as a sequence diagram, in text: time goes down, messages go across."""

from dataclasses import dataclass

WIDTH = 62


@dataclass(frozen=True, slots=True)
class Line:
    """Something that happened: a message from *sender*, or what one side did alone."""

    time: float
    sender: str
    text: str
    across: bool = False
    lost: bool = False
    note: str = ""


def drawn(lines: list[Line], left: str = "client", right: str = "service") -> str:
    """The diagram of *lines*; *left* and *right* are the names of the senders."""
    head = f"{'':>11} {left:<{WIDTH // 2}}{right:>{WIDTH // 2}}"
    return "\n".join([head, *(_line(line, left) for line in lines)])


def _line(line: Line, left: str) -> str:
    inner = WIDTH - 2
    from_left = line.sender == left
    if not line.across:
        text = line.text[:inner]
        return (
            f"{line.time:11.3f} |{text:<{inner}}|"
            if from_left
            else (f"{line.time:11.3f} |{text:>{inner}}|")
        )
    text = f" {line.text} "[: inner - 6]
    shaft = inner - len(text) - 4
    if from_left:
        end = "x " if line.lost else "->"
        drawn_line = f"--{text}{'-' * shaft}{end}"
    else:
        end = " x" if line.lost else "<-"
        drawn_line = f"{end}{'-' * shaft}{text}--"
    note = f"  {line.note}" if line.note else ""
    return f"{line.time:11.3f} |{drawn_line}|{note}"
