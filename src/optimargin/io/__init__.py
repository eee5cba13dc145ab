"""Read and write files: data (LIBSVM, tables, Parquet) and models that are safe to load."""

from optimargin.io._data import FORMATS, read_data
from optimargin.io._dataset import Dataset, Layout
from optimargin.io._files import DataFileError, write_atomically, write_bytes
from optimargin.io._models import ModelFileError, load_model, read_model_header, save_model
from optimargin.io._write import write_data

__all__ = [
    "FORMATS",
    "DataFileError",
    "Dataset",
    "Layout",
    "ModelFileError",
    "load_model",
    "read_data",
    "read_model_header",
    "save_model",
    "write_atomically",
    "write_bytes",
    "write_data",
]
