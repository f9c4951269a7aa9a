"""The backend ``server`` against a real HTTP server of our own that a small model writes for, and that goes wrong."""

from __future__ import annotations

import functools
import json
import math
import random
import shlex
import socket
import sys
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from engine.chem.smiles import parse_smiles
from engine.decode.generation import PROBED, Generation
from engine.decode.plan import DecodeOptions, Plan, Sampling, preset
from engine.decode.server import ServerBackend, seed_of
from engine.decode.server_chances import MASKED_NOTE
from engine.decode.steps import Counters, Event, Step, Stop
from engine.errors import ConstraintError, ServerError
from engine.jobs.run import Run
from engine.lp.canonical import random_ids
from engine.lp.constraint import LpParameters
from engine.models import loading
from engine.models import server as http
from engine.models.server import ServerAddress, served_model, server_address
from engine.models.shipped import VOCAB_ROWS
from engine.records import NumberFormat
from engine.store.schema import RUN
from engine.store.staging import unfinished_ids
from engine.store.store import Store
from tests.cli import run
from tests.engine.decode import reference as ref
from tests.engine.decode.fake_server import Act, FakeServer, Handler, playing, serving
from tests.engine.jobs.small_runs import interrupted_after_one_group
from tests.small_models import use_small_model
from tests.support import sized

BOTH = pytest.mark.parametrize("takes_ids", [False, True], ids=["completions", "ids"])
STREAMS = pytest.mark.parametrize("is_streaming", [False, True], ids=["whole", "stream"])
SECRET = "sk-Geheim123"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "FIRST_WAIT_S", 0.001)
    monkeypatch.delenv(http.ADDRESS, raising=False)
    monkeypatch.delenv(http.KEY, raising=False)
    by_prompt()  # the server's threads would all make it


def backend_of(fake: FakeServer, lp: str = "exact", **more: Any) -> ServerBackend:
    """Of the toy of 48 rows."""
    loaded: Any = SimpleNamespace(
        served=served_model(server_address(fake.url), ["small"]), tokenizer=Mock(end_id=ref.END), vocab_rows=ref.ROWS
    )
    constraint: Any = ref.NO_LP if lp == "none" else ref.LETTERS_ONLY
    return ServerBackend(loaded, constraint, lp, "plain", LpParameters(**more))


def requests(count: int, limit: int = 24, constraint: Any = ref.LETTERS_ONLY) -> list[Any]:
    return ref.tiny_requests(count, constraint, limit, molecule=parse_smiles("CCO"))


@functools.cache
def by_prompt() -> dict[tuple[int, ...], ref.Written]:
    """What the toy's model writes behind each prompt under the toy's LP."""
    model = ref.tiny_model()
    return {each.prompt: ref.written(model, ref.LETTERS_ONLY, each, ref.GREEDY) for each in requests(5)}


def of_model(body: dict[str, Any]) -> list[int]:
    return by_prompt()[tuple(body.get("prompt") or body["token_ids"])].ids


def written_by(fake: FakeServer, count: int = 7, *, is_streaming: bool = False, **more: Any) -> dict[int, ref.Written]:
    backend = backend_of(fake)
    backend.is_streaming = is_streaming
    options = DecodeOptions(**{"sampling": ref.GREEDY, "batch_size": 3, **more})
    return ref.collected(backend.run(requests(count), options, Counters()))


def closing(handler: Handler, body: dict[str, Any], number: int) -> None:
    """As older servers do behind each answer."""
    handler.close_connection = True
    handler.written(body, of_model(body))


@pytest.mark.parametrize(("act", "most"), [(playing(of_model), 3), (closing, 7)])
def test_a_connection_serves_until_the_server_closes_it(act: Act, most: int) -> None:
    with serving(act) as fake:
        samples = written_by(fake)
    assert samples == {each.sample: by_prompt()[each.prompt] for each in requests(7)}
    assert len(fake.bodies) == 7 and len(fake.connections) <= most


@BOTH
@STREAMS
def test_ids_forced_tokens_and_stops_are_those_of_a_model_here(takes_ids: bool, is_streaming: bool) -> None:
    with serving(playing(of_model), takes_ids=takes_ids) as fake:
        samples = written_by(fake, is_streaming=is_streaming)
    assert samples == {each.sample: by_prompt()[each.prompt] for each in requests(7)}
    assert {path for path, _, _ in fake.bodies} == {"/inference/v1/generate" if takes_ids else "/v1/completions"}
    assert len(fake.bodies) == 7 and fake.most_at_once <= 3


@BOTH
@pytest.mark.parametrize("sampling", [ref.GREEDY, preset("qwen3"), Sampling(1.2, min_p=0.1)], ids=str)
def test_a_request_states_all_that_decides_its_tokens(takes_ids: bool, sampling: Sampling) -> None:
    with serving(playing(of_model), takes_ids=takes_ids) as fake:
        written_by(fake, 1, sampling=sampling, seed=9)
    ((_, body, _),) = fake.bodies
    (request,) = requests(1)
    filters = (1.0, -1, 0.0) if sampling.is_greedy else (sampling.top_p, sampling.top_k or -1, sampling.min_p)
    settings: dict[str, Any] = {
        "max_tokens": 24, "seed": seed_of(9, request.key), "n": 1, "temperature": sampling.temperature,
        **dict(zip(("top_p", "top_k", "min_p"), filters, strict=True)), "presence_penalty": 0.0,
        "frequency_penalty": 0.0, "repetition_penalty": 1.0, "stop_token_ids": [ref.END], "skip_special_tokens": False,
    }  # fmt: skip
    sent: dict[str, Any]
    lp = {"driftscope_lp": "exact", "driftscope_smiles": "CCO"}
    common = {"model": "small", "stream": False, "return_token_ids": True}
    if takes_ids:
        sent = {"token_ids": [31], "sampling_params": {**settings, "detokenize": False, "extra_args": lp}}
    else:
        more = {"add_special_tokens": False, "return_tokens_as_token_ids": True}
        sent = {"prompt": [31], **settings, **more, "vllm_xargs": lp}
    assert body == common | sent | {next(iter(sent)): list(request.prompt)}


