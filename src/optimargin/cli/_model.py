"""A model file, and the layout of data that it expects."""

from dataclasses import replace

from optimargin.io import Layout, load_model, read_data, read_model_header


def load(path):
    """Return the model of a file, for arrays: their columns were found by name when read."""
    model = load_model(path)
    vars(model).pop("feature_names_in_", None)
    return model


def layout_of(path):
    """Return the layout that data for the model of a file must have."""
    notes = read_model_header(path)["notes"]
    try:
        return replace(Layout(**notes["layout"]), header=None, ids=())
    except KeyError:  # saved by the library, not by a command
        model = load_model(path)
        names = getattr(model, "feature_names_in_", None)
        names = None if names is None else [str(name) for name in names]
        return Layout(n_features=model.n_features_in_, feature_names=names)
    except (TypeError, ValueError) as error:
        raise ValueError(f"the notes of {path} do not say how to read its data: {error}") from None


def read_new_data(path, layout, reading, ids=()):
    """Return data for a model; options override what it recorded.

    Parameters
    ----------
    path : path-like
        The data file.
    layout : Layout
        That of the model.
    reading : Reading
        The options.
    ids : sequence of str, default=()
        Columns that are needed as they are written.
    """
    given = reading.layout()
    layout = replace(
        layout,
        label=layout.label if given.label is None else given.label,
        header=given.header,
        drop=tuple(layout.drop) if reading.drop is None else given.drop,
        missing=(*layout.missing, *given.missing),
        decimal=layout.decimal if given.decimal is None else given.decimal,
        ids=tuple(ids),
    )
    return read_data(path, format=reading.format, layout=layout)
