#!/usr/bin/env python3
"""The other end of the contract: takes drafts from Outrider's drafters for a target of one's own.

`DraftHost` is the part of docs/interop.md's adapter that depends on no engine: one chain of draft
tokens for each text, verified as point masses. Here the target is a replay: it takes greedy texts
from a running verifier and "decodes" them again, with drafts.

    build/cpu/bin/outrider-verifier --model models/default/target &
    PYTHONPATH=build/cpu/python python3 examples/draft_host.py --model models/default/target &
    build/cpu/bin/outrider-drafter --model models/default/drafter --verifier 127.0.0.1:7400
"""

import argparse
import json
import pathlib
import queue
import threading
import time
from concurrent import futures

import grpc
from outrider import Client, GenerationParams, Mode, Speculation
from outrider.v1 import drafting_pb2 as pb
from outrider.v1 import drafting_pb2_grpc

PROTOCOL_VERSION = 3
LEAST_SHARED = 0.7  # of a drafter's tokens
TIMEOUT = 60  # seconds, for the first drafter
MOST_DRAFTERS = 16  # at once
PROMPTS = ["Once upon a time, there was a small owl", "Tom and Lily went to the park and",
           "The red fox and the blue cat and the red fox and the blue"]


class Attached:
    """A drafter's stream. None in `outgoing` ends it."""

    def __init__(self, hello):
        self.hello, self.outgoing, self.limit = hello, queue.SimpleQueue(), hello.max_sessions


class Session:
    """A text at a drafter: the tokens that the drafter knows, and the draft that continues them."""

    def __init__(self, number, drafter, tokens, length):
        self.id, self.drafter, self.tokens, self.length = number, drafter, list(tokens), length
        self.round, self.draft, self.whole = 1, [], False
        self.end, self.early = None, {}  # how the last round ended; drafts sent before its verdict

    def decide(self, tokens, length):
        """The verdict on the draft, given the text as it is now."""
        new = tokens[len(self.tokens):]
        node = shared_prefix(new[:-1], self.draft)
        end = (node, new[node]) if len(new) == node + 1 and length == self.length else None
        verdict = pb.Verdict(session=self.id, round=self.round, node=node, next=new[node:],
                             plan=pb.Plan(round=self.round + 1, length=length))
        early = self.early.get(end)
        self.tokens, self.length, self.round = list(tokens), length, self.round + 1
        self.draft, self.whole, self.end, self.early = early or [], early is not None, end, {}
        return verdict

    def take(self, draft, vocab_limit):
        """False: the draft breaks the contract."""
        tokens = list(draft.token_ids)
        end = (draft.early.node, draft.early.next) if draft.HasField("early") else None
        is_part = end is None and draft.round == self.round
        is_early = end is not None and draft.round == self.round + 1
        has_crossed = end is not None and draft.round == self.round and end == self.end
        if not (is_part or is_early or has_crossed) or (has_crossed and self.draft):
            return True  # it answers an older plan, or an end that did not come
        begin = len(self.draft) if is_part else 0
        if ((is_part and self.whole) or begin + len(tokens) > self.length
                or any(token >= vocab_limit for token in tokens)
                or list(draft.parents) not in ([], list(range(begin, begin + len(tokens))))):
            return False
        if is_early:
            self.early[end] = tokens
        else:
            self.draft, self.whole = self.draft + tokens, has_crossed or not draft.more
        return True


class DraftHost(drafting_pb2_grpc.DraftingServicer):
    """Serves Drafting. `propose` is called by the engine's thread, everything else by gRPC's."""

    def __init__(self, vocabulary):
        self.vocabulary, self.vocab_limit = vocabulary, len(vocabulary.entries)
        self.changed = threading.Condition()  # guards what follows
        self.drafters, self.sessions, self.ids, self.next_id = [], {}, {}, 1
        self.early_used = 0

    def Attach(self, requests, context):
        hello = received(requests, context).hello
        highest = hello.highest_protocol_version or hello.protocol_version
        if not hello.protocol_version <= PROTOCOL_VERSION <= highest or not hello.translates:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION,
                          f"version {PROTOCOL_VERSION} and translates are needed")
        yield pb.FromVerifier(vocabulary=self.vocabulary)
        match = received(requests, context).match
        if match.shared < LEAST_SHARED * match.tokens:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION,
                          f"only {match.shared} of {match.tokens} tokens are shared")
        yield pb.FromVerifier(welcome=pb.Welcome(
            protocol_version=PROTOCOL_VERSION, model="replay", vocab_limit=self.vocab_limit,
            law_limits=pb.DraftLawLimits(mass=1, max_entries=1)))
        drafter = Attached(hello)
        threading.Thread(target=self.read, args=(drafter, requests), daemon=True).start()
        with self.changed:
            self.drafters.append(drafter)
            self.changed.notify_all()
        yield from iter(drafter.outgoing.get, None)

    def read(self, drafter, requests):
        try:
            for message in requests:
                with self.changed:
                    if message.HasField("load") and message.load.HasField("session_limit"):
                        drafter.limit = message.load.session_limit
                    if not all([self.take(drafter, draft) for draft in message.drafts.drafts]):
                        break
        except grpc.RpcError:
            pass  # it is gone
        with self.changed:
            self.drafters.remove(drafter)
            for key in [k for k, s in self.sessions.items() if s.drafter is drafter]:
                self.forget(key)
            drafter.outgoing.put(None)

    def take(self, drafter, draft):
        key = self.ids.get(draft.session)
        session = self.sessions.get(key)
        if session is None or session.drafter is not drafter:
            return True  # closed meanwhile
        if not draft.token_ids:  # it refuses the session
            self.forget(key)
            return True
        taken = session.take(draft, self.vocab_limit)
        self.changed.notify_all()
        return taken

    def forget(self, key):
        del self.ids[self.sessions.pop(key).id]
        self.changed.notify_all()

    def propose(self, texts, length, timeout):
        """Draft tokens after each text, as many as have come in time. `texts`: by request, all
        that are being decoded, with at least one new token each since the last call."""
        with self.changed:
            verdicts = {}
            for key in [key for key in self.sessions if key not in texts]:
                session = self.sessions[key]
                session.drafter.outgoing.put(pb.FromVerifier(close=pb.Close(session=session.id)))
                self.forget(key)
            for key, tokens in texts.items():
                session = self.sessions.get(key)
                if session is None:
                    self.open(key, tokens, length)
                    continue
                verdicts.setdefault(session.drafter, []).append(session.decide(tokens, length))
                self.early_used += session.whole
            for drafter, some in verdicts.items():
                drafter.outgoing.put(pb.FromVerifier(verdicts=pb.VerdictBatch(verdicts=some)))
            self.changed.wait_for(lambda: all(s.whole for s in self.sessions.values()), timeout)
            return {key: list(session.draft) for key, session in self.sessions.items()}

    def open(self, key, tokens, length):
        held = [s.drafter for s in self.sessions.values()]
        free = [d for d in self.drafters if held.count(d) < d.limit]
        if not free:
            return
        drafter = min(free, key=held.count)
        session = self.sessions[key] = Session(self.next_id, drafter, tokens, length)
        self.ids[session.id] = key
        self.next_id += 1
        drafter.outgoing.put(pb.FromVerifier(open=pb.Open(
            session=session.id, token_ids=tokens, prompt_tokens=len(tokens), seed=session.id,
            sampling={"temperature": 0}, kind=pb.DRAFT_KIND_ARGMAX,
            plan=pb.Plan(round=1, length=length))))


