#!/usr/bin/env python3
"""A streamed chat with OpenAI's own package (pip install openai); the verifier needs --http.

    python3 examples/openai_chat.py --url http://127.0.0.1:8000/v1
"""

import argparse

import openai


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--url", default="http://127.0.0.1:8000/v1")
    parser.add_argument("--question", default="Tell me a story.")
    arguments = parser.parse_args()

    # The key is the bearer token, if the verifier runs with --client-tokens.
    client = openai.OpenAI(base_url=arguments.url, api_key="any")
    model = next(iter(client.models.list())).id
    events = client.chat.completions.create(
        model=model, messages=[{"role": "user", "content": arguments.question}], max_tokens=64,
        stream=True, stream_options={"include_usage": True})
    for event in events:
        for choice in event.choices:
            print(choice.delta.content or "", end="", flush=True)
        if event.usage is not None:
            print(f"\n[{event.usage.completion_tokens} tokens]")


if __name__ == "__main__":
    main()
