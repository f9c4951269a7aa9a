"""The backend ``server``: a server that people run anyway, such as vLLM, writes; token ids go in and come out.

Requests are sent by threads, as many at once as the batch size, and taken from the list one by one, so that memory is
flat however long it is. ``/inference/v1/generate`` is used where the server has it, else the completions of OpenAI's
API with prompts as ids. Every request states all that decides which tokens come. An LP is named by its request, and
acts there by our plugin (``lp/served``); ``none`` names none, and ``grammar`` asks the server's structured outputs.

The ids are followed through the LP's own table, which tells the forced ones. A token outside of the LP's language ends
its sample as ``desync``: a server on which an LP did not act is never silent. What is not known here: passes, and
the server's times and memory. Probabilities are asked for with ``diagnostics`` alone, since they cost a server a
quarter of its pace (``server_chances``). A sample depends on seed and key, as far as the server keeps to seeds.
"""

from __future__ import annotations

import copy
import hashlib
import json
import math
import queue
import re
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from engine.decode.plan import DecodeOptions, Request, Sampling
from engine.decode.rows import Work
from engine.decode.server_chances import MASKED_NOTE, Chance, RawCheck, asked_of, diagnosis_of, read_chances
from engine.decode.steps import Counters, Event, Step, Stop, StopReason
from engine.errors import ConstraintError, ServerError
from engine.lp.constraint import Constraint, LpParameters, end_of
from engine.lp.follower import AutomatonRows, Follower
from engine.lp.grammar import GrammarConstraint
from engine.lp.served import ServedLp
from engine.lp.table import NO_ID
from engine.lp.unconstrained import Unconstrained
from engine.lp_records import NO_LP, lp_record
from engine.models.loading import LoadedModel
from engine.models.server import (
    COMPLETIONS_PATH,
    MOST_BYTES,
    TOKENS_PATH,
    BusyError,
    Connection,
    RefusedError,
    wait_behind,
)
from engine.records import Descriptors, Molecule

BYTES_A_TOKEN = 2_048
"""Of an answer: an event of a stream for each token, or the prompt's ids once more, and the text of each token."""
PROBE_S = 60.0
"""Longest wait for a probe's answer."""
LOOK_S, JOIN_S = 0.1, 2.0
"""How often a waiting reader asks whether it is to stop; and how long it then waits for the threads."""
_TOO_FEW = re.compile(r"max_tokens\b.*\b(or more|at least|too small)\b")
"""In a server's words on a request; the first are our plugin's."""


@dataclass(frozen=True, slots=True)
class AnswerPart:
    """What came of one request: more ids, why it ended, or that it was refused. ``seconds``: since it was sent."""

    request: Request
    ids: tuple[int, ...]
    finish: str | None
    seconds: float
    refusal: RefusedError | None = None
    chances: tuple[Chance, ...] = ()  # of each id, where they were asked for


