"""What is asked of a generation: sampling, LP, limits, and one request per sample. Torch is not imported here."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from engine.errors import ConstraintError, nearest, shown
from engine.lp_records import DEFAULT_LP, GuardSettings, lp_record, split_cleanup
from engine.records import Descriptors, Molecule, NumberFormat

if TYPE_CHECKING:
    from engine.decode.guarding import AnswerGuard
    from engine.decode.shaped_rows import AnswerShape
    from engine.decode.steps import CloseIds, Kept, Tap
    from engine.lp.constraint import Constraint
    from engine.lp.table import Program
    from engine.text.tokenizers import TextTokenizer

BackendName = Literal["auto", "fast", "hf", "server"]
BACKENDS: tuple[BackendName, ...] = ("auto", "fast", "hf", "server")
"""``auto`` is ``fast`` where that runs the model, else ``hf``, and never ``server``."""
MOST_LIMIT = 100_000
TOKENS_AROUND, TOKENS_AN_ATOM = 64, 32
"""The default limit of an answer: an atom and its block take some 25 tokens."""
TOKENS_A_CONFORMER, MOST_TOKENS_OF_SEVERAL = 650, 5_000
"""Max new tokens where the group asks for several conformers in one answer. Under ``exact`` none is lost at a limit, so
there each has as many as one alone, and the sum has no bound but the model's context."""
MOST_ASKED = 64
GENERATION_BITS = 32
"""Bits of a key below the generation's number: the same molecule's n-th answer is the same whatever n goes up to."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """Zero, or one for ``top_p``, switches a filter off. Greedy where the temperature is 0."""

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0

    def __post_init__(self) -> None:
        fits = 0 <= self.temperature < math.inf and self.top_k >= 0 and 0 < self.top_p <= 1 and 0 <= self.min_p <= 1
        if not fits:
            raise ConstraintError(
                f"the sampling parameters {self} do not fit",
                "temperature (finite) and top-k are at least 0, top-p is in (0, 1], min-p in [0, 1]",
            )

    @property
    def is_greedy(self) -> bool:
        return self.temperature == 0

    @property
    def has_filters(self) -> bool:
        return self.top_k > 0 or self.top_p < 1 or self.min_p > 0


PRESETS = {
    "greedy": Sampling(0.0),
    **{f"p{p}_t{t}": Sampling(t, top_p=p) for t in (1.0, 1.2, 1.4) for p in (1.0, 0.8, 0.6, 0.4)},
    "p0.8_t0.8": Sampling(0.8, top_p=0.8),
    **{f"minp{p}_t{t}": Sampling(t, min_p=p) for t in (0.8, 1.0, 1.2, 1.4) for p in (0.1, 0.075, 0.05)},
    "qwen3": Sampling(0.7, top_k=20, top_p=0.8),
}
"""By the reports' names; ``qwen3`` is what Qwen's own documentation asks for in place of greedy."""


def preset(name: str) -> Sampling:
    if name in PRESETS:
        return PRESETS[name]
    raise ConstraintError(f"there is no sampling preset {shown(name)}", nearest(name, PRESETS))


@dataclass(frozen=True, slots=True)
class DecodeOptions:
    """How to decode, whatever the backend."""

    sampling: Sampling
    seed: int = 0
    batch_size: int = 32
    diagnostics: bool = False
    candidates: int = 10  # of a step, with diagnostics
    close_ids: CloseIds | None = None  # a diagnosis has their masses
    time_limit_s: float | None = None
    tap: Tap | None = None

    def __post_init__(self) -> None:
        limit_s = math.inf if self.time_limit_s is None else self.time_limit_s
        if self.batch_size < 1 or self.candidates < 0 or not limit_s > 0:
            raise ConstraintError(
                f"batch size {self.batch_size}, {self.candidates} candidates, time limit {self.time_limit_s} s",
                "Batch size and time limit must be more than 0, candidates at least 0",
            )

    @property
    def is_stepwise(self) -> bool:
        """Whether each token, forced ones too, takes a pass of its own and is looked at."""
        return self.diagnostics or self.tap is not None


@dataclass(frozen=True, slots=True)
class Branch:
    """Where answers go on from in a stored one: behind its first tokens, each with another next token."""

    of: str  # the parent, RUN/SAMPLE
    at: int  # the position that is written anew
    ids: tuple[int, ...]  # of the parent, before it
    key: int  # of the parent's draws
    tokens: tuple[int, ...] = ()  # one for each generation; none: drawn

    def first_ids(self, generation: int) -> tuple[int, ...]:
        return (*self.ids, *self.tokens[generation : generation + 1])


@dataclass(frozen=True, slots=True)
class Plan:
    """What is asked of a call, apart from model and molecules. ``lp`` may end in ``+cleanup``."""

    lp: str = DEFAULT_LP
    placeholder: str = ""
    form: NumberFormat | None = None  # the numbers that may be written; None: the model's own
    descriptors: Descriptors | None = None  # None: those that the LP forces, else the model's
    bos: bool = True  # prompts begin as the checkpoint's do; runs of before this was known have none
    backend: BackendName = "auto"
    sampling: Sampling = field(default_factory=lambda: preset("qwen3"))
    generations: int = 1
    conformers: int = 1  # of each answer
    examples: str = ""  # what stands before each prompt: SMILES with their conformers, see ``text.examples``
    seed: int = 0
    batch_size: int = 32
    limit: int | None = None  # most tokens of an answer; None: by the molecule's size
    time_limit_s: float | None = None
    diagnostics: bool = False
    candidates: int = 10
    compile: bool = False  # the fast backend's layers, by torch.compile
    equal_work: bool = False  # each answer as long as the exact LP's
    guard: GuardSettings | None = None  # of an LP that is guarded; None: its usual one
    branch: Branch | None = None  # each generation goes on from there

    def __post_init__(self) -> None:
        if self.backend not in BACKENDS:
            raise ConstraintError(f"there is no backend {shown(self.backend)}", nearest(self.backend, BACKENDS))
        if self.generations < 1 or (self.limit is not None and not 1 <= self.limit <= MOST_LIMIT):
            raise ConstraintError(
                f"{self.generations} generations of at most {self.limit} tokens cannot be",
                f"Give one generation or more, and a limit from 1 to {MOST_LIMIT:,}",
            )
        self._check_backend()
        if self.equal_work and self.limit is not None:
            raise ConstraintError("equal work sets the limits itself", "Leave one of the two out")
        record = lp_record(split_cleanup(self.lp)[0])
        if self.form is not None:
            record.check_form(self.form)
        if not 1 <= self.conformers <= MOST_ASKED:
            raise ConstraintError(f"{self.conformers} conformers in one answer", f"Ask for 1 to {MOST_ASKED}")
        record.check_conformers(self.conformers)

    def _check_backend(self) -> None:
        """What it cannot do."""
        record = lp_record(split_cleanup(self.lp)[0])
        if record.by_server and self.backend != "server":
            raise ConstraintError(f"the LP {self.lp} acts at a server alone", "Give --backend server, or use exact")
        if self.compile and self.backend in ("hf", "server"):
            raise ConstraintError(f"the backend {self.backend} is not compiled", "Use the backend fast")
        if self.backend == "server" and record.is_guarded and self.guard not in (None, record.guard):
            problem = f"a server knows the usual checks and limits of {record.name} alone"
            raise ConstraintError(problem, "Leave --guard, --retries, --back and --most-thrown out")
        if self.branch is not None and (self.backend == "server" or self.diagnostics):
            raise ConstraintError("a branch needs the model itself, and has its probabilities scored", "Use auto")
        if self.backend == "server" and self.equal_work:
            raise ConstraintError("the backend server does no equal work", "Give --max-new-tokens")

    @property
    def guard_settings(self) -> GuardSettings:
        return self.guard or lp_record(split_cleanup(self.lp)[0]).guard

    def limit_of(self, heavy_atoms: int) -> int:
        """Most tokens of an answer for such a molecule."""
        if self.limit is not None:
            return self.limit
        one = default_limit(heavy_atoms)
        if self.conformers == 1 or self.is_whole:
            return one * self.conformers
        return max(one, min(TOKENS_A_CONFORMER * self.conformers, MOST_TOKENS_OF_SEVERAL))

    @property
    def is_whole(self) -> bool:
        """Whether the LP sees to it that every conformer of an answer is whole, if the limit lets it."""
        return lp_record(split_cleanup(self.lp)[0]).name == DEFAULT_LP

    def descriptors_of(self, model: Descriptors) -> Descriptors:
        """How the text's descriptors are written; ``model`` is how the model learnt them."""
        return self.descriptors or lp_record(split_cleanup(self.lp)[0]).descriptors or model


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """One sample to be written."""

    sample: int  # names it in the stream; no two requests of a call share one
    key: int  # keys its randomness, with the seed and the step
    prompt: tuple[int, ...]
    program: Program
    limit: int  # most tokens of the answer
    start: tuple[int, int] | None = None  # cell and node, where the prompt ends inside an answer
    guard: AnswerGuard | AnswerShape | None = None
    molecule: Molecule | None = None  # for an LP that acts elsewhere
    kept: Kept | None = None  # of a branch


