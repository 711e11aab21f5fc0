#!/usr/bin/env python3
"""Several texts at once with asyncio: the first to end wins, and the others are cancelled.

    PYTHONPATH=build/cpu/python python3 examples/many_at_once.py --texts 4
"""

import argparse
import asyncio

from outrider import AsyncClient, GenerationParams


async def run(verifier, texts):
    params = [GenerationParams(max_tokens=64, temperature=1, seed=seed) for seed in range(texts)]
    async with AsyncClient(verifier) as client:
        tasks = [asyncio.ensure_future(client.generate("Once upon a time", one)) for one in params]
        done, others = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in others:
            task.cancel()  # also ends the generation at the verifier, and frees its memory
        await asyncio.gather(*others, return_exceptions=True)
        winner = next(iter(done)).result()
    print(winner.text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--verifier", default="127.0.0.1:7300", help="host:port")
    parser.add_argument("--texts", type=int, default=4)
    arguments = parser.parse_args()
    asyncio.run(run(arguments.verifier, arguments.texts))


if __name__ == "__main__":
    main()
