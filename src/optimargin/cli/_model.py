"""The layout of data that a model file expects."""

from dataclasses import replace

from optimargin.io import Layout, load_model, read_model_header


def layout_of(path, reading=None):
    """Return the layout that data for a model must have; options override what it recorded."""
    notes = read_model_header(path)["notes"]
    try:
        layout = Layout(**notes["layout"])
    except (KeyError, TypeError):  # saved by the library, not by a command
        layout = Layout(n_features=load_model(path).n_features_in_)
    if reading is None:
        return replace(layout, header=None)
    return replace(
        layout,
        label=layout.label if reading.label is None else reading.label,
        header=reading.header,
        drop=layout.drop if reading.drop is None else tuple(reading.drop),
    )
