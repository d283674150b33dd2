/* draw.js - the picture of the graph: an SVG of what the window shows, and of nothing else. Elements are
 * kept from one drawing to the next by the number of their box, so that focus stays. Where more than
 * MOST_BOXES would be drawn, boxes become bands: grey bars that say where something is. */
const MOST_BOXES = 1500, BAND = 5; // pixels on the screen
const picture = {
    shown: new Map(),
    frames: new Map(),
    current: -1,
    isStale: true
};

/* Boxes in the window. */
function boxesInWindow() {
    const svg = byId("picture"), k = camera.k;
    const left = -camera.x / k, top = -camera.y / k;
    const right = left + svg.clientWidth / k, bottom = top + svg.clientHeight / k;
    return layout.drawn.filter(b => layout.x[b] < right && layout.x[b] + layout.w[b] > left &&
                                    layout.y[b] < bottom && layout.y[b] + layout.h[b] > top);
}

function isFrame(b) {
    return isScopeBox(b) && isOpen(scopeOfBox(b));
}

/* ---- what a box says ---- */

/* The type of the largest result. */
function mainType(i) {
    const results = resultsOf(g, i), {bytes, type} = g.values;
    return results.length ? texts[type[results.reduce((best, v) => bytes[v] > bytes[best] ? v : best)]] : "";
}

function typesOf(i) {
    return resultsOf(g, i).map(v => texts[g.values.type[v]]).join(", ");
}

