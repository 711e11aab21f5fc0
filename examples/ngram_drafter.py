#!/usr/bin/env python3
"""A drafter in about 150 lines: proto/outrider/v1/drafting.proto, and an n-gram table as its model.

    PYTHONPATH=build/cpu/python python3 examples/ngram_drafter.py --verifier 127.0.0.1:7300

Its guess for the next token is the one that last followed the same few tokens in the same text, so
it is good where a text repeats itself. The verifier keeps what its own model would have written.
"""

import argparse
import queue
import random
import signal
import time

import grpc
from outrider.v1 import drafting_pb2 as pb
from outrider.v1 import drafting_pb2_grpc

PROTOCOL_VERSION = 3
MAX_SESSIONS = 64
LONGEST = 4  # tokens of context that the table looks at
WHOLE = 65536  # what the weights of a distribution sum to
# A verifier that vanished is noticed, also by a drafter without sessions, and one that is back is
# dialled within a second: gRPC's own pause grows to two minutes.
CHANNEL = [("grpc.keepalive_time_ms", 20000), ("grpc.keepalive_timeout_ms", 10000),
           ("grpc.http2.ping_timeout_ms", 10000), ("grpc.http2.max_pings_without_data", 0),
           ("grpc.max_reconnect_backoff_ms", 1000)]


class Session:
    """The tokens of one text, which token followed which, and the last draft."""

    def __init__(self, opened, vocab_limit):
        self.id, self.kind, self.vocab_limit = opened.session, opened.kind, vocab_limit
        self.tokens, self.followers, self.draft = [], {}, []
        self.append(opened.token_ids)

    def append(self, tokens):
        for token in tokens:
            for n in range(1, min(LONGEST, len(self.tokens)) + 1):
                self.followers[tuple(self.tokens[-n:])] = token
            self.tokens.append(token)

    def guess(self, context):
        keys = (tuple(context[-n:]) for n in range(LONGEST, 0, -1))
        return next((self.followers[key] for key in keys if key in self.followers), None)

    def answer(self, plan):
        """The draft for a plan: one path, each token certain under the table's distribution."""
        began, self.draft = time.monotonic(), []
        draft, times = pb.Draft(session=self.id, round=plan.round), 1
        for depth in range(plan.length):
            token = self.guess(self.tokens[-LONGEST:] + self.draft)
            if token is None and self.draft:
                break  # a draft may be shorter than planned, but not empty
            token = min(self.tokens[-1] if token is None else token, self.vocab_limit - 1)
            self.draft.append(token)
            if self.kind == pb.DRAFT_KIND_SAMPLED:
                # As many samples as planned: from a point mass they are all the same token. The
                # distribution goes with them, because a token is accepted by p(token) / q(token).
                times *= plan.branching[depth] if depth < len(plan.branching) else 1
                draft.rows.add(id_gaps=[token], weights=[WHOLE])
            draft.token_ids.extend([token] * times)
            draft.parents.extend([depth] * times)  # the path's nodes are numbered from 1 on
        draft.draft_micros = int(1e6 * (time.monotonic() - began))
        return draft


class Drafter:
    """The sessions of one stream. `outgoing` is what is sent; None closes our half of it."""

    def __init__(self):
        self.sessions, self.outgoing, self.leaving = {}, queue.SimpleQueue(), False
        self.vocab_limit = 0
        # No tokenizer of its own: it asks for the verifier's vocabulary, and shares all of it.
        self.send(hello=pb.Hello(
            protocol_version=PROTOCOL_VERSION, name="ngram", model="ngram table", translates=True,
            vocab_size=1 << 20, max_context=1 << 20, max_sessions=MAX_SESSIONS,
            max_draft_length=16, max_draft_tokens=256))

    def send(self, **message):
        self.outgoing.put(pb.FromDrafter(**message))

    def take(self, message):
        kind = message.WhichOneof("message")  # None: a message of a later version
        if kind == "vocabulary":
            tokens = sum(entry % 4 != 0 for entry in message.vocabulary.entries)
            self.send(match=pb.VocabularyMatch(shared=tokens, tokens=tokens))
        elif kind == "welcome":
            self.vocab_limit = message.welcome.vocab_limit
            print(f"attached to a verifier of {message.welcome.model}", flush=True)
        elif kind == "open":
            self.send(drafts=pb.DraftBatch(drafts=self.open(message.open)))
            self.report()
        elif kind == "verdicts":
            answers = [d for verdict in message.verdicts.verdicts for d in self.decide(verdict)]
            self.send(drafts=pb.DraftBatch(drafts=answers))
        elif kind == "close":
            self.sessions.pop(message.close.session, None)
            self.report()
        # Drain needs no answer: the verifier closes the stream when its sessions have ended.

    def open(self, opened):
        if len(self.sessions) >= MAX_SESSIONS and opened.session not in self.sessions:
            return [pb.Draft(session=opened.session, round=opened.plan.round)]  # a refusal
        session = self.sessions[opened.session] = Session(opened, self.vocab_limit)
        return [session.answer(opened.plan)] if opened.plan.length > 0 else []

    def decide(self, verdict):
        session = self.sessions.get(verdict.session)
        if session is None:
            return []
        session.append(session.draft[:verdict.node])  # 0: none was accepted
        session.append(verdict.next)
        return [session.answer(verdict.plan)] if verdict.plan.length > 0 else []

    def report(self):
        self.send(load=pb.Load(sessions=len(self.sessions),
                               session_limit=0 if self.leaving else MAX_SESSIONS))
        if self.leaving and not self.sessions:
            self.outgoing.put(None)

    def leave(self):
        """Takes no new sessions, and ends with the last one."""
        self.leaving = True
        self.report()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--verifier", default="127.0.0.1:7300", help="host:port")
    channel = grpc.insecure_channel(parser.parse_args().verifier, CHANNEL)
    stub = drafting_pb2_grpc.DraftingStub(channel)
    drafter = Drafter()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: drafter.leave())
    while not drafter.leaving:
        try:
            for message in stub.Attach(iter(drafter.outgoing.get, None)):
                drafter.take(message)
        except grpc.RpcError as error:
            print(f"detached: {error.code().name}: {error.details()}", flush=True)
        drafter.outgoing.put(None)  # ends gRPC's thread that waits for it
        if not drafter.leaving:
            time.sleep(random.uniform(0.1, 2))
        if not drafter.leaving:  # no signal came in the pause
            drafter = Drafter()


if __name__ == "__main__":
    main()
