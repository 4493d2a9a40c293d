"""An event source inside a program: others subscribe at it, without a broker in between.

::

    async with Source() as source:
        print(source.url)
        await source.publish("<speed>120</speed>", topic="storms")
"""

from dragoman.source.source import Source

__all__ = ["Source"]
