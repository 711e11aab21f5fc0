"""Client of an Outrider verifier.

    from outrider import Client, GenerationParams

    with Client("127.0.0.1:7300") as client:
        result = client.generate("Once upon a time", GenerationParams(max_tokens=32))
        print(result.text)

`Client` blocks, `AsyncClient` is its asyncio twin. Calls raise the exceptions of `outrider.errors`.
"""

from outrider import errors
from outrider._version import __version__
from outrider.aio import AsyncClient, AsyncStream
from outrider.bench import BenchSummary, Percentiles
from outrider.client import Client, Stream
from outrider.connection import Tls
from outrider.errors import OutriderError
from outrider.params import (GenerationParams, Mode, Prompt, Rule, SchemaRule, Speculation,
                             StopRule, StructuredOutput)
from outrider.results import (Arm, Chunk, Finished, FinishReason, ModelInfo, Result,
                              SpeculationStats, Timing, TokenLogprobs)

__all__ = [
    "Arm", "AsyncClient", "AsyncStream", "BenchSummary", "Chunk", "Client", "FinishReason",
    "Finished", "GenerationParams", "Mode", "ModelInfo", "OutriderError", "Percentiles", "Prompt",
    "Result", "Rule", "SchemaRule", "Speculation", "SpeculationStats", "StopRule", "Stream",
    "StructuredOutput", "Timing", "Tls", "TokenLogprobs", "__version__", "errors",
]
