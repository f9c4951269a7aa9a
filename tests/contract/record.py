"""Write what the contract tests expect, from the code as it is: ``python -m tests.contract.record [--only PART]``.

Run it only after a change that means every figure anew, such as
another demo store; what an issue takes away on purpose goes to gone.toml instead.

Every call is made twice: an answer that is another the second time is an error, to be mended or named in ``without``.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import tempfile
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.contract.black_box import HERE, answers, engine, options, pages
from tests.contract.inclusion import lost, reduced
from tests.support import ROOT

RECORDED = HERE / "recorded"
PARTS = ("options", "answers", "links")
_PLACEHOLDER = re.compile(r"\{(run|trace|log):([^}]+)\}")


def _write(name: str, document: Mapping[str, Any]) -> None:
    """An entry a line, so that a change is seen as one."""
    lines = [f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in document.items()]
    RECORDED.mkdir(exist_ok=True)
    (RECORDED / f"{name}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    print(f"{name}: {len(lines)} entries")


def _toml(name: str) -> dict[str, Any]:
    return tomllib.loads((HERE / name).read_text(encoding="utf-8"))


def resolver(store: Path) -> Callable[[Any], Any]:
    """Puts ids of the store in place of ``{run:...}``, ``{trace:...}`` and ``{log:...}``."""
    lps = _toml("calls.toml")["lps"]
    runs = [row for row in engine("runs", "--json", store=store).document if row["origin"] == "measured"]
    ids = {
        "trace": [row["trace_id"] for row in engine("trace", "list", "--json", store=store).document],
        "log": [row["log_id"] for row in engine("logits", "list", "--json", store=store).document],
    }

    def id_of(match: re.Match[str]) -> str:
        kind, name = match.groups()
        if kind == "run":
            model, _, lp = name.partition("/")
            of_model = [row for row in runs if row["model_alias"] == model]
            matches = [row["run_id"] for alias in lps.get(lp, [lp]) for row in of_model if row["lp"] == alias][:1]
        else:
            matches = [id_ for id_ in ids[kind] if name in id_]
        if len(matches) != 1:
            raise SystemExit(f"{match.group()} is {len(matches)} entries of the store: {matches}")
        return str(matches[0])

    def resolved(value: Any) -> Any:
        if isinstance(value, str):
            return _PLACEHOLDER.sub(id_of, value)
        if isinstance(value, dict):
            return {key: resolved(item) for key, item in value.items()}
        return [resolved(item) for item in value] if isinstance(value, list) else value

    return resolved


def record_calls(calls: Mapping[str, Any], store: Path) -> None:
    first, second = (answers(calls, store) for _ in range(2))
    documents = {}
    for name, call in calls.items():
        document = reduced(first[name], call.get("without", ()), call.get("every", ()))
        if differences := list(lost(document, second[name])):
            raise SystemExit(f"{name} answers otherwise the second time: {differences[:5]}")
        reads = {"reads": call["reads"]} if "reads" in call else {}
        documents[name] = {"args": call["args"], **reads, "answer": document}
    _write("answers", documents)


def record_links(store: Path) -> None:
    links = resolver(store)(_toml("links.toml"))
    named = {f"{page} {name}": (page, query, None) for page, part in links.items() for name, query in part.items()}
    first, second = (pages(list(named.values()), store) for _ in range(2))
    for name, answer, other in zip(named, first, second, strict=True):
        if answer["exceptions"] or answer["shown"] != other["shown"]:
            raise SystemExit(f"{name}: {answer} and then {other}")
    _write(
        "links",
        {
            name: {"page": page, "query": query, "shown": reduced(seen["shown"], has_texts=True)}
            for (name, (page, query, _)), seen in zip(named.items(), first, strict=True)
        },
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=PARTS, help="may be repeated; default: all")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = Path(shutil.copytree(ROOT / "data" / "demo", Path(folder, "demo")))
        for part in given.only or PARTS:
            if part == "options":
                _write("options", options())
            elif part == "answers":
                record_calls(resolver(store)(_toml("calls.toml")["calls"]), store)
            else:
                record_links(store)


if __name__ == "__main__":
    main()
