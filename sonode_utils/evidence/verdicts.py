"""From a record to words: every claim judged from its stored values, and nothing else."""

from collections.abc import Mapping

import numpy as np

from sonode_utils.evidence.rules import (
    WORDS,
    Part,
    log_ratio,
    median_interval,
    ratio_text,
    word_of_parts,
)

RESAMPLES = 2000


def rows_of(values: Mapping) -> dict[str, np.ndarray]:
    """Every recorded row by its name: `loss`, or `loss[2]` where `loss` is a table."""
    tables = [(name, np.array(table, float)) for name, table in values.items()]
    rows = [(name, table, i) for name, table in tables for i in np.ndindex(table.shape[:-1])]
    return {name + "".join(f"[{k}]" for k in i): table[i] for name, table, i in rows}


def groups_of(record: Mapping, claim: Mapping) -> dict[str, dict[str, Part]]:
    """A claim's parts with their values: those that judge it under "", others beside them."""
    rows = rows_of(record["values"])
    groups = {"": claim["parts"], **claim["beside"]}

    def part(kept):
        own = {side: rows[name] for side, name in kept["rows"].items()}
        return Part(kept["rule"], own, kept["options"])

    return {g: {name: part(kept) for name, kept in p.items()} for g, p in groups.items()}


def judge_claim(record: Mapping, claim: Mapping) -> dict:
    """A recorded claim judged from its values: see `judge_groups`."""
    return judge_groups(groups_of(record, claim), word_without_rule(record["data"], claim))


def word_without_rule(data: str, claim: Mapping) -> str:
    """Why a claim gets no word from its parts: the data, or the budget; "" where it does."""
    if claim["real_data"] and data == "simulated":
        return "not judged"
    return "not tested at scale" if claim["scale"] else ""


def judge_groups(groups: Mapping, fixed: str = "", resample: bool = True) -> dict:
    """Word, replication probability, pooled effects and every part of a claim.

    groups: {"": {name: Part}, others that stand beside them}; fixed: a word that needs no rule.
    {"word", "replication", "fragile", "counts": {word: n}, "pooled": {pair: (effect, low,
    high)}, "parts": {name: {...}}, "beside": {group: {"word", "counts", "parts"}}}
    """
    judged = {group: _judge(parts) for group, parts in groups.items()}
    whole = judged.pop("") | {"beside": judged, "pooled": pooled_effects(groups[""])}
    seeded = any(part.rule != "exact" for part in groups[""].values())
    chance = (
        replication(groups[""], whole["word"]) if seeded and resample and not fixed else None
    )
    whole |= {"replication": chance, "fragile": chance is not None and chance < 0.9}
    return whole | ({"word": fixed} if fixed else {})


def _judge(parts):
    shown = {}
    for name, part in parts.items():
        word, effect, low, high, left_out = (np.asarray(x).tolist() for x in part.outcome())
        shown[name] = {
            "rule": part.rule, "word": word, "text": part.text, "effect": effect, "low": low,
            "high": high, "left_out": left_out, "pair": part.options.get("pair", ""),
            "by": part.options.get("by", 1), "digits": part.digits,
        }  # fmt: skip
    words = [part["word"] for part in shown.values()]
    counts = {word: words.count(word) for word in WORDS if word in words}
    word = word_of_parts(counts, all(part.rule == "exact" for part in parts.values()))
    return {"word": word, "counts": counts, "parts": shown}


def pooled_effects(parts: Mapping[str, Part]) -> dict[str, tuple[float, ...]]:
    """One effect per pair of models: each seed's median log10 ratio over the parts.

    Only for pairs that several paired parts compare. {pair: (effect, low, high)}
    """
    ratios: dict[str, list] = {}
    for part in parts.values():
        if part.rule == "order" and part.options["paired"]:
            a, b, options = *part.rows.values(), part.options
            row = log_ratio(a, b, options["points"], options["never"])
            ratios.setdefault(options["pair"], []).append(row)
    several = {pair: _median_of_known(rows) for pair, rows in ratios.items() if len(rows) > 1}
    return {pair: tuple(map(float, median_interval(r)[:3])) for pair, r in several.items()}


def _median_of_known(rows):
    """Each seed's median over the parts that say something; nan where none does."""
    table = np.array(rows)
    return np.array(
        [np.median(c[~np.isnan(c)]) if (~np.isnan(c)).any() else np.nan for c in table.T]
    )


def replication(parts: Mapping[str, Part], word: str) -> float:
    """How often the seeds, drawn again with replacement, give the same word."""
    codes = []
    for part in parts.values():
        n = np.shape(next(iter(part.rows.values())))[-1:]
        drawn = _draws(*n) if n else ...
        rows = {side: values[drawn] for side, values in part.rows.items()}
        words = np.broadcast_to(Part(part.rule, rows, part.options).outcome().word, RESAMPLES)
        codes.append([words == w for w in WORDS])
    counts = np.sum(codes, 0).T  # (resample, word)
    kinds, times = np.unique(counts, axis=0, return_counts=True)
    same = [word_of_parts(dict(zip(WORDS, kind))) == word for kind in kinds]
    return float((times * same).sum() / RESAMPLES)


def _draws(n):
    """The same resamples for every row of n values: all of a seed's values stay together."""
    return np.random.default_rng(0).integers(n, size=(RESAMPLES, n))


def count_words(judged: Mapping) -> str:
    """The words of a claim's parts in a phrase: "17 for, 13 against, 10 open"."""
    return ", ".join(f"{n} {word}" for word, n in judged["counts"].items())


def headline(judged: Mapping) -> str:
    """A claim's effect in a phrase: pooled, or its only part's, else how its parts came out."""
    if judged["pooled"]:
        digits = max(part["digits"] for part in judged["parts"].values())
        effects = [(pair, *ends) for pair, ends in judged["pooled"].items()]
        return "; ".join(f"{p} {ratio_text(e, a, b, digits=digits)}" for p, e, a, b in effects)
    part, *more = judged["parts"].values()
    if more:
        return f"{len(judged['parts'])} parts: {count_words(judged)}"
    return " ".join(filter(None, (part["pair"], part["text"])))