def diagnosed(fake: FakeServer, count: int, *, is_streaming: bool = False) -> tuple[dict[int, list[Step]], Counters]:
    """The steps of each sample, one after the other, with probabilities asked for."""
    backend, counters, steps = backend_of(fake), Counters(), dict[int, list[Step]]()
    backend.is_streaming = is_streaming
    options = DecodeOptions(ref.GREEDY, batch_size=1, diagnostics=True, candidates=2)
    for event in backend.run(requests(count), options, counters):
        if isinstance(event, Step):
            steps.setdefault(event.sample, []).append(event)
    return steps, counters


@BOTH
@STREAMS
def test_probabilities_are_those_that_the_server_tells_of_its_model(takes_ids: bool, is_streaming: bool) -> None:
    """Of a forced token all that is allowed is known; of others neither that mass nor the entropy."""
    other = 33  # that the LP never allows

    def act(handler: Handler, body: dict[str, Any], number: int) -> None:
        ids = of_model(body)
        chances = [(-0.5 - at, {id_: -0.5 - at, other: -0.25}) for at, id_ in enumerate(ids)]
        handler.written(body, ids, chances=chances)

    with serving(act, takes_ids=takes_ids) as fake:
        steps, counters = diagnosed(fake, 2, is_streaming=is_streaming)
    settings = [body.get("sampling_params", body) for _, body, _ in fake.bodies]
    assert [each["logprobs"] for each in settings] == [2, 2] and counters.notes == []
    for request in requests(2):
        written = by_prompt()[request.prompt]
        for at, step in enumerate(steps[request.sample]):
            got = step.diagnosis
            assert got is not None and got.p_raw == pytest.approx(math.exp(-0.5 - at)) and got.ln_p == -0.5 - at
            assert (got.rank_raw, got.entropy_nat, got.ln_q) == (2, None, None)
            assert [(token.token_id, token.allowed) for token in got.top_k] == [(other, False), (written.ids[at], True)]
            assert (got.p_lp, got.allowed_mass) == ((1, got.p_raw) if written.forced[at] else (None, None))


@STREAMS
def test_probabilities_behind_the_mask_are_found_out_and_not_shown(is_streaming: bool) -> None:
    """As with --logprobs-mode processed_logprobs: every forced token is certain."""

    def act(handler: Handler, body: dict[str, Any], number: int) -> None:
        written = by_prompt()[tuple(body["prompt"])]
        chances = [
            (0.0 if forced else -1.5, {id_: 0.0 if forced else -1.5})
            for id_, forced in zip(written.ids, written.forced, strict=True)
        ]
        handler.written(body, written.ids, chances=chances)

    with serving(act) as fake:
        steps, counters = diagnosed(fake, 7, is_streaming=is_streaming)
    assert sum(step.forced for each in steps.values() for step in each) > 8
    assert all(step.diagnosis is None for each in steps.values() for step in each)
    assert counters.notes == [MASKED_NOTE]


@pytest.mark.parametrize(
    ("ln_p", "top", "line"),
    [
        (0.5, {11: -0.1}, "one is no number up to 0"),
        (math.nan, {11: -0.1}, "one is no number up to 0"),
        (-0.5, {11: 0.3}, "one is no number up to 0"),
        (-0.5, {ref.ROWS: -0.1}, "an alternative is no token of the model"),
        (None, {11: -0.1}, "one is no number up to 0"),
    ],
    ids=str,
)
def test_what_is_no_log_probability_is_refused(ln_p: Any, top: dict[int, float], line: str) -> None:
    def act(handler: Handler, body: dict[str, Any], number: int) -> None:
        ids = of_model(body)
        handler.written(body, ids, chances=[(ln_p, top)] * len(ids))

    with serving(act) as fake, pytest.raises(ServerError, match=line):
        diagnosed(fake, 1)
    without = serving(playing(of_model))
    with without as fake, pytest.raises(ServerError, match="it has no log-probability of each token"):
        diagnosed(fake, 1)


def test_none_names_no_lp_and_seeds_differ_by_sample_and_seed() -> None:
    with serving(playing(lambda body: [11, 12, ref.END])) as fake:
        run_of = backend_of(fake, "none").run(
            requests(3, constraint=ref.NO_LP), DecodeOptions(ref.PLAIN, seed=1), Counters()
        )
        samples = ref.collected(run_of)
    assert all("vllm_xargs" not in body for _, body, _ in fake.bodies)
    assert len({body["seed"] for _, body, _ in fake.bodies}) == 3
    assert {(*sample.ids, *sample.forced, sample.reason) for sample in samples.values()} == {
        (11, 12, 0, False, False, False, "end")
    }
    assert len({seed_of(seed, key) for seed in (-1, 0, 1) for key in (0, 1, 2**40)}) == 9


