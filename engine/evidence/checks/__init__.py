"""The checks by the names that ``data/claims/`` uses. Each takes a claim and gives its verdict with figures."""

from engine.evidence.checks.arithmetic import agree, formula, holds, unrelated
from engine.evidence.checks.finding import Check
from engine.evidence.checks.missing import needs
from engine.evidence.checks.stored import sql
from engine.evidence.checks.tables import lp_table
from engine.evidence.checks.texts import characters, drift, examples, references, tokens

CHECKS: dict[str, Check] = {
    "agree": agree,
    "characters": characters,
    "drift": drift,
    "examples": examples,
    "formula": formula,
    "holds": holds,
    "lp_table": lp_table,
    "needs": needs,
    "references": references,
    "sql": sql,
    "tokens": tokens,
    "unrelated": unrelated,
}
