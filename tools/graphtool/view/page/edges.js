/* edges.js - the lines between boxes: few elements, each with all lines of a kind. */

/* From the side where data leave box a to the one where they enter b: x and y of the begin, of two points
 * that bend the curve, and of the end; the arrow's head, from there. */
function edgeShape(a, b) {
    const {x, y, w, h} = layout, p = phaseOfBox(a);
    if (p !== phaseOfBox(b)) {
        const x1 = x[a] + w[a], y1 = y[a] + h[a] / 2, x2 = x[b], y2 = y[b] + h[b] / 2,
              bend = Math.min(80, Math.abs(x2 - x1) / 2 + 10);
        return [x1, y1, x1 + bend, y1, x2 - bend - 6, y2, x2 - 6, y2, "l0 -3.5l6 3.5l-6 3.5z"];
    }
    const isUp = p === BACKWARD, sign = isUp ? -1 : 1;
    const x1 = x[a] + w[a] / 2, y1 = isUp ? y[a] : y[a] + h[a];
    const x2 = x[b] + w[b] / 2, y2 = (isUp ? y[b] + h[b] : y[b]) - 6 * sign,
          bend = sign * Math.min(60, Math.abs(y2 - y1) / 2 + 6);
    return [
        x1, y1, x1, y1 + bend, x2, y2 - bend, x2, y2, "l-3.5 0l3.5 " + 6 * sign + "l3.5 " + -6 * sign + "z"
    ];
}

function isOnPath(e) {
    return lit.steps.has(boxes.from[e] + ":" + boxes.to[e]);
}

/* "lit": it belongs to the path, or, without one, to what is selected; "cross": it leads to another phase. */
function kindOfEdge(e) {
    const from = boxes.from[e], to = boxes.to[e];
    if (isOnPath(e) || (!lit.steps.size && (lit.boxes.has(from) || lit.boxes.has(to)))) return "lit";
    return phaseOfBox(from) === phaseOfBox(to) ? "plain" : "cross";
}

const MOST_EDGES = 6000;

/* The edges of boxes, each once. */
function edgesOfBoxes(list) {
    const all = new Set();
    for (const b of list)
        for (const group of [boxes.outward, boxes.inward])
            for (const e of listOf(group, b))
                if (all.size < MOST_EDGES) all.add(e);
    return all;
}

function rounded(n) {
    return typeof n === "number" ? Math.round(n * 10) / 10 : n;
}

function drawEdges(shown) {
    const lines = {plain: "", cross: "", lit: ""}, heads = {plain: "", cross: "", lit: ""};
    for (const e of edgesOfBoxes(shown)) {
        const kind = kindOfEdge(e), s = edgeShape(boxes.from[e], boxes.to[e]).map(rounded);
        lines[kind] += "M" + s[0] + " " + s[1] + "C" + s.slice(2, 8).join(" ");
        heads[kind] += "M" + s[6] + " " + s[7] + s[8];
    }
    byId("edges").replaceChildren(...["cross", "plain", "lit"].flatMap(
        kind => [svgElement("path", {class: "edges " + kind, d: lines[kind]}),
                 svgElement("path", {class: "heads " + kind, d: heads[kind]}),
    ]));
}