@STREAMS
def test_a_token_outside_of_the_lp_ends_its_sample_alone(is_streaming: bool) -> None:
    """As on a server where the LP did not act, which says 200 all the same."""
    wrong = [*ref.OPEN, 11, 33, 12, ref.CLOSE, ref.END]

    def play(body: dict[str, Any]) -> list[int]:
        return wrong if len(body["prompt"]) == 2 else of_model(body)

    with serving(playing(play)) as fake:
        samples = written_by(fake, is_streaming=is_streaming)
    for request in requests(7):
        if len(request.prompt) == 2:
            lost = samples[request.sample]
            assert (lost.ids, lost.forced, lost.reason) == (wrong[:4], [True, True, False, False], "desync")
        else:
            assert samples[request.sample] == by_prompt()[request.prompt]


@pytest.mark.parametrize(
    ("ids", "finish", "written", "reason"),
    [
        ([5, 6, 11, 7], "stop", [5, 6, 11, 7, 0], "end"),  # the end token was left out
        ([5, 6, 11], "stop", [5, 6, 11], "desync"),  # the LP's language does not end here
        ([5, 6, 11], "length", [5, 6, 11], "length"),
        ([], "stop", [5, 6], "desync"),  # what is forced comes by itself, and no more
    ],
    ids=str,
)
def test_a_server_that_stops_early(ids: list[int], finish: str, written: list[int], reason: str) -> None:
    with serving(lambda handler, body, number: handler.written(body, ids, finish)) as fake:
        (sample,) = written_by(fake, 1).values()
    assert (sample.ids, sample.reason) == (written, reason)


@BOTH
def test_grammar_asks_for_the_regex_and_reads_what_came_by_it(takes_ids: bool) -> None:
    """A server that says 200 and writes another molecule, or breaks off what is no beginning, is not silent."""
    tokenizer, grammar = ref.made("grammar", form=NumberFormat(1, 2, 1))
    _, exact = ref.made("exact", form=NumberFormat(1, 2, 1))
    molecules = [parse_smiles(smiles) for smiles in ("CC=O", "CCO", "C", "CN", "CF")]
    texts = [random_ids(exact.automaton, exact.compile(molecule), random.Random(0)) for molecule in molecules]
    answers = [(texts[0], "stop"), (texts[0], "stop"), (texts[2][:7], "length"), (texts[0][:-4], "length"),
               (texts[4][:-3], "stop")]  # fmt: skip
    reasons = ["end", "desync", "length", "desync", "desync"]
    given = ref.requests_of(grammar, tokenizer, [molecule.smiles for molecule in molecules])

    def act(handler: Handler, body: dict[str, Any], number: int) -> None:
        number = [list(request.prompt) for request in given].index(body.get("prompt") or body["token_ids"])
        handler.written(body, *answers[number])

    with serving(act, takes_ids=takes_ids) as fake:
        served = served_model(server_address(fake.url), ["small"])
        loaded: Any = SimpleNamespace(served=served, tokenizer=tokenizer, vocab_rows=VOCAB_ROWS["qwen3"])
        backend = ServerBackend(loaded, grammar, "grammar", "plain", LpParameters())
        samples = ref.collected(backend.run(given, DecodeOptions(ref.GREEDY), Counters()))
    assert [samples[request.sample].reason for request in given] == reasons
    assert not any(any(sample.forced) for sample in samples.values())
    sent = {json.dumps(body.get("sampling_params", body)["structured_outputs"]) for _, body, _ in fake.bodies}
    patterns: Any = [grammar.pattern(molecule) for molecule in molecules]  # type: ignore[attr-defined]
    assert sent == {json.dumps({"regex": pattern}) for pattern in patterns}
    assert not any("vllm_xargs" in body or "extra_args" in body for _, body, _ in fake.bodies)


# --- what goes wrong --------------------------------------------------------------------------------------------------
def cut(handler: Handler, body: dict[str, Any], number: int) -> None:
    handler.send_response(200)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", "500")
    handler.end_headers()
    handler.wfile.write(b'{"choices": [')
    handler.break_off()


def cut_stream(handler: Handler, body: dict[str, Any], number: int) -> None:
    """Behind the first three tokens."""
    handler.begin_events()
    handler.event({"choices": [{"token_ids": of_model(body)[:3], "finish_reason": None}]})
    handler.break_off()


def refusing(status: int, words: str = "busy", **headers: str) -> Act:
    return lambda handler, body, number: handler.answer({"error": {"message": words}}, status, **headers)


@pytest.mark.parametrize("at_first", [refusing(503), refusing(429, Retry_After="0"), cut, cut_stream,
                                      lambda handler, body, number: handler.break_off()],
                         ids=["503", "429", "cut", "cut stream", "closed"])  # fmt: skip
@STREAMS
def test_a_busy_server_and_a_broken_answer_are_asked_again(at_first: Act, is_streaming: bool) -> None:
    def act(handler: Handler, body: dict[str, Any], number: int) -> None:
        if number in (1, 2, 4):
            at_first(handler, body, number)
        else:
            handler.written(body, of_model(body))

    with serving(act) as fake:
        samples = written_by(fake, is_streaming=is_streaming)
    assert samples == {each.sample: by_prompt()[each.prompt] for each in requests(7)}
    assert len(fake.bodies) == 10


def test_an_answer_that_differs_when_it_is_asked_for_again_is_an_error() -> None:
    def act(handler: Handler, body: dict[str, Any], number: int) -> None:
        if number == 1:
            cut_stream(handler, body, number)
        else:
            handler.written(body, [*ref.OPEN, 29, ref.CLOSE, ref.END])

    with serving(act) as fake, pytest.raises(ServerError, match="another one when it was asked again"):
        written_by(fake, 1, is_streaming=True)


