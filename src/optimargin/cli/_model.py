"""A model file, and the layout of data that it expects."""

from dataclasses import replace

from optimargin.io import Layout, load_model, read_model_header


def load(path):
    """Return the model of a file, for arrays: their columns were found by name when read."""
    model = load_model(path)
    vars(model).pop("feature_names_in_", None)
    return model


def layout_of(path, reading=None, ids=()):
    """Return the layout that data for a model must have; options override what it recorded.

    Parameters
    ----------
    path : path-like
        The model file.
    reading : Reading, default=None
        The options.
    ids : sequence of str, default=()
        Columns that are needed as they are written.
    """
    notes = read_model_header(path)["notes"]
    try:
        layout = Layout(**notes["layout"])
    except KeyError:  # saved by the library, not by a command
        model = load_model(path)
        names = getattr(model, "feature_names_in_", None)
        names = None if names is None else [str(name) for name in names]
        layout = Layout(n_features=model.n_features_in_, feature_names=names)
    except (TypeError, ValueError) as error:
        raise ValueError(f"the notes of {path} do not say how to read its data: {error}") from None
    layout = replace(layout, header=None, ids=tuple(ids))
    if reading is None:
        return layout
    given = reading.layout()
    return replace(
        layout,
        label=layout.label if given.label is None else given.label,
        header=given.header,
        drop=tuple(layout.drop) if reading.drop is None else given.drop,
        missing=(*layout.missing, *given.missing),
        decimal=layout.decimal if given.decimal is None else given.decimal,
    )
