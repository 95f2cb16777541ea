"""How much of each notebook's code sets up, checks, tabulates, records or judges.

    python tools/plumbing.py [--names] [notebook.ipynb ...]

A cell is plumbing by what it does, whatever its tags say: it only imports, it calls one of
CALLS, it records values that nothing in the cell uses, or it defines names that nothing but
such cells use (parts of claims; what a table shows is a result, and its
computation counts as one). Lines are counted by whole cells.
"""

import ast
import symtable
import sys
from pathlib import Path

import nbformat

ROOT = Path(__file__).parents[1]
CALLS = {"begin", "use_style", "use", "judge", "table", "close"}
SHOW = {"print", "show", "figure", "say", "display"}


def code_cells(path):
    """The sources of the code cells, without IPython's own commands."""
    cells = nbformat.read(path, as_version=4).cells
    return [c.source for c in cells if c.cell_type == "code" and c.source.strip()]


def called(node):
    """The names of all functions and methods called in a piece of code."""
    functions = [call.func for call in ast.walk(node) if isinstance(call, ast.Call)]
    return {getattr(f, "attr", getattr(f, "id", "")) for f in functions}


def is_plumbing(body):
    """Does the cell import and no more, call one of CALLS, or record without using?"""
    imports = [isinstance(s, ast.Import | ast.ImportFrom) for s in body]
    bare = [e for s in body for e in ast.walk(s) if isinstance(e, ast.Expr)]
    records = any(isinstance(e.value, ast.Call) and "record" in called(e) for e in bare)
    return all(imports) or records or bool(CALLS & called(ast.Module(body, [])))


def defined(source):
    """The names that a cell defines for others; the variable of a loop is not one."""
    table, tree = symtable.symtable(source, "cell", "exec"), ast.parse(source)
    loops = [n.target for n in ast.walk(tree) if isinstance(n, ast.For)]
    passing = {n.id for loop in loops for n in ast.walk(loop) if isinstance(n, ast.Name)}
    assigned = {
        s.get_name() for s in table.get_symbols() if s.is_assigned() or s.is_namespace()
    }
    return assigned - passing


def used(tree):
    return {
        n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)
    }


def plumbing(sources):
    """One bool per cell."""
    trees = [ast.parse(source) for source in sources]
    found, silent = [is_plumbing(tree.body) for tree in trees], [not shows(t) for t in trees]
    tells = ["table" in called(t) and "judge" not in called(t) for t in trees]
    while True:
        before = list(found)
        for k, source in enumerate(sources):
            others = [
                used(t) for j, t in enumerate(trees) if j != k and (tells[j] or not found[j])
            ]
            own = defined(source)
            found[k] |= silent[k] and bool(own) and not own & set().union(*others)
        if found == before:
            return found


def shows(tree):
    """Does the cell show something: text, a picture, or the value of its last line?"""
    return bool(SHOW & called(tree)) or isinstance(tree.body[-1], ast.Expr)


def share(path):
    """(plumbing lines, all lines, cells) of a notebook's code."""
    sources = code_cells(path)
    lines = [len(source.strip().splitlines()) for source in sources]
    found = sum(n for n, yes in zip(lines, plumbing(sources)) if yes)
    return found, sum(lines), len(lines)


def main(arguments):
    given = [a for a in arguments if not a.startswith("-")]
    for path in map(Path, given or sorted((ROOT / "notebooks").glob("*.ipynb"))):
        lines_of, lines, cells = share(path)
        print(
            f"{path.stem:26} {cells:3} cells {lines:4} lines {lines_of / lines:4.0%} plumbing"
        )
        sources = code_cells(path)
        for k, yes in enumerate(plumbing(sources)):
            if yes and "--names" in arguments:
                print(
                    f"    {k:3} {len(sources[k].splitlines()):3} {sources[k].splitlines()[0]}"
                )


if __name__ == "__main__":
    main(sys.argv[1:])
