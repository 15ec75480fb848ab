"""A controller's decisions, for people."""

from __future__ import annotations

import sys

from penstock.cli import common
from penstock.errors import printable
from penstock.files import Document


def show(document: Document, lines: list[Document], *, act: bool) -> None:
    """Print what came of a run for people; ``act``: decisions were to be applied."""
    show_history(lines)
    rows = [
        [name, row["latency"]["count"], row["latency"]["mean"], row["latency"]["p99"], row["latency"]["max"]]
        for name, row in document["sinks"].items()
    ]
    common.table("latency in seconds", ["sink", "rows", "mean", "p99", "worst"], rows)
    common.say(
        f"{document['decisions']} decisions, {len(document['moves'])} moves ({_applied(document, lines, act)}); "
        "every row accounted for: "
        f"{'yes' if document['balanced'] else 'no'}"
        + (f"; history in {document['directory']}/control/history.jsonl" if lines else "")
    )


def _applied(document: Document, lines: list[Document], act: bool) -> str:
    """Return how much of what was decided came about; without ``act`` only what somebody had asked for."""
    moves = len(document["moves"])
    if act:
        made = moves - sum(map(missed, lines))
        return "moved" if made == moves else f"{made} moved"
    asked = sum(line["acted"] for line in lines)
    if not asked:
        return "recommended only"
    return f"{asked} asked for" + (", the rest recommended only" if asked < len(lines) else "")


def show_history(lines: list[Document]) -> None:
    """Print decisions: when, who, what, why, and what came of it."""
    wide = max((len(line["policy"]) for line in lines), default=0)
    for line in lines:
        time, policy = f"{line['time']:.6g} s", printable(line["policy"].ljust(wide))
        said = told(line), line["why"], *(f"refused: {why}" for why in line["refused"]), came(line)
        rows = [printable(text) for text in said]
        sys.stdout.write(f"{time:>9}  {policy}  " + f"\n{' ' * (13 + wide)}".join(filter(None, rows)) + "\n")
    if not lines:
        sys.stdout.write("no decisions\n")


def told(line: Document, most: int = 3) -> str:
    """Return what a decision changes, for people."""
    decided, parts = line["decided"], []
    moves = [f"{move['operator']}: {move['from']} to {move['to']}" for move in decided.get("moves", ())]
    parts += [*moves[:most], *([f"{len(moves) - most} more"] if len(moves) > most else [])]
    if "keep" in decided:
        keep = [f"keep {share:.2f} of {name}" for name, share in decided["keep"].items()]
        parts += [*keep[:most], *([f"{len(keep) - most} more"] if len(keep) > most else [])] or ["keep all"]
    if decided.get("tables"):
        parts += [f"{', '.join(decided['tables'])} decide alone"]
    parts += [f"{name} every {step:.3g} s" for name, step in decided.get("triggers", {}).items()]
    parts += [
        f"read {'all' if rate is None else f'{rate:.4g}/s'} of {s}" for s, rate in decided.get("limits", {}).items()
    ]
    parts += [f"start {name} on {host}" for name, host in decided.get("attach", {}).items()]
    parts += [f"add {name}" for name in decided.get("add", ())] + [
        f"retire {name}" for name in decided.get("retire", ())
    ]
    text = ", ".join(parts) or "nothing"
    return text if line["acted"] or text == "nothing" else f"({text})"


def missed(line: Document) -> int:
    """Return how many moves of a decision had not come about when it was looked at again."""
    moves = len(line["decided"].get("moves", ()))
    return moves - (line["came"] or {}).get("moved", moves) if line["acted"] else 0


def came(line: Document) -> str:
    """Return what came of a decision, for people: moves that did not happen, worst latency before and after."""
    after, before, parts = line["came"] or {}, line["seen"], []
    moves = len(line["decided"].get("moves", ()))
    if count := missed(line):
        late = after["time"] - line["time"]
        parts += [f"{count} of {moves} {'move' if moves == 1 else 'moves'} had not come about {late:.3g} s later"]
    if after.get("worst") is not None:
        was = "" if before["worst"] is None else f"{before['worst']:.3g} to "
        parts += [f"worst latency: {was}{after['worst']:.3g} s"]
    return "; ".join(parts)
