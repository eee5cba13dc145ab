"""What a model file says about the data it wants."""

from dataclasses import replace

from optimargin.io import Layout, load_model, read_model_header


def layout_of(path, label=None, header=None, drop=None):
    """Return the layout that data for a model must have; options go before its own words."""
    notes = read_model_header(path)["notes"]
    try:
        layout = Layout(**notes["layout"])
    except (KeyError, TypeError):  # saved by the library, not by a command
        layout = Layout(n_features=load_model(path).n_features_in_)
    return replace(
        layout,
        label=layout.label if label is None else label,
        header=header,
        drop=tuple(drop if drop is not None else layout.drop),
    )
