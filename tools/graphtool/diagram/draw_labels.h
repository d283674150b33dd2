/* draw_labels.h - the words of a picture. Each adds to a text. */
#ifndef WEFT_TOOLS_GRAPHTOOL_DIAGRAM_DRAW_LABELS_H
#define WEFT_TOOLS_GRAPHTOOL_DIAGRAM_DRAW_LABELS_H

#include "tools/graphtool/diagram/diagram.h"
#include "tools/graphtool/diagram/paint.h"

/* A drawn node: an op, several, an output or a closed box; and its tooltip. */
void unit_label(text *t, const diagram *s, const weft_model *m, const diagram_unit *u);
void unit_tip(text *t, const diagram_unit *u);
/* The title of a box; `closed`: its unit, NULL where it is open. */
void box_label(text *t, const diagram *s, const weft_model *m, const diagram_box *b,
               const diagram_unit *closed);
bool box_is_collapsed(const diagram_box *b);
/* An edge: the shape, unless the op keeps that of its operand. */
void value_label(text *t, const diagram *s, const weft_value *v);

#endif
