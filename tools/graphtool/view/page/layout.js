/* layout.js - where boxes are. C gives each child of a scope its row and column (tools/graphtool/view); here
 * rows get heights and places, so that an opened scope makes its row taller and leaves the order of all
 * others as it was. Data flows downwards in forward and update, upwards in backward, whose gradients so
 * stand beside their layers: there what runs last has row 0. Units: pixels at scale 1. */
const NODE_WIDTH = 150, NODE_HEIGHT = 36, VIEW_HEIGHT = 20, SCOPE_WIDTH = 170, SCOPE_HEIGHT = 46;
const GAP_X = 18, GAP_Y = 24, FRAME_TOP = 24, FRAME_PAD = 14, PHASE_GAP = 110;
const LONGEST_LINE = [24, 24, 4]; // by phase: boxes of a row that lie side by side; more continue below
const layout = {
    x: null,
    y: null,
    w: null,
    h: null,
    drawn: [],
    inside: null,
    chained: null,
    width: 0,
    height: 0
};

/* A node that only names memory: a view of another value, or a parameter. */
function isView(i) {
    if (g.nodes.lane[i] === 1) return false;
    if (isVariable(i)) return true;
    const v = g.results.at[i];
    return v < g.results.at[i + 1] && g.values.base[v] >= 0 && texts[g.nodes.kernel[i]] === "";
}

function isVariable(i) {
    return g.nodes.parameter[i] >= 0 && g.operands.at[i] === g.operands.at[i + 1];
}

/* C gives equal scopes one row. Where they are drawn one by one and read each other, each gets a row of its
 * own. */
function rowOfScope(s, phase) {
    const {same, ordinal, copies} = g.scopes, row = g.layout.scope_row[phase * g.scopes.count + s];
    return layout.chained.has(scopeBox(same[s], phase)) ? row + ordinal[s] / copies[same[s]] : row;
}

/* The children of a scope in one phase, by row and column. */
function childrenOf(s, phase) {
    const list = [], rows = g.layout, offset = phase * g.scopes.count;
    for (const i of listOf(g.own, offset + s))
        if (state.keepPlaces || exists(i)) list.push([rows.row[i], rows.column[i], i]);
    for (const c of listOf(g.scopes.below, s))
        if (boxes.isDrawn[c] && rows.scope_row[offset + c] >= 0 &&
            (state.keepPlaces || boxes.alive[offset + c]))
            list.push([rowOfScope(c, phase), rows.scope_column[offset + c], scopeBox(c, phase)]);
    return list.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
}

/* Edges between siblings: both ends of a drawn edge are lifted to boxes in one frame. By box: its neighbours
 * in rows above it, which are what it reads; in backward, what reads it. {upper: a box by edge, weight,
 * groups: edges by lower box} */
function liftEdges() {
    const upper = [], lower = [], weights = [], depth = g.scopes.depth, {from, to, weight} = boxes.placing;
    for (let e = 0; e < from.length; e++) {
        let a = from[e], b = to[e];
        const phase = phaseOfBox(a);
        if (phase !== phaseOfBox(b)) continue;
        let up = parentOfBox(a), over = parentOfBox(b);
        while (up !== over && up >= 0 && over >= 0) {
            if (depth[up] >= depth[over]) {
                a = scopeBox(up, phase);
                up = parentOfBox(a);
            } else {
                b = scopeBox(over, phase);
                over = parentOfBox(b);
            }
        }
        if (a === b) continue;
        if (isScopeBox(a) && isScopeBox(b) && g.scopes.same[scopeOfBox(a)] === g.scopes.same[scopeOfBox(b)])
            layout.chained.add(scopeBox(g.scopes.same[scopeOfBox(a)], phase));
        upper.push(phase === BACKWARD ? b : a);
        lower.push(phase === BACKWARD ? a : b);
        weights.push(weight[e]);
    }
    return {upper, weight: weights, groups: grouped(lower, layout.x.length, lower.length)};
}

function sizeOf(b, above) {
    if (!isScopeBox(b)) {
        layout.w[b] = NODE_WIDTH;
        layout.h[b] = isView(b) ? VIEW_HEIGHT : NODE_HEIGHT;
    } else if (isOpen(scopeOfBox(b))) {
        sizeFrame(b, above);
    } else {
        layout.w[b] = SCOPE_WIDTH;
        layout.h[b] = SCOPE_HEIGHT;
    }
}

