"""Does a run agree with a record? Its values are equal, or the two might be exchanged."""

import numpy as np

from sonode_utils.evidence.verdicts import groups_of

DIVISIONS, CHUNK = 100_000, 4_000


def compare(id: str, old: dict | None, new: dict) -> str:
    """`P6 agrees`, `P6 differs: <quantity>, p = <p>` or `P6 not compared: <why>`.

    old, new: records of one notebook, old None where there is none. A quantity is a row of
    values that a part of the claim rests on, one per seed; a row that serves several parts
    counts once. The seeds of both records are divided anew, all quantities of a seed together.
    Rows of another length (one value per start, say) are divided by themselves and enter the
    same statistics. A value that is not finite is the largest. An exact part has only a word.
    """
    claims = [{c["id"]: c for c in record["claims"]} for record in (old or new, new)]
    before, now = claims[0].get(id, {}) if old else {}, claims[1][id]
    if why := _why_not(old, new, before, now):
        return f"{id} not compared: {why}"
    words = [_words(*pair) for pair in ((old, before), (new, now))]
    for part in words[0] | words[1]:
        first, second = (by_part.get(part, "missing") for by_part in words)
        if first != second:
            return f"{id} differs: {part or 'the whole'} was {first}, is {second}"
    was, found = _quantities(old, before), _quantities(new, now)
    key, p = exchange_test(was, found) if was != found else ("", 1)
    outcome = f"differs: {key or 'the whole'}, p = {p:.1g}" if p < 1e-4 else "agrees"
    return f"{id} {outcome}"


def _words(record, claim):
    """The word of every exact part; of the others that they are there."""
    parts = _named_parts(record, claim)
    return {k: p.word if p.rule == "exact" else "there" for k, p in parts.items()}


def _named_parts(record, claim):
    groups = groups_of(record, claim).items()
    return {f"{g} {name}".strip(): p for g, parts in groups for name, p in parts.items()}


def _quantities(record, claim):
    """{part and side: the values behind it}, exact parts aside."""
    rows = {
        f"{name} {side}".strip(): row
        for name, part in _named_parts(record, claim).items()
        for side, row in part.rows.items()
        if part.rule != "exact"
    }
    return {key: tuple(np.nan_to_num(row, nan=np.inf)) for key, row in rows.items()}


def _why_not(old, new, before, now):
    if new["profile"] in ("quick", "smoke"):
        return f"profile {new['profile']}"
    if not before:
        return "no record"
    settings, others = (r["settings"] | {"seeds": 0} for r in (new, old))
    if other := [n for n in settings | others if settings.get(n) != others.get(n)]:
        return f"other {', '.join(other)}"
    if "simulated" in (old["data"], new["data"]) and before["real_data"]:
        return "stand-ins"
    if before["scale"] or now["scale"]:
        return f"far below the paper's budget, {now['scale'] or before['scale']}"
    rows = [*_quantities(old, before).values(), *_quantities(new, now).values()]
    return f"{min(map(len, rows))} seeds" if rows and min(map(len, rows)) < 9 else ""


def exchange_test(old: dict, new: dict) -> tuple:
    """The quantity that moved most, and p. old, new: {key: row}, the same seeds first."""
    pairs = {(old[key], new[key]): key for key in reversed(old)}  # equal ones count once
    sizes = sorted({(len(a), len(b)) for a, b in pairs})
    sets = [[pair for pair in pairs if tuple(map(len, pair)) == size] for size in sizes]
    ranks = [np.stack([_ranks(*pair) for pair in own], 1) for own in sets]  # (seed, quantity)
    seen = np.concatenate([own[m:].sum(0) for own, (m, _) in zip(ranks, sizes)])
    least = _statistics(seen) * (1 - 1e-9)  # a tie is a tie, whatever the rounding
    rng, beyond = np.random.default_rng(1), np.zeros(2)  # 1: nine seeds can still differ
    for _ in range(DIVISIONS // CHUNK):
        sums = []  # (division, quantity), of n seeds drawn at random
        for own, (_, n) in zip(ranks, sizes):
            draw = rng.random((CHUNK, len(own)))
            sums.append((draw <= np.partition(draw, n - 1, 1)[:, n - 1 : n]) @ own)
        beyond += (_statistics(np.hstack(sums)) >= least).sum(0)
    moved = [pair for own in sets for pair in own][np.abs(seen).argmax()]
    return pairs[moved], 2 * (beyond.min() + 1) / (DIVISIONS + 1)


def _ranks(old, new):
    """Average ranks over both rows, scaled so that the sum over the new one has variance 1."""
    # A value within 1e-4 of its own seed's in the old row is taken as that value.
    near = [np.isclose(value, recorded, 1e-4, 0) for value, recorded in zip(new, old)]
    new = [*np.where(near, old[: len(near)], new[: len(near)]), *new[len(near) :]]
    _, place, count = np.unique([*old, *new], return_inverse=True, return_counts=True)
    ranks = (count.cumsum() - count / 2)[place]
    ranks -= ranks.mean()
    spread = np.sqrt(ranks.var(ddof=1) * len(new) * len(old) / len(ranks))
    return ranks / spread if spread else ranks


def _statistics(z):
    """Largest absolute value and sum of squares over the quantities: (..., 2)."""
    return np.stack([np.abs(z).max(-1), (z**2).sum(-1)], -1)