class ServerBackend:
    """A served model under an LP, which ``descriptors`` and ``parameters`` are for."""

    is_streaming = False
    """Whether tokens are shown as they come; else each answer comes whole, which costs server and client less."""

    def __init__(
        self, loaded: LoadedModel, constraint: Constraint, lp: str, descriptors: Descriptors, parameters: LpParameters
    ) -> None:
        assert loaded.served is not None
        self.served, self.constraint = loaded.served, constraint
        self.end_id, self._vocab_rows = end_of(loaded.tokenizer), loaded.vocab_rows
        self.rows = AutomatonRows(constraint.automaton)
        stops = constraint.stops if isinstance(constraint, Unconstrained) else ()
        self._stop_ids = [self.end_id, *stops]
        self.grammar = constraint if isinstance(constraint, GrammarConstraint) else None
        self._has_answered = self._has_refused = False
        self.raw_check = RawCheck(has_forced=lp != NO_LP and self.grammar is None)
        self._lp: ServedLp | None = None  # for any molecule
        if lp != NO_LP and self.grammar is None:
            usual = lp_record(lp).descriptors or "plain"
            self._lp = ServedLp(lp, "C", None if descriptors == usual else descriptors, parameters)
            ServedLp.of(self._lp.arguments())  # what cannot be met is refused before anything is sent

    def run(
        self,
        requests: Sequence[Request],
        options: DecodeOptions,
        counters: Counters,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> Generator[Event, None, None]:
        """Steps and stops as they come; ``cancelled`` is asked whenever something came, and ten times a second."""
        if options.tap is not None:
            raise ConstraintError("a server gives no logits", "Leave --log-logits out; --diagnostics asks for chances")
        counters.batch_size = options.batch_size
        limit_s = math.inf if options.time_limit_s is None else options.time_limit_s
        began = time.perf_counter()
        before, ended = counters.decode_s, set[int]()
        writing: dict[int, _Row] = {}
        sent = sorted(map(self._fitted, requests), key=lambda request: -request.limit)
        crew = _Crew(self, sent, options)
        try:
            while len(ended) < len(requests) and time.perf_counter() - began < limit_s and not cancelled():
                part = crew.next_part()
                counters.decode_s = before + time.perf_counter() - began
                if part is None:
                    continue
                sample = part.request.sample
                if sample in ended:
                    continue
                if sample not in writing:
                    writing[sample] = _Row(self, part.request)
                self._take(part, counters, is_first=sample == sent[0].sample)
                yield from writing[sample].events(part, counters)
                if writing[sample].has_ended:
                    ended.add(sample)
                    del writing[sample]
                    if part.finish is None:
                        crew.leave(sample)
        finally:
            crew.close()
        reason: StopReason = "time" if time.perf_counter() - began >= limit_s else "cancelled"
        yield from [Work(request, unseen=None).stop(reason) for request in requests if request.sample not in ended]

    def _take(self, part: AnswerPart, counters: Counters, *, is_first: bool) -> None:
        """A refusal ends its sample alone, unless the server took nothing before: it may refuse the others too."""
        if part.refusal is None:
            self._has_answered = True
            return
        if is_first and not self._has_answered:
            raise part.refusal
        if not self._has_refused:
            counters.notes.append(f"answers are missing, the first of them as {part.refusal.what}")
        self._has_refused = True

    def holds(self, request: Request, named: Molecule, cancelled: Callable[[], bool]) -> bool | None:
        """Whether the server writes what the LP of a request allows, and not the molecule that its prompt names; None
        where it writes neither, or no whole answer came."""
        options = DecodeOptions(Sampling(0.0), batch_size=1, time_limit_s=PROBE_S)
        probe = copy.copy(self)  # that it was answered says nothing of later refusals
        events = list(probe.run([request], options, Counters(), cancelled))
        ids = [event.token_id for event in events if isinstance(event, Step)]
        (reason,) = [event.reason for event in events if isinstance(event, Stop)]
        if reason == "end":
            return True
        assert request.molecule is not None
        is_ignored = self._may_become(named, ids) and not self._may_become(request.molecule, ids)
        return False if reason == "desync" and is_ignored else None

    def _may_become(self, molecule: Molecule, ids: Sequence[int]) -> bool:
        """Whether these ids begin an answer of the molecule."""
        if self.grammar is not None:
            return self.grammar.holds(molecule, self.grammar.text_of(ids), is_whole=False)
        return Follower(self.rows, self.constraint.compile(molecule)).follow(ids) == len(ids)

    # --- requests ---

    def _fitted(self, request: Request) -> Request:
        """Within the context that the server has, which may be shorter than the model's own."""
        positions = self.served.positions
        if positions is None or len(request.prompt) + request.limit <= positions:
            return request
        if len(request.prompt) >= positions:
            problem = f"takes {positions:,} tokens in all, a prompt has {len(request.prompt):,}"
            raise self._wrong(problem, "Start it with a longer --max-model-len")
        return replace(request, limit=positions - len(request.prompt))

    def path_and_body(self, request: Request, options: DecodeOptions) -> tuple[str, bytes]:
        settings: dict[str, Any] = {
            "max_tokens": request.limit,
            "seed": seed_of(options.seed, request.key),
            "n": 1,
            **_sampling(options.sampling),
            "presence_penalty": 0.0,
            "frequency_penalty": 0.0,
            "repetition_penalty": 1.0,
            "stop_token_ids": self._stop_ids,
            "skip_special_tokens": False,
        }
        if options.diagnostics:
            settings["logprobs"] = asked_of(options.candidates)
        arguments = self._arguments(request)
        if self.grammar is not None and request.molecule is not None:
            settings["structured_outputs"] = {"regex": self.grammar.pattern(request.molecule)}
        body: dict[str, Any] = {"model": self.served.name, "stream": self.is_streaming, "return_token_ids": True}
        if self.served.takes_ids:
            if arguments:
                settings["extra_args"] = arguments
            body |= {"token_ids": request.prompt, "sampling_params": settings | {"detokenize": False}}
        else:
            if arguments:
                settings["vllm_xargs"] = arguments
            body |= {"prompt": request.prompt, "add_special_tokens": False, "return_tokens_as_token_ids": True}
            body |= settings
        return TOKENS_PATH if self.served.takes_ids else COMPLETIONS_PATH, json.dumps(body).encode()

    def _arguments(self, request: Request) -> dict[str, str | int]:
        if self._lp is None:
            return {}
        assert request.molecule is not None
        return replace(self._lp, smiles=request.molecule.smiles).arguments()

    # --- answers ---

    def parts(
        self, connection: Connection, request: Request, options: DecodeOptions
    ) -> Generator[AnswerPart, None, None]:
        """Of one request, sent again where the server is busy or the answer broke off: what came again is left out."""
        began, number, known = time.perf_counter(), 1, list[int]()
        path, body = self.path_and_body(request, options)
        most_bytes = MOST_BYTES + BYTES_A_TOKEN * (len(request.prompt) + request.limit)
        while True:
            count, is_over = 0, False  # ids of this try, and whether it said why the answer ended
            try:
                for document in connection.documents(path, body, most_bytes):
                    ids, finish, told = self._read(document, request)
                    chances = self._chances(told, ids, options)
                    again, old = known[count : count + len(ids)], max(0, len(known) - count)
                    new = ids[old:]
                    if again != ids[: len(again)] or (finish and count + len(ids) < len(known)):
                        raise self._wrong("broke an answer off, and gave another one when it was asked again")
                    count += len(ids)
                    known += new
                    if len(known) > request.limit:
                        raise self._wrong(f"gives more than the {request.limit:,} tokens that were asked for")
                    if new or finish:
                        seconds = time.perf_counter() - began
                        yield AnswerPart(request, tuple(new), finish, seconds, chances=chances[old:])
                    if finish and self.is_streaming:  # what may follow is not waited for, so the connection ends
                        return
                    is_over = finish is not None
                if is_over:
                    return
                raise BusyError(f"the answer of {connection.address.url} broke off")
            except BusyError as error:
                if connection.is_closed.wait(wait_behind(number, error)):
                    return
                number += 1

    def _read(self, document: dict[str, Any], request: Request) -> tuple[list[int], str | None, Any]:
        """The ids of a document, why its answer ended, and what is told of their probabilities."""
        try:
            choices = document["choices"]
            if not choices:  # an event of usage alone
                return [], None, None
            (choice,) = choices
            ids, finish = choice.get("token_ids"), choice.get("finish_reason")
            prompt = choice.get("prompt_token_ids") or document.get("prompt_token_ids")
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise self._wrong("answers with no choice as OpenAI's API has them") from error
        if ids is None and finish and self.is_streaming:
            ids = []
        if not isinstance(ids, list):
            problem = "returns no token ids, without which nothing can be told of its tokens"
            raise self._wrong(problem, "Use a server that knows return_token_ids, such as vLLM from 0.10.2 on")
        for id_ in ids:
            if type(id_) is not int or not 0 <= id_ < self._vocab_rows:
                problem = f"gives the token {self.served.address.said(id_)}, the model has {self._vocab_rows:,} rows"
                raise self._wrong(problem, "Name the model that it serves")
        if prompt is not None and prompt != list(request.prompt):
            raise self._wrong("has changed the prompt's tokens", "Leave out what truncates prompts or adds to them")
        if finish not in (None, "stop", "length"):
            raise self._wrong(f"ended an answer with {self.served.address.said(finish)}")
        return ids, finish, choice.get("logprobs")

    def _chances(self, told: Any, ids: Sequence[int], options: DecodeOptions) -> tuple[Chance, ...]:
        """Of each id, where they were asked for."""
        if not (options.diagnostics and ids):
            return ()
        try:
            return tuple(read_chances(told, ids, asked_of(options.candidates), self._vocab_rows))
        except ValueError as error:
            raise self._wrong(f"gives no log-probabilities: {error}", "Leave --diagnostics out") from error

    def _wrong(self, what: str, fix: str = "") -> ServerError:
        return ServerError(f"the server at {self.served.address.url} {what}", fix)


def _sampling(sampling: Sampling) -> dict[str, float]:
    """Filters that are off are stated too, as a server may have others for usual ones."""
    if sampling.is_greedy:
        return {"temperature": 0.0, "top_p": 1.0, "top_k": -1, "min_p": 0.0}
    filters = {"top_p": sampling.top_p, "top_k": sampling.top_k or -1, "min_p": sampling.min_p}
    return {"temperature": sampling.temperature, **filters}


def seed_of(seed: int, key: int) -> int:
    """Of one sample. 53 bits, which every reader of JSON takes as they are."""
    return int.from_bytes(hashlib.sha256(f"{seed} {key}".encode()).digest()[:8]) >> 11


class _Row:
    """One sample as far as it came."""

    def __init__(self, backend: ServerBackend, request: Request) -> None:
        self.backend, self.work = backend, Work(request, unseen=None)  # nobody says at which steps its LP was asked
        self.follower = Follower(backend.rows, request.program)
        self.has_ended = False
        self.shows_chances: bool | None = None  # of the whole answer, decided at its first part

    def events(self, part: AnswerPart, counters: Counters) -> Iterator[Event]:
        if part.chances:
            self._check_chances(part, counters)
        for number, id_ in enumerate(part.ids):
            if not self.has_ended:
                yield from self._written(id_, part, counters, part.chances[number] if self.shows_chances else None)
        if part.refusal is not None:
            self.has_ended = True
            reason: StopReason = "length" if _TOO_FEW.search(part.refusal.what) else "empty_mask"
            yield replace(self.work.stop(reason), seconds=part.seconds)
        if part.finish == "length" and not self.has_ended:
            yield self._stopped("length", part)
        while part.finish == "stop" and not self.has_ended:
            yield from self._behind_the_end(part, counters)

    def _check_chances(self, part: AnswerPart, counters: Counters) -> None:
        check = self.backend.raw_check
        is_raw = check.see(self.follower, part.ids, part.chances)
        if self.shows_chances is None:
            self.shows_chances = is_raw
        if check.is_raw is False and MASKED_NOTE not in counters.notes:
            counters.notes.append(MASKED_NOTE)

    def _behind_the_end(self, part: AnswerPart, counters: Counters) -> Iterator[Event]:
        """A server stops at tokens behind which ours follow by force, and some leave the end token itself out."""
        forced, end = self.follower.forced_id, self.backend.end_id
        if forced != NO_ID or self.follower.allows(end):
            yield from self._written(end if forced == NO_ID else forced, part, counters)
        else:
            yield self._stopped("desync", part)

    def _written(self, id_: int, part: AnswerPart, counters: Counters, chance: Chance | None = None) -> Iterator[Event]:
        diagnosis = None
        if chance is not None:
            rules = self.backend.constraint.automaton.rules
            diagnosis = diagnosis_of(chance, self.follower, self.work.request.program, rules)
        is_forced = self.follower.take(id_)
        yield replace(counters.count(self.work.write(id_, forced=is_forced)), diagnosis=diagnosis)
        reason = "desync" if self.follower.is_lost else self.work.ended(self.backend.end_id)
        if reason is not None:
            yield self._stopped(reason, part)

    def _stopped(self, reason: StopReason, part: AnswerPart) -> Event:
        self.has_ended = True
        grammar, molecule, ids = self.backend.grammar, self.work.request.molecule, self.work.written
        if grammar is not None and molecule is not None:
            is_right = grammar.holds(molecule, grammar.text_of(ids), is_whole=reason == "end")
            reason = reason if is_right else "desync"
        return replace(self.work.stop(reason), seconds=part.seconds)


class _Crew:
    """The threads that ask, each on a connection of its own."""

    def __init__(self, backend: ServerBackend, requests: Sequence[Request], options: DecodeOptions) -> None:
        self._backend, self._options = backend, options
        self._waiting, self._taking = iter(requests), threading.Lock()
        count = min(options.batch_size, len(requests))
        self._parts: queue.Queue[AnswerPart | BaseException] = queue.Queue(max(1, 2 * count))
        self._left: set[int] = set()  # samples of which no more is wanted
        self._is_over = threading.Event()
        self._connections = [Connection(backend.served.address) for _ in range(count)]
        self._threads = [
            threading.Thread(target=self._work, args=(connection,), name="server request", daemon=True)
            for connection in self._connections
        ]
        for thread in self._threads:
            thread.start()

    def next_part(self) -> AnswerPart | None:
        """None where nothing came for a while. What went wrong in a thread is raised here."""
        try:
            part = self._parts.get(timeout=LOOK_S)
        except queue.Empty:
            return None
        if isinstance(part, BaseException):
            raise part
        return part

    def leave(self, sample: int) -> None:
        """The rest of its answer is not read."""
        self._left.add(sample)

    def close(self) -> None:
        self._is_over.set()
        for connection in self._connections:
            connection.close()
        until = time.monotonic() + JOIN_S
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))

    def _work(self, connection: Connection) -> None:
        try:
            while (request := self._taken()) is not None:
                began = time.perf_counter()
                try:
                    self._ask(connection, request)
                except RefusedError as error:
                    self._put(AnswerPart(request, (), None, time.perf_counter() - began, error))
        except BaseException as error:  # noqa: BLE001 - it is raised in the thread that reads
            self._put(error)
        finally:
            connection.hang_up()

    def _ask(self, connection: Connection, request: Request) -> None:
        parts = self._backend.parts(connection, request, self._options)
        for part in parts:
            self._put(part)
            if self._is_over.is_set() or request.sample in self._left:
                break
        parts.close()

    def _taken(self) -> Request | None:
        with self._taking:
            return None if self._is_over.is_set() else next(self._waiting, None)

    def _put(self, part: AnswerPart | BaseException) -> None:
        """Waits where the reader is far behind, for as long as there is one."""
        while not self._is_over.is_set():
            with suppress(queue.Full):
                self._parts.put(part, timeout=LOOK_S)
                return