def received(requests, context):
    """The next message of the handshake."""
    try:
        return next(requests)
    except StopIteration:
        context.abort(grpc.StatusCode.FAILED_PRECONDITION, "the stream ended in its handshake")


def server_of(host):
    """A stream holds a thread until it ends. One drafter more is refused: RESOURCE_EXHAUSTED."""
    server = grpc.server(futures.ThreadPoolExecutor(MOST_DRAFTERS),
                         maximum_concurrent_rpcs=MOST_DRAFTERS)
    drafting_pb2_grpc.add_DraftingServicer_to_server(host, server)
    return server


def shared_prefix(a, b):
    return next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))


def vocabulary_of(model):
    """The tokens of a byte-level BPE tokenizer. An engine has them already."""
    read = json.loads((model / "tokenizer.json").read_text(encoding="utf-8"))
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    byte_of = {chr(byte): byte for byte in printable}
    byte_of.update({chr(256 + i): byte for i, byte in enumerate(others)})
    tokens = {number: (1, bytes(byte_of[c] for c in text))
              for text, number in read["model"]["vocab"].items()}
    tokens.update({added["id"]: (3, added["content"].encode()) for added in read["added_tokens"]})
    entries = [tokens.get(number, (0, b"")) for number in range(max(tokens) + 1)]
    return pb.Vocabulary(entries=[4 * len(text) + kind for kind, text in entries],
                         text=b"".join(text for _, text in entries))


def texts_of(verifier, max_tokens):
    """Greedy texts: where each prompt ends, and all ids."""
    params = GenerationParams(max_tokens=max_tokens, temperature=0, ignore_eos=True,
                              speculation=Speculation(Mode.OFF))
    with Client(verifier) as client:
        for prompt in PROMPTS:
            ids = client.tokenize(prompt, add_prefix=True)
            yield len(ids), ids + list(client.generate(ids, params).token_ids)


def replay(host, texts, length, step_seconds, timeout):
    """Decodes the texts at once; a forward pass takes `step_seconds`. The figures of the run."""
    places = {key: begin + 1 for key, (begin, _) in enumerate(texts)}  # after prefill
    steps = drafted = accepted = 0
    while places:
        drafts = host.propose({k: texts[k][1][:at] for k, at in places.items()}, length, timeout)
        time.sleep(step_seconds)  # the target scores the drafts meanwhile
        steps += 1
        for key in list(places):
            ids, draft = texts[key][1], drafts.get(key, [])
            hits = shared_prefix(draft, ids[places[key]:-1])
            drafted, accepted = drafted + len(draft), accepted + hits
            places[key] += hits + 1
            if places[key] >= len(ids):
                del places[key]
    return {"steps": steps, "tokens": sum(len(ids) - begin for begin, ids in texts),
            "drafted": drafted, "accepted": accepted, "early": host.early_used}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--verifier", default="127.0.0.1:7300", help="where the texts come from")
    parser.add_argument("--model", type=pathlib.Path, required=True, help="folder of its tokenizer")
    parser.add_argument("--listen", default="127.0.0.1:7400", help="where drafters dial")
    parser.add_argument("--max-tokens", type=int, default=96)
    parser.add_argument("--draft-length", type=int, default=4)
    parser.add_argument("--step-ms", type=float, default=5)
    arguments = parser.parse_args()

    host = DraftHost(vocabulary_of(arguments.model))
    server = server_of(host)
    print(f"port={server.add_insecure_port(arguments.listen)}", flush=True)
    server.start()
    texts = list(texts_of(arguments.verifier, arguments.max_tokens))
    with host.changed:
        if not host.changed.wait_for(lambda: host.drafters, TIMEOUT):
            raise SystemExit(f"no drafter came within {TIMEOUT} s")
    print(json.dumps(replay(host, texts, arguments.draft_length, arguments.step_ms / 1e3,
                            timeout=TIMEOUT)), flush=True)
    server.stop(grace=1).wait()


if __name__ == "__main__":
    main()