/* Without the strides of a view, which details have. */
function shortType(i) {
    const more = g.results.at[i + 1] - g.results.at[i] - 1;
    return mainType(i).replace(/:s\(.*/, "") + (more > 0 ? " +" + more : "");
}

/* What a node does; of a parameter, a state or an input, its own name. */
function shortName(i) {
    if (isVariable(i))
        return texts[planOf(state.plan).parameters.path[g.nodes.parameter[i]]].replace(/.*\//, "");
    const op = texts[g.nodes.op[i]], own = ownName(g, i);
    return op === "input" && own ? "input " + own : own || op;
}

function copiesOf(s) {
    return state.loose.has(g.scopes.same[s]) ? 1 : g.scopes.copies[s];
}

function titleOfScope(s) {
    return (s ? texts[g.scopes.name[s]] : "") + (copiesOf(s) > 1 ? "  \u00d7" + copiesOf(s) : "");
}

function nodesText(b) {
    return countText(boxes.alive[b - g.count], "node");
}

/* Of a scope's nodes, or of a node; "" without times. */
function timeOfBox(b) {
    const us = isScopeBox(b) ? boxes.us[b - g.count] : g.nodes.us[b];
    return g.time.kind === "steps" || !isLastPass() || us <= 0 ? "" : timeText(us);
}

/* For screen readers, and the tests. */
function labelOfBox(b) {
    const phase = PHASE_NAMES[phaseOfBox(b)];
    if (!isScopeBox(b)) return nodeName(g, b) + ", " + typesOf(b) + ", " + phase;
    const s = scopeOfBox(b), copies = copiesOf(s);
    return (s ? "scope " + scopeName(g, s) + ", " : "") + phase + ", " + nodesText(b) +
           (copies > 1 ? ", one of " + copies + " equal" : "");
}

function classOfBox(b) {
    const words = [isFrame(b) ? "frame" : "box", "p" + phaseOfBox(b)];
    if (isScopeBox(b)) words.push(scopeOfBox(b) ? "scope" : "phase");
    else if (g.nodes.lane[b] === 1) words.push("collective");
    else if (isView(b)) words.push("memory");
    const kind = changeOfBox(b);
    if (kind) words.push(kind);
    if (lit.boxes.has(b)) words.push("lit");
    else if (lit.near.has(b)) words.push("near");
    return words.join(" ");
}

/* ---- elements ---- */

const CHANGE_MARKS = {
    added: "+",
    removed: "\u2212",
    changed: "\u2260"
};

function addMark(box, b) {
    const kind = changeOfBox(b);
    if (kind)
        box.append(svgElement("text", {x: layout.w[b] - 12, y: layout.h[b] - 6, class: "mark " + kind},
                              CHANGE_MARKS[kind]));
}

function addToggle(box, b, sign) {
    box.append(svgElement("text", {x: layout.w[b] - 16, y: 16, class: "name", "data-toggle": b}, sign));
}

function fillNode(box, b) {
    const isSmall = layout.h[b] === VIEW_HEIGHT, op = shortName(b), type = shortType(b);
    box.append(svgElement("rect", {width: layout.w[b], height: layout.h[b], rx: isSmall ? 9 : 4}));
    if (isSmall) {
        box.append(svgElement("text", {x: 8, y: 14, class: "small"},
                              cut(op + " " + type.replace(/^[^[]*/, ""), 25)));
        return;
    }
    const time = timeOfBox(b);
    box.append(svgElement("text", {x: 8, y: 15, class: "name"}, cut(op, time ? 12 : 20)));
    box.append(svgElement("text", {x: 8, y: 29, class: "small"}, cut(type, 25)));
    if (time)
        box.append(
            svgElement("text", {x: layout.w[b] - 6, y: 15, class: "small", "text-anchor": "end"}, time));
}

function fillScope(box, b) {
    const s = scopeOfBox(b), w = layout.w[b], h = layout.h[b];
    if (copiesOf(s) > 1)
        for (const by of [8, 4]) box.append(svgElement("rect", {x: by, y: by, width: w, height: h, rx: 4}));
    box.append(svgElement("rect", {width: w, height: h, rx: 4}));
    box.append(svgElement("text", {x: 8, y: 18, class: "name"}, cut(titleOfScope(s), 20)));
    box.append(svgElement("text", {x: 8, y: 35, class: "small"},
                          nodesText(b) + (timeOfBox(b) ? ", " + timeOfBox(b) : "")));
    addToggle(box, b, "+");
}

function fillFrame(box, b) {
    const s = scopeOfBox(b), phase = PHASE_NAMES[phaseOfBox(b)];
    box.append(svgElement("rect", {width: layout.w[b], height: layout.h[b], rx: 6}));
    box.append(svgElement("text", {x: 8, y: 16, class: "name"}, s ? cut(titleOfScope(s), 22) : phase));
    if (s) addToggle(box, b, "\u2212");
}

function makeBox(b) {
    const box = svgElement("g", {role: "button", tabindex: -1, "data-box": b, "aria-label": labelOfBox(b)});
    box.append(svgElement("title", {}, labelOfBox(b)));
    if (isScopeBox(b) && scopeOfBox(b)) box.setAttribute("aria-expanded", isFrame(b));
    if (isFrame(b)) fillFrame(box, b);
    else if (isScopeBox(b)) fillScope(box, b);
    else fillNode(box, b);
    addMark(box, b);
    return box;
}

/* One layer of elements for `list`; `kept` has those that are there. */
function drawLayer(layer, kept, list) {
    const wanted = new Set(list);
    for (const [b, box] of kept)
        if (!wanted.has(b)) {
            box.remove();
            kept.delete(b);
        }
    for (const b of list) {
        let box = kept.get(b);
        if (!box) {
            box = makeBox(b);
            kept.set(b, box);
            layer.append(box);
        }
        box.setAttribute("class", classOfBox(b));
        box.setAttribute("transform",
                         "translate(" + layout.x[b].toFixed(1) + " " + layout.y[b].toFixed(1) + ")");
        box.setAttribute("tabindex", b === picture.current ? 0 : -1);
        box.setAttribute("aria-pressed", lit.boxes.has(b));
    }
}

/* Boxes too small and too many to draw: what lies in a band of the screen and one frame becomes one bar. */
function drawBands(list) {
    const bars = new Map();
    for (const b of list) {
        const key = parentOfBox(b) + ":" + phaseOfBox(b) + ":" + Math.floor(layout.y[b] * camera.k / BAND);
        const bar = bars.get(key);
        if (!bar)
            bars.set(key, {
                x0: layout.x[b],
                x1: layout.x[b] + layout.w[b],
                y0: layout.y[b],
                y1: layout.y[b] + layout.h[b]
            });
        else {
            bar.x0 = Math.min(bar.x0, layout.x[b]);
            bar.x1 = Math.max(bar.x1, layout.x[b] + layout.w[b]);
            bar.y1 = Math.max(bar.y1, layout.y[b] + layout.h[b]);
        }
    }
    byId("bands").replaceChildren(...[...bars.values()].slice(0, 4000).map(
        bar => svgElement(
            "rect", {x: bar.x0, y: bar.y0, width: bar.x1 - bar.x0, height: bar.y1 - bar.y0, class: "band"})));
}

/* ---- all of it ---- */

function forgetElements() {
    for (const kept of [picture.shown, picture.frames]) {
        for (const box of kept.values()) box.remove();
        kept.clear();
    }
}

function drawWindow() {
    byId("camera").setAttribute("transform",
                                "translate(" + camera.x + " " + camera.y + ") scale(" + camera.k + ")");
    const inside = boxesInWindow(), frames = inside.filter(isFrame), leaves = inside.filter(b => !isFrame(b));
    const isMany = leaves.length > MOST_BOXES;
    if (!inside.includes(picture.current)) picture.current = leaves.length ? leaves[0] : -1;
    drawLayer(byId("frames"), picture.frames, frames.slice(0, MOST_BOXES));
    drawLayer(byId("boxes"), picture.shown, isMany ? [] : leaves);
    drawBands(isMany ? leaves : []);
    drawEdges(isMany ? [] : leaves.concat(frames));
}

/* Boxes and their places again where they changed, and what is lit: for all views. */
function refresh(what) {
    if (what.has("boxes") || what.has("all")) {
        findBoxes();
        findLayout();
        picture.isStale = true;
    }
    if (what.has("all")) camera.k = 0;
    if (what.has("boxes") || what.has("all") || what.has("lit")) findLit();
}

/* Focus stays at its box; where that was closed, at the box that stands for it. */
function drawPicture(what) {
    const active = document.activeElement, focused = active && active.closest("[data-box]");
    if (picture.isStale) forgetElements();
    picture.isStale = false;
    if (camera.k === 0) showStart();
    takeView();
    if (!what.has("camera") || what.size > 1) followSelection();
    drawWindow();
    if (focused && !focused.isConnected) focusBox(picture.current);
}