def test_a_server_that_stays_busy_is_given_up() -> None:
    with serving(refusing(503, "try later")) as fake, pytest.raises(ServerError) as error:
        written_by(fake, 1)
    assert str(error.value).startswith(f"the server at {fake.url} is busy (503: 'try later'), {http.TRIES} times")
    assert len(fake.bodies) == http.TRIES


def choice(**fields: Any) -> Act:
    whole = {"token_ids": [5], "finish_reason": "stop"} | fields
    return lambda handler, body, number: handler.answer({"choices": [whole]})


def says(answer: bytes) -> Act:
    return lambda handler, body, number: handler.answer(answer)


REFUSED: list[tuple[Act, str]] = [
    (refusing(400, "max_tokens\nis \x1b[31m wrong"), r"refuses a request (400: 'max_tokens is \x1b[31m wrong')"),
    (refusing(400, "x" * 10_000), "x…')"),
    (refusing(401, f"unknown key {SECRET}"), "refuses the key (401: 'unknown key (key)'). Set DRIFTSCOPE_SERVER_KEY"),
    (refusing(500, "oh"), "refuses a request (500: 'oh')"),
    (refusing(307, Location="http://127.0.0.1:9/"), "redirects to another address"),
    (says(b"<html>"), "answers with what is no JSON"),
    (says(b"[" * 200_000 + b"]" * 200_000), "answers with what is no JSON"),
    (says(b"[]"), "answers with no JSON object"),
    (says(b'{"error": {"message": "engine is dead"}}'), "failed ('engine is dead')"),
    (says(b'{"choices": "' + b"x" * 2**21 + b'"}'), "answers with more than 1,101,824 bytes"),
    (says(b'{"choices": [{}, {}]}'), "answers with no choice"),
    (choice(token_ids=None), "returns no token ids"),
    (choice(token_ids=[5, -1]), "gives the token '-1'"),
    (choice(token_ids=[5, 48]), "gives the token '48', the model has 48 rows"),
    (choice(token_ids=[5, True]), "gives the token 'True'"),
    (choice(token_ids=[5, "6"]), "gives the token '6'"),
    (choice(token_ids=[5] * 25), "gives more than the 24 tokens"),
    (choice(prompt_token_ids=[1, 31, 32]), "has changed the prompt's tokens"),
    (choice(finish_reason="abort"), "ended an answer with 'abort'"),
]


