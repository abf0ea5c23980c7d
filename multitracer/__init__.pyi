from multitracer.notebook import Notebook as Notebook
from multitracer.notebook import open as open  # noqa: A004  # as in gzip.open

__version__: str
