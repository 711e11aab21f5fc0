#!/usr/bin/env python3
"""LangChain's ChatOpenAI against a running pair: texts, streams and structured answers.

  langchain_test.py SOURCE_DIR BINARY_DIR
"""

import os
import pathlib
import sys
import tempfile
from typing import Literal

from packages import need_packages, version
from processes import Processes, small_pair
from serving import ServedPair

need_packages("langchain_openai")
os.environ["LANGSMITH_TRACING"] = "false"
import pydantic  # noqa: E402
from langchain_openai import ChatOpenAI  # noqa: E402


class Weather(pydantic.BaseModel):
    """The weather of a city."""
    city: Literal["Oslo", "Rome"]
    rain: bool


def chat(address, max_tokens):
    return ChatOpenAI(base_url=f"http://{address}/v1", api_key="any", model="target", temperature=0,
                      max_retries=0, max_tokens=max_tokens, stream_usage=True)


def main():
    binaries = pathlib.Path(sys.argv[2])
    with tempfile.TemporaryDirectory() as folder, Processes(folder) as processes:
        address = ServedPair(processes, binaries, small_pair(binaries)).http
        model = chat(address, max_tokens=24)
        messages = [("system", "Be brief."), ("human", "Tell me a story.")]
        whole = model.invoke(messages)
        assert whole.content and whole.usage_metadata["output_tokens"] > 0, whole
        streamed = None
        for part in model.stream(messages):
            streamed = part if streamed is None else streamed + part
        assert streamed.content == whole.content, (streamed, whole)
        tokens = whole.usage_metadata["output_tokens"]
        assert streamed.usage_metadata["output_tokens"] == tokens, streamed
        assert [answer.content for answer in model.batch([messages] * 3)] == [whole.content] * 3
        structured = chat(address, max_tokens=100).with_structured_output(
            Weather, method="json_schema")
        assert isinstance(structured.invoke(messages), Weather)
    print(f"{version('langchain-openai')}: chats, streams and structured answers")


if __name__ == "__main__":
    main()