@pytest.mark.parametrize(("act", "words"), REFUSED, ids=[words[:24] for _, words in REFUSED])
def test_what_cannot_be_used_is_one_line_and_not_asked_again(
    act: Act, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(http.KEY, SECRET)
    with serving(act) as fake, pytest.raises(ServerError) as error:
        written_by(fake, 1)
    line = str(error.value)
    assert words in line and line.startswith(f"the server at {fake.url} ")
    assert line.isprintable() and len(line) < 600 and SECRET not in line
    assert len(fake.bodies) == 1


@pytest.mark.parametrize("status", [SECRET, f"{SECRET} {'x' * 10_000}", f"HTTP/{SECRET} 200"])
def test_a_line_that_is_no_http_is_shortened_and_holds_no_key(status: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(http.KEY, SECRET)

    def act(handler: Handler, body: dict[str, Any], number: int) -> None:
        handler.wfile.write(f"{status}\r\n\r\n".encode())
        handler.break_off()

    with serving(act) as fake, pytest.raises(ServerError) as error:
        written_by(fake, 1)
    line = str(error.value)
    assert "(key)" in line and SECRET not in line and line.isprintable() and len(line) < 600
    assert len(fake.bodies) == http.TRIES


def test_names_and_versions_are_shortened_and_hold_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(http.KEY, SECRET)
    name = f"{SECRET}\x1b[31m{'x' * 500}"
    with serving(playing(of_model), models=(name,), version=f"{SECRET}\n{'1' * 500}") as fake:
        served = served_model(server_address(fake.url), ["small"])
        assert served.name == name  # as requests have to call it
        assert served.version.startswith("(key) 1") and len(served.version) <= 60
        assert SECRET not in served.words and served.words.isprintable() and len(served.words) < 250
    with serving(playing(of_model), models=(name, "b")) as fake, pytest.raises(ServerError, match="It has") as error:
        served_model(server_address(fake.url), ["small"])
    assert SECRET not in str(error.value) and "'(key)" in str(error.value) and len(str(error.value)) < 300


def endless(handler: Handler, body: dict[str, Any], number: int) -> None:
    handler.begin_events()
    for id_ in (*ref.OPEN, 11):
        handler.event({"choices": [{"token_ids": [id_], "finish_reason": None}]})
    while handler.connection.recv(1):  # until the client hangs up
        pass
    handler.server.fake.hung_up.set()


@STREAMS
def test_a_model_may_take_its_time_and_a_small_document_may_not(
    is_streaming: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "READ_S", 0.2)

    def slow(handler: Handler, body: dict[str, Any], number: int) -> None:
        time.sleep(0.5)
        handler.written(body, of_model(body))

    with serving(slow) as fake:
        samples = written_by(fake, 2, is_streaming=is_streaming)
    assert samples == {each.sample: by_prompt()[each.prompt] for each in requests(2)} and len(fake.bodies) == 2
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = ServerAddress("127.0.0.1", silent.getsockname()[1])
        with pytest.raises(ServerError, match=r"said nothing for 0.2 s"):
            served_model(address, ["small"])
        silent.setblocking(False)
        silent.accept()[0].close()
        with pytest.raises(BlockingIOError):  # it was asked once
            silent.accept()


def test_a_connection_notices_that_a_machine_is_gone() -> None:
    with serving(playing(of_model)) as fake:
        connection = http.Connection(server_address(fake.url))._connected()
        assert connection.sock.gettimeout() is None
        assert connection.sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        connection.close()


@STREAMS
def test_a_stop_ends_requests_of_which_nothing_came(is_streaming: bool) -> None:
    def silent(handler: Handler, body: dict[str, Any], number: int) -> None:
        while handler.connection.recv(1):
            pass
        handler.server.fake.hung_up.set()

    with serving(silent) as fake:
        backend, began = backend_of(fake), time.monotonic()
        backend.is_streaming = is_streaming
        events = list(
            backend.run(
                requests(3), DecodeOptions(ref.GREEDY, batch_size=2), Counters(), lambda: time.monotonic() > began + 0.3
            )
        )
        assert fake.hung_up.wait(5) and time.monotonic() - began < 5
    assert [event.reason for event in events if isinstance(event, Stop)] == ["cancelled"] * 3


@pytest.mark.parametrize("status", [400, 422])
@pytest.mark.parametrize(
    ("words", "reason"),
    [("max_tokens is 24, and an answer for 'CCO' has 45 or more", "length"), ("no such grammar", "empty_mask"),
     ("max_tokens is too large", "empty_mask")],
)  # fmt: skip
def test_a_request_that_is_refused_ends_its_sample_alone(status: int, words: str, reason: str) -> None:
    def act(handler: Handler, body: dict[str, Any], number: int) -> None:
        if number in (2, 4):
            refusing(status, f"{words} " * 100)(handler, body, number)
        else:
            handler.written(body, of_model(body))

    with serving(act) as fake:
        counters = Counters()
        options = DecodeOptions(ref.GREEDY, batch_size=1)
        samples = ref.collected(backend_of(fake).run(requests(6), options, counters))
    refused = [sample for sample, written in samples.items() if (written.ids, written.reason) == ([], reason)]
    assert len(refused) == 2 and len(fake.bodies) == 6
    assert all(samples[each.sample] == by_prompt()[each.prompt] for each in requests(6) if each.sample not in refused)
    (note,) = counters.notes
    assert f"({status}: '{words[:9]}" in note and len(note) < 500


def test_a_server_that_took_requests_before_may_refuse_the_first_of_a_call() -> None:
    def act(handler: Handler, body: dict[str, Any], number: int) -> None:
        if number == 2:
            refusing(400)(handler, body, number)
        else:
            handler.written(body, of_model(body))

    with serving(act) as fake:
        backend, options = backend_of(fake), DecodeOptions(ref.GREEDY)
        (request,) = requests(1)
        samples = [ref.collected(backend.run([request], options, Counters()))[request.sample] for _ in range(3)]
    assert samples[0] == samples[2] == by_prompt()[request.prompt]
    assert (samples[1].ids, samples[1].reason) == ([], "empty_mask")


@pytest.mark.parametrize(("reason", "more"), [("cancelled", {}), ("time", {"time_limit_s": 0.3})])
def test_a_stop_and_a_time_limit_end_the_requests_at_the_server(reason: str, more: dict[str, Any]) -> None:
    with serving(endless) as fake:
        backend, seen = backend_of(fake), list[Any]()
        backend.is_streaming = True
        events = backend.run(
            requests(5), DecodeOptions(ref.GREEDY, batch_size=2, **more), Counters(),
            lambda: reason == "cancelled" and sum(isinstance(event, Step) for event in seen) >= 4,
        )  # fmt: skip
        for event in events:
            seen.append(event)
        assert fake.hung_up.wait(5)
    assert [(event.reason, event.unseen) for event in seen if isinstance(event, Stop)] == [(reason, None)] * 5
    assert len(fake.bodies) == 2


def test_whoever_stops_reading_ends_the_requests_too() -> None:
    with serving(endless) as fake:
        backend = backend_of(fake)
        backend.is_streaming = True
        events = backend.run(requests(5), DecodeOptions(ref.GREEDY, batch_size=1), Counters())
        assert isinstance(next(events), Step)
        events.close()
        assert fake.hung_up.wait(5)


@pytest.mark.soak
def test_many_requests_take_no_more_memory_than_few() -> None:
    """Two bytes a token would be 50 bytes per request; what is kept of each is that it has ended."""
    count = sized(1_500, 20_000)
    with serving(playing(lambda body: [5, 6, 11, 7, 0])) as fake:
        backend, counters, taken = backend_of(fake), Counters(), list[int]()
        many, ended = requests(count), 0
        tracemalloc.start()
        for event in backend.run(many, DecodeOptions(ref.GREEDY, batch_size=16), counters):
            ended += isinstance(event, Stop)
            if isinstance(event, Stop) and ended % (count // 3) == 0:
                fake.bodies.clear()
                taken.append(tracemalloc.get_traced_memory()[0])
        tracemalloc.stop()
    assert counters.tokens == 5 * count and fake.most_at_once <= 16
    assert (taken[-1] - taken[0]) / (2 * count / 3) < 120


# --- addresses --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000"),
        ("http://gpu7/v1/", "http://gpu7:80"),
        ("https://host/models/a/v1", "https://host:443/models/a"),
        ("http://[::1]:8000/", "http://[::1]:8000"),
    ],
)
def test_addresses(url: str, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert server_address(url).url == expected
    monkeypatch.setenv(http.ADDRESS, url)
    monkeypatch.setenv(http.KEY, SECRET)
    assert server_address().url == expected and server_address().key == SECRET
    assert SECRET not in repr(server_address())


@pytest.mark.parametrize("url", ["", "gpu7:8000", "file:///etc/passwd", f"http://me:{SECRET}@host", "http://",
                                 f"http://host/?key={SECRET}", "http://host:99999", "http://host#a"])  # fmt: skip
def test_addresses_that_are_none_are_not_repeated(url: str) -> None:
    with pytest.raises(ServerError) as error:
        server_address(url)
    assert SECRET not in str(error.value)


def test_a_key_goes_to_its_server_and_to_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(http.KEY, SECRET)
    with serving(playing(of_model)) as other, serving(refusing(307, Location=f"{other.url}/v1/completions")) as fake:
        with pytest.raises(ServerError, match="redirects"):
            written_by(fake, 1)
        assert [headers["Authorization"] for _, _, headers in fake.bodies] == [f"Bearer {SECRET}"]
        assert other.bodies == []


def test_a_server_that_is_not_there_and_one_of_other_models() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = ServerAddress("127.0.0.1", closed.getsockname()[1])
        with pytest.raises(ServerError, match=r"failed \('Connection refused'\), 3 times"):
            served_model(address, ["small"])
    with serving(playing(of_model), models=("a", "b")) as fake, pytest.raises(ServerError, match="It has 'a', 'b'"):
        served_model(server_address(fake.url), ["small"])
    with serving(playing(lambda body: [*ref.OPEN, 11, 11]), positions=6) as fake:
        (sample,) = written_by(fake, 1).values()
        assert fake.bodies[0][1]["max_tokens"] == 4
        assert (len(sample.ids), sample.reason) == (4, "length")
    with serving(playing(of_model), models=("only",), positions=20) as fake:
        served = served_model(server_address(fake.url), ["small"])
        assert (served.name, served.positions, served.takes_ids) == ("only", 20, False)
        assert served.words == "written by vLLM 0.32.0, which calls the model 'only'"


@pytest.mark.parametrize(("tokens", "fits"), [(None, True), ([], True), ([1, 2, 3], True), ([1, 23], False)])
def test_a_server_of_another_tokenizer_is_refused(tokens: list[int] | None, fits: bool) -> None:
    with serving(playing(of_model), tokens=tokens) as fake:
        if fits:
            assert served_model(server_address(fake.url), ["small"], [1, 2, 3]).name == "small"
        else:
            with pytest.raises(ServerError, match="has another tokenizer than 'small'"):
                served_model(server_address(fake.url), ["small"], [1, 2, 3])


# --- the whole way ----------------------------------------------------------------------------------------------------
ASKED = ("--model", "small", "--decimals", "1-2", "--integer-digits", "1", "--backend", "server")


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    use_small_model(monkeypatch)
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(tmp_path / "store"))
    no_weights = Mock(side_effect=AssertionError("the weights were loaded"))
    monkeypatch.setattr(loading, "load_model", no_weights)
    return tmp_path / "store"


def writing_exact(body: dict[str, Any]) -> list[int]:
    _, constraint = ref.made("exact", form=NumberFormat(1, 2, 1))
    program = constraint.compile(parse_smiles(body["vllm_xargs"]["driftscope_smiles"]))
    return random_ids(constraint.automaton, program, random.Random(body["seed"]))


def test_a_run_by_a_server_loads_no_weights_and_keeps_no_address(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(http.KEY, SECRET)
    with serving(playing(writing_exact)) as fake:
        result = run("run", "CC=O", "OCC", *ASKED, "--url", fake.url, "--n", "2", "--json")
        document = run("generate", "CC=O", *ASKED, "--url", fake.url, "--json").document
    (row,) = result.document
    assert result.err == "written by vLLM 0.32.0, which calls the model 'small'\n"
    expected = {"backend": "server", "device": "server", "samples": 4, "clean": 4, "passes": 4}
    unknown = ("threads", "dtype", "attention", "kv_cache", "forward_passes", "prefill_s", "peak_memory_mb")
    assert {name: row[name] for name in (*expected, *unknown)} == expected | dict.fromkeys(unknown)
    assert 0 < row["forced_tokens"] < row["tokens"] and row["decode_s"] > 0
    assert row["notes"] == result.err.strip()
    times = Store.open().rows("SELECT decode_s FROM samples WHERE run_id = $run", {"run": row["run_id"]})
    assert all(0 < time["decode_s"] < row["wall_s"] for time in times)
    for file in store.rglob("*"):
        assert not file.is_file() or not any(word.encode() in file.read_bytes() for word in (fake.url, SECRET))
    assert (document["backend"], document["device"], document["forward_passes"]) == ("server", "server", None)
    assert document["samples"][0]["clean"]


def ignoring(body: dict[str, Any]) -> list[int]:
    """As a server without the plugin, whose model copies well: the molecule of the prompt, and status 200."""
    tokenizer, constraint = ref.made("exact", form=NumberFormat(1, 2, 1))
    smiles = tokenizer.decode(body["prompt"]).partition("[SMILES]")[2].partition("[/SMILES]")[0]
    program = constraint.compile(parse_smiles(smiles))
    return random_ids(constraint.automaton, program, random.Random(body["seed"]))


def asked_smiles(fake: FakeServer) -> list[str]:
    return [body["vllm_xargs"]["driftscope_smiles"] for _, body, _ in fake.bodies]


def refusing_the_probe(handler: Handler, body: dict[str, Any], number: int) -> None:
    if body["vllm_xargs"]["driftscope_smiles"] == PROBED[0]:
        handler.answer({"error": {"message": "no"}}, 400)
    else:
        handler.written(body, writing_exact(body))


def cutting_the_probe(handler: Handler, body: dict[str, Any], number: int) -> None:
    """It stops in the middle, where all is still as the LP and the prompt have it."""
    is_probe = body["vllm_xargs"]["driftscope_smiles"] == PROBED[0]
    handler.written(body, writing_exact(body)[: 4 if is_probe else None])


def stumbling_in_the_probe(handler: Handler, body: dict[str, Any], number: int) -> None:
    """It writes neither the molecule of the LP nor that of the prompt."""
    is_probe = body["vllm_xargs"]["driftscope_smiles"] == PROBED[0]
    handler.written(body, [*writing_exact(body)[:4], 0] if is_probe else writing_exact(body))


@pytest.mark.parametrize(
    ("act", "constrained", "why"),
    [
        (playing(writing_exact), "yes", "the server wrote that of the LP"),
        (playing(ignoring), "no", "did not hold to the LP of a request, which it answered all the same"),
        (refusing_the_probe, "in its language", "whether the LP was asked at each step is not known"),
        (cutting_the_probe, "in its language", "whether the LP was asked at each step is not known"),
        (stumbling_in_the_probe, "in its language", "whether the LP was asked at each step is not known"),
    ],
    ids=["holds", "ignores", "refuses", "cuts", "stumbles"],
)
def test_a_servers_run_says_by_a_probe_whether_its_lp_acts(store: Path, act: Act, constrained: str, why: str) -> None:
    """Each answer is what the LP allows; the probe's prompt names one molecule, and its LP another."""
    with serving(act) as fake:
        (row,) = run("run", "CC=O", *ASKED, "--url", fake.url, "--json").document
        once_more = run("generate", "CC=O", *ASKED, "--url", fake.url, "--json").document
    assert (row["clean"], row["followed_samples"], row["seen_samples"], row["unconstrained_samples"]) == (1, 1, 0, 0)
    assert row["constrained"] == constrained and why in row["constrained_why"]
    assert asked_smiles(fake) == ["CO", "CC=O", "CO", "CC=O", "CO"]  # a run probes before and behind what it writes
    tokenizer, _ = ref.made("exact")
    assert "C#N" in tokenizer.decode(fake.bodies[0][1]["prompt"])
    assert once_more["constrained"] == constrained


@pytest.mark.parametrize(("begins", "word"), [(1, "no"), (3, "no"), (4, "yes")])
def test_a_server_that_comes_back_without_the_plugin_is_found_at_the_same_address(
    store: Path, begins: int, word: str
) -> None:
    """The first and the last request of a run are probes; that of a later command tells nothing of it."""

    def act(handler: Handler, body: dict[str, Any], number: int) -> None:
        handler.written(body, (writing_exact if number < begins else ignoring)(body))

    with serving(act) as fake:
        (row,) = run("run", "CC=O", *ASKED, "--url", fake.url, "--json").document
        later = run("generate", "CC=O", *ASKED, "--url", fake.url, "--json").document
    assert (row["constrained"], later["constrained"]) == (word, "no")


def test_what_a_process_wrote_that_did_not_probe_its_server_is_not_proved(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def act(handler: Handler, body: dict[str, Any], number: int) -> None:
        handler.written(body, writing_exact(body))

    words = ("run", "CC=O", "CCO", *ASKED, "--group", "1")
    with serving(act) as fake, monkeypatch.context() as patch:
        patch.setattr(Run, "probe", lambda self, work: None)  # as an earlier version
        with interrupted_after_one_group():
            run(*words, "--url", fake.url)
        (run_id,) = unfinished_ids(Store.open().home, RUN)
        patch.undo()
        (row,) = run("run", "--resume", run_id, "--url", fake.url, "--json").document
    assert (row["samples"], row["constrained"]) == (2, "in its language")
    assert asked_smiles(fake) == ["CC=O", "CC=O", "CO", "CCO", "CO"]  # one that was saved is written again


@pytest.mark.parametrize(("most", "word"), [(None, "no"), (8, "in its language")])
def test_a_grammar_that_a_server_ignores_is_found_by_its_probe(store: Path, most: int | None, word: str) -> None:
    """Of an answer that ends too early nobody knows which molecule it would have been."""

    def act(handler: Handler, body: dict[str, Any], number: int) -> None:
        handler.written(body, ignoring(body)[: most if number == 2 else None])

    with serving(act) as fake:
        document = run("generate", "CC=O", *ASKED, "--lp", "grammar", "--url", fake.url, "--json").document
    assert document["samples"][0]["clean"] and document["constrained"] == word


def interrupted(*given: Any) -> bool:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("how", "word"), [("limit", "not checked"), ("stop", "in its language"), ("stop of the probe", "in its language")]
)
def test_behind_a_stop_or_a_limit_of_time_nothing_more_is_asked_for(
    how: str, word: str, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was not written is no proof, and what was written is shown."""

    def act(handler: Handler, body: dict[str, Any], number: int) -> None:
        while how == "limit" and number > 1 and handler.connection.recv(1):  # until the client hangs up
            pass
        handler.written(body, writing_exact(body))

    def stopped(generation: Generation) -> Iterator[Event]:
        for event in events(generation):
            yield event
            if isinstance(event, Stop):
                raise KeyboardInterrupt

    events = Generation.events
    if how == "stop":
        monkeypatch.setattr(Generation, "events", stopped)
    elif how == "stop of the probe":
        monkeypatch.setattr(Generation, "proof", interrupted)
    with serving(act) as fake:
        limit = ("--time-limit", "1") if how == "limit" else ()
        words = ("generate", "CC=O", "CCO", *ASKED, *limit, "--batch-size", "1", "--url", fake.url, "--json")
        result = run(*words)
    assert PROBED[0] not in asked_smiles(fake)
    assert result.code == (0 if how == "limit" else 130)
    assert result.document["constrained"] == word and result.document["samples"]


@pytest.mark.parametrize("is_one_word", [False, True])
def test_a_runs_source_is_its_command_without_the_address(
    store: Path, is_one_word: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(playing(writing_exact)) as fake:
        url = [f"--url={fake.url}"] if is_one_word else ["--url", fake.url]
        words = ["run", "CC=O", *url, *ASKED, "--json"]
        monkeypatch.setattr(sys, "argv", ["/somewhere/engine/__main__.py", *words])
        (row,) = run(*words).document
    assert row["source"] == shlex.join(["python", "-m", "engine", "run", "CC=O", *ASKED, "--json"])
    for file in store.rglob("*"):
        assert not file.is_file() or fake.url.encode() not in file.read_bytes()


def test_a_run_whose_server_is_away_from_the_start_is_kept(store: Path) -> None:
    def act(handler: Handler, body: dict[str, Any], number: int) -> None:
        if number <= 2 * http.TRIES:  # the first ones are of the probe
            handler.answer({"error": {"message": "starting"}}, 503)
        else:
            handler.written(body, writing_exact(body))

    with serving(act) as fake:
        failed = run("run", "CC=O", *ASKED, "--url", fake.url)
        assert failed.code == 2 and "'starting'" in failed.err
        (run_id,) = unfinished_ids(Store.open().home, RUN)
        (row,) = run("run", "--resume", run_id, "--url", fake.url, "--json").document
    assert (row["run_id"], row["samples"], row["clean"]) == (run_id, 1, 1)


def test_a_run_goes_on_behind_what_it_saved_when_its_server_is_back(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def act(handler: Handler, body: dict[str, Any], number: int) -> None:
        if number == 4:
            handler.answer({"error": {"message": "out of memory"}}, 500)
        else:
            handler.written(body, writing_exact(body))

    with serving(act) as fake:
        words = ("run", "CCO", "CO", "C", *ASKED, "--group", "1")
        failed = run(*words, "--url", fake.url)
        assert failed.code == 2 and "'out of memory'" in failed.err
        (run_id,) = unfinished_ids(Store.open().home, RUN)
        assert "has no address" in run("run", "--resume", run_id).error
        for elsewhere in (("--submit", "local"), ("--engine", "ray")):
            error = run("run", "--resume", run_id, *elsewhere).error
            assert "a server is asked by this process alone" in error
        monkeypatch.setenv(http.ADDRESS, fake.url)
        result = run("run", "--resume", run_id, "--json")
        assert result.code == 0, result
    (row,) = result.document
    assert (row["samples"], row["clean"], row["resumed"], row["diverged_samples"]) == (3, 3, 1, 0)
    # Each process begins with a probe, and the last one ends with one; what was saved is written again, to see that
    # it is the same.
    assert asked_smiles(fake) == ["CO", "CCO", "CO", "C", "CO", "CO", "C", "CO"]


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("generate", "CC=O", *ASKED), "the backend server has no address"),
        (("generate", "CC=O", *ASKED, "--equal-work"), "does no equal work"),
        (("generate", "CC=O", *ASKED, "--profile"), "--profile belongs to another backend than server"),
        (("generate", "CC=O", *ASKED, "--log-logits", "4"), "--log-logits belongs to another backend than server"),
        (("generate", "CC=O", *ASKED[:-1], "fast", "--url", "http://h"), "--url belongs to --backend server"),
        (("run", "CC=O", *ASKED, "--url", f"http://me:{SECRET}@h"), "holds a user, a password"),
        (("run", "CC=O", *ASKED, "--submit", "local"), "a server is asked by this process alone"),
        *(
            (
                ("generate", "CC=O", *ASKED, "--lp", "shaped", *guard),
                "a server knows the usual checks and limits of shaped",
            )
            for guard in (("--guard", "bonds"), ("--retries", "9"), ("--back", "0"), ("--most-thrown", "1"))
        ),
    ],
)
def test_what_the_command_line_refuses(store: Path, words: tuple[str, ...], line: str) -> None:
    error = run(*words).error
    assert line in error and SECRET not in error


def test_an_lp_that_takes_tokens_back_is_refused(store: Path) -> None:
    with serving(playing(of_model)) as fake:
        error = run("generate", "CC=O", *ASKED, "--url", fake.url, "--lp", "guarded").error
    assert "guarded takes tokens back" in error and fake.bodies == []


def test_auto_never_chooses_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    from engine.decode.generation import backend_for

    monkeypatch.setenv(http.ADDRESS, "http://127.0.0.1:9")
    for why, expected in (("", "fast"), ("a sliding window", "hf")):
        assert backend_for(Mock(why_not_fast=why, served=Mock()), "auto") == expected
    with pytest.raises(ServerError, match="has no address"):
        backend_for(Mock(why_not_fast="", served=None), "server")
    with pytest.raises(ConstraintError, match="is not compiled"):
        Plan(backend="server", compile=True)