def default_limit(heavy_atoms: int) -> int:
    return TOKENS_AROUND + TOKENS_AN_ATOM * heavy_atoms


@dataclass(frozen=True, slots=True)
class Context:
    """What prompts begin with, and how long prompt and answer may be together."""

    tokenizer: TextTokenizer
    positions: int  # of the model
    begin: Sequence[int] = ()
    examples: str = ""
    must_fit: bool = False  # an answer up to its limit; else the limit is cut

    def prompt(self, molecule: Molecule, limit: int) -> tuple[int, ...]:
        """Its tokens; an error where the context has no room for it."""
        from engine.chem.enriched import prompt_of  # here: rdkit is slow to import, and who only plans needs none

        prompt = (*self.begin, *self.tokenizer.encode(self.examples + prompt_of(molecule.smiles)))
        if len(prompt) >= self.positions:
            raise ConstraintError(
                f"the prompt of {shown(molecule.smiles)} has {len(prompt):,} tokens, the model's context "
                f"{self.positions:,}",
                "Leave this molecule out, or take a model with a longer context",
            )
        if self.must_fit and limit > self.positions - len(prompt):
            raise ConstraintError(
                f"the conformers of {shown(molecule.smiles)} may take {limit:,} tokens behind a prompt of "
                f"{len(prompt):,}, the model's context is {self.positions:,}",
                "Ask for fewer conformers or examples, or set --max-new-tokens",
            )
        return prompt


def requests_for(
    molecules: Sequence[Molecule],
    constraint: Constraint,
    context: Context,
    *,
    generations: int = 1,
    limits: Sequence[int] | None = None,
    numbers: Sequence[int] | None = None,
) -> list[Request]:
    """``generations`` requests a molecule, one molecule after the other.

    ``numbers`` are the molecules' indices in a longer list, which name their samples and key their draws. The same
    ``Molecule`` may be in the list many times, and is compiled once.
    """
    requests = []
    compiled: dict[int, tuple[tuple[int, ...], Program]] = {}  # by identity
    for index, molecule in enumerate(molecules):
        number = index if numbers is None else numbers[index]
        limit = default_limit(molecule.heavy_atoms) if limits is None else limits[index]
        if id(molecule) not in compiled:
            compiled[id(molecule)] = context.prompt(molecule, limit), constraint.compile(molecule)
        prompt, program = compiled[id(molecule)]
        limit = min(limit, context.positions - len(prompt))
        requests += [
            Request(
                number * generations + generation,
                number | generation << GENERATION_BITS,
                prompt,
                program,
                limit,
                molecule=molecule,
            )
            for generation in range(generations)
        ]
    return requests
