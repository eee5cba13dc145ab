"""Formulas as MathML, which browsers draw themselves: pages need no script from elsewhere."""

import re

from docutils.nodes import SkipNode
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging

_logger = logging.getLogger(__name__)
# \frac12 is one half in TeX; docutils reads twelve over what follows.
_SHORT_FRACTION = re.compile(r"(\\[td]?frac)\s*(\d)\s*(\w)")


def _formula(node, as_block):
    text = _SHORT_FRACTION.sub(r"\1{\2}{\3}", node.astext())
    # Sphinx keeps a formula with its line breaks, which mean nothing in TeX.
    try:
        return tex2mathml(" ".join(text.split()), as_block=as_block)
    except MathError as error:
        _logger.warning("formula not understood: %s", error, location=node)
        return f"<code>{node.astext()}</code>"


def _visit_inline(translator, node):
    translator.body.append(_formula(node, as_block=False))
    raise SkipNode


def _visit_block(translator, node):
    translator.body.append(f'<div class="formula">{_formula(node, as_block=True)}</div>\n')
    raise SkipNode


def setup(app):
    app.add_html_math_renderer("mathml", (_visit_inline, None), (_visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
