"""The random miniature, which the goldens were recorded from: the release's layout, ten layers, 1,024 ids, 9 MB.

The built-in one is trained and may be trained anew; tests of arithmetic and of particular numbers take this one.
"""

from pathlib import Path

MINI = Path(__file__).parent / "data" / "oracle" / "mini"
