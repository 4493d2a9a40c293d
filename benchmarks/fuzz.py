"""Hold the engines, and the plans that they are told, to libxml2's verdicts, for as long as it
takes: ``python -m benchmarks.fuzz --pairs 10_000_000 --seed 1``. With ``--target dime --rounds
100_000``, the decoder of DIME to a plain reading of the same octets. With ``--target parsing
--rounds 1_000 FOLDER ...``, what the compiled engine parses itself to what lxml parses: in each
round a mutation of each message of each folder, which is as for `benchmarks.corpora`; ``--state
FILE`` keeps how far it came, and goes on there.

Each round makes expressions and documents, or octets, of its own, from a seed that it names when
they disagree; ``--round N`` repeats it alone. Exit status 1 after a disagreement.
"""

import argparse
import json
import random
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

from benchmarks.corpora import read
from filters import Expression
from filters.matching.engines.choice import NATIVE, REFERENCE, engine_note, make_index
from filters.workloads import FAMILIES, STYLES, Vocabulary, expressions, family_of, messages
from tests.filters.matching.differential import Disagreement, Tally, check
from tests.filters.matching.expressions import Grammar
from tests.filters.matching.nasty import document
from tests.filters.matching.parsings import (
    Parsings,
    ParsingsDiffer,
    compare_mutations,
    filled,
)
from tests.rigs.plain_dime import DimeDisagreement, check_round

Round = tuple[list[Expression], list[bytes]]


def material(seed: int, number: int) -> Round:
    """The expressions and documents of one round."""
    chance = random.Random(f"{seed} {number}")
    if number % 6 == 5:
        style = chance.choice(list(STYLES))
        documents = messages(family_of(style), 15, chance.randrange(2**32))
        return expressions(style, 300, chance.randrange(2**32), Vocabulary(documents)), documents
    grammar = Grammar(chance, chance.choice([0.0, 0.0, 0.05, 0.15, 0.4]))
    texts = [grammar.expression() for _ in range(250)]
    return texts, [document(chance, chance.choice([4, 14, 14, 40])) for _ in range(15)]


def play(seed: int, number: int, engine: str) -> Tally:
    """One round.

    Raises:
        Disagreement: With what to repeat it.
    """
    texts, documents = material(seed, number)
    churn = random.Random(number) if number % 2 else None
    try:
        return check(
            partial(make_index, engine), texts, documents, claims=engine == REFERENCE, churn=churn
        )
    except Disagreement as error:
        raise Disagreement(f"--seed {seed} --round {number} --engine {engine}: {error}") from error


def campaign(
    pairs: int, seed: int, engines: list[str], say: Callable[[str], object] = print
) -> Tally:
    """Rounds until *pairs* verdicts were compared.

    Raises:
        Disagreement: The first.
    """
    tally = Tally()
    number = 0
    start = said = time.monotonic()
    while tally.pairs < pairs:
        for engine in engines:
            tally += play(seed, number, engine)
        number += 1
        now = time.monotonic()
        if now - said > 10 or tally.pairs >= pairs:
            said = now
            say(
                f"{tally.pairs:,} of {pairs:,} pairs, {tally.true / tally.pairs:.0%} true,"
                f" {tally.decided / tally.pairs:.0%} without libxml2, {number:,} rounds,"
                f" {now - start:,.0f} s"
            )
    return tally


def dime_campaign(rounds: int, seed: int, say: Callable[[str], object] = print) -> int:
    """That many streams; the octets compared.

    Raises:
        DimeDisagreement: The first.
    """
    octets = 0
    said = time.monotonic()
    for number in range(rounds):
        octets += check_round(seed, number)
        if time.monotonic() - said > 10 or number == rounds - 1:
            said = time.monotonic()
            say(f"{number + 1:,} of {rounds:,} streams of DIME, {octets:,} octets")
    return octets


def parsing_campaign(
    folders: Sequence[Path],
    seed: int,
    rounds: range,
    state: Path | None = None,
    say: Callable[[str], object] = print,
) -> Parsings:
    """Those rounds, about the messages of *folders* or, without any, about messages that are made;
    those that *state* has are not played again.

    Raises:
        ParsingsDiffer: The first.
    """
    corpora = [list(read(folder)) for folder in folders]
    corpora = corpora or [messages(family, 1_000, seed) for family in FAMILIES]
    indexes = [filled(make_index(NATIVE), documents) for documents in corpora]
    first, seen = _resumed(state, rounds.start)
    said = time.monotonic()
    for number in range(first, rounds.stop):
        for index, documents in zip(indexes, corpora, strict=True):
            try:
                seen += compare_mutations(index, documents, f"{seed} {number}")
            except ParsingsDiffer as error:
                raise ParsingsDiffer(f"--seed {seed} --round {number}: {error}") from error
        if state is not None:
            state.write_text(json.dumps({"next": number + 1} | asdict(seen)))
        if time.monotonic() - said > 10:
            said = time.monotonic()
            say(f"round {number:,}: {seen}")
    say(f"in all: {seen}")
    return seen


def _resumed(state: Path | None, first: int) -> tuple[int, Parsings]:
    if state is None or not state.exists():
        return first, Parsings()
    kept = json.loads(state.read_text())
    return kept.pop("next"), Parsings(**kept)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", choices=["filters", "dime", "parsing"], default="filters")
    parser.add_argument("folders", type=Path, nargs="*", help="of the target parsing")
    parser.add_argument("--pairs", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=10_000, help="of dime and parsing")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--round", type=int, help="this one alone")
    parser.add_argument("--state", type=Path, help="of parsing: a file with how far it came")
    parser.add_argument("--engine", choices=[REFERENCE, NATIVE], help="by default all there are")
    options = parser.parse_args()
    if options.target == "dime":
        return _fuzz_dime(options)
    if options.target == "parsing":
        return _fuzz_parsing(options)
    engines = [REFERENCE, NATIVE]
    if options.engine:
        engines = [options.engine]
    elif note := engine_note():
        print(note, file=sys.stderr)
        engines = [REFERENCE]
    try:
        if options.round is not None:
            for engine in engines:
                print(engine, play(options.seed, options.round, engine))
        else:
            campaign(options.pairs, options.seed, engines, lambda line: print(line, flush=True))
    except Disagreement as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _fuzz_dime(options: argparse.Namespace) -> int:
    try:
        if options.round is not None:
            print(check_round(options.seed, options.round), "octets")
        else:
            dime_campaign(options.rounds, options.seed, lambda line: print(line, flush=True))
    except DimeDisagreement as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _fuzz_parsing(options: argparse.Namespace) -> int:
    one = options.round
    rounds = range(options.rounds) if one is None else range(one, one + 1)
    try:
        parsing_campaign(
            options.folders,
            options.seed,
            rounds,
            None if one is not None else options.state,
            lambda line: print(line, flush=True),
        )
    except ParsingsDiffer as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