/* Rows as lines of boxes. */
function linesOf(children, phase) {
    const lines = [];
    for (let at = 0; at < children.length;) {
        let end = at;
        while (end < children.length && children[end][0] === children[at][0]) end++;
        const parts = Math.ceil((end - at) / LONGEST_LINE[phase]), size = Math.ceil((end - at) / parts);
        for (; at < end; at = Math.min(end, at + size))
            lines.push(children.slice(at, Math.min(end, at + size)).map(c => c[2]));
    }
    return lines;
}

/* Centres of a line's boxes: each under the middle of its neighbours above, as far as those beside it leave
 * room. Updates, of which many read the same, lie side by side. */
function placeLine(line, above, phase) {
    let last = -Infinity, off = 0, known = 0;
    for (const b of line) {
        let sum = 0, n = 0;
        for (const e of phase === UPDATE ? [] : listOf(above.groups, b)) {
            const x = layout.x[above.upper[e]];
            if (Number.isNaN(x)) continue;
            sum += above.weight[e] * x;
            n += above.weight[e];
        }
        const want = n ? sum / n : last === -Infinity ? 0 : last + layout.w[b] / 2;
        const x = Math.max(want, last + layout.w[b] / 2);
        const share = Math.min(n, 1);
        off += share * (want - x);
        known += share;
        layout.x[b] = x;
        last = x + layout.w[b] / 2 + GAP_X;
    }
    const first = line[0], end = line[line.length - 1];
    const shift = known ? off / known
                        : -(layout.x[first] - layout.w[first] / 2 + layout.x[end] + layout.w[end] / 2) / 2;
    for (const b of line) layout.x[b] += shift;
}

/* Sizes an open scope and all in it; x and y of its children are within it: centres first, then corners. */
function sizeFrame(frame, above) {
    const children = childrenOf(scopeOfBox(frame), phaseOfBox(frame));
    let left = 0, right = 0, y = FRAME_TOP;
    for (const c of children) {
        sizeOf(c[2], above);
        layout.x[c[2]] = NaN;
    }
    for (const line of linesOf(children, phaseOfBox(frame))) {
        placeLine(line, above, phaseOfBox(frame));
        let tallest = 0;
        for (const b of line) {
            layout.y[b] = y;
            tallest = Math.max(tallest, layout.h[b]);
            left = Math.min(left, layout.x[b] - layout.w[b] / 2);
            right = Math.max(right, layout.x[b] + layout.w[b] / 2);
        }
        y += tallest + GAP_Y;
    }
    layout.w[frame] = Math.max(right - left + 2 * FRAME_PAD, SCOPE_WIDTH);
    layout.h[frame] = Math.max(y - GAP_Y + FRAME_PAD, SCOPE_HEIGHT);
    const shift = (layout.w[frame] - (right - left)) / 2 - left;
    for (const c of children) {
        const b = c[2];
        layout.x[b] += shift - layout.w[b] / 2;
    }
    layout.inside.set(frame, children);
}

/* From places within frames to places in the picture; what is drawn, parents first. */
function placeAll(frame) {
    if (boxes.alive[frame - g.count]) layout.drawn.push(frame);
    for (const c of layout.inside.get(frame)) {
        const b = c[2];
        layout.x[b] += layout.x[frame];
        layout.y[b] += layout.y[frame];
        if (isScopeBox(b) && isOpen(scopeOfBox(b))) placeAll(b);
        else if (isScopeBox(b) ? boxes.alive[b - g.count] : exists(b)) layout.drawn.push(b);
    }
}

/* The phases side by side; forward and backward end at one height: there the loss becomes a gradient. */
function findLayout() {
    const all = g.count + PHASES * g.scopes.count;
    for (const part of ["x", "y", "w", "h"]) layout[part] = new Float64Array(all);
    layout.chained = new Set();
    const above = liftEdges();
    layout.inside = new Map();
    layout.drawn = [];
    const shown = [FORWARD, BACKWARD, UPDATE].filter(p => childrenOf(0, p).length > 0);
    let x = 0, level = 0;
    layout.height = 0;
    for (const p of shown) {
        sizeFrame(scopeBox(0, p), above);
        if (p !== UPDATE) level = Math.max(level, layout.h[scopeBox(0, p)]);
        layout.height = Math.max(layout.height, layout.h[scopeBox(0, p)]);
    }
    for (const p of shown) {
        const root = scopeBox(0, p);
        layout.x[root] = x;
        layout.y[root] = p === UPDATE ? 0 : level - layout.h[root];
        placeAll(root);
        x += layout.w[root] + PHASE_GAP;
    }
    layout.width = x - PHASE_GAP;
}
