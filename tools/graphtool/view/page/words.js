/* words.js - numbers and names as a reader sees them, and elements of HTML. */
function bytesText(n) {
    const units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let unit = 0;
    while (n >= 1024 && unit < 4) {
        n /= 1024;
        unit++;
    }
    return (unit ? n.toFixed(n < 10 ? 2 : 1) : n) + " " + units[unit];
}

function countText(n, one, many) {
    return n.toLocaleString("en") + " " + (n === 1 ? one : many || one + "s");
}

function timeText(us) {
    if (us < 1000) return us.toFixed(us < 10 ? 2 : 1) + " us";
    return us < 1e6 ? (us / 1000).toFixed(2) + " ms" : (us / 1e6).toFixed(3) + " s";
}

function flopText(n) {
    const units = ["", "k", "M", "G", "T", "P"];
    let unit = 0;
    while (n >= 1000 && unit < 5) {
        n /= 1000;
        unit++;
    }
    return (unit ? n.toFixed(2) : n) + " " + units[unit] + "FLOP";
}

function cut(text, most) {
    return text.length > most ? text.slice(0, most - 1) + "\u2026" : text;
}

/* The name that an input, a state or a parameter has, without the scopes around it; "" of other nodes. */
const NAMED = ["input", "state", "parameter"];

function ownName(g, i) {
    if (!NAMED.includes(texts[g.nodes.op[i]])) return "";
    const found = texts[g.nodes.attrs[i]].match(/(?:^| )(?:name|path)="([^"]*)"/);
    return found ? found[1].replace(/.*\//, "") : "";
}

/* What a node is called: its op, its own name, and the name of its first value. */
function nodeName(g, i) {
    const own = ownName(g, i) && " " + ownName(g, i);
    const v = g.results.at[i];
    const name = v < g.results.at[i + 1] ? texts[g.values.name[v]] : "";
    return texts[g.nodes.op[i]] + own + (name ? " " + name : "");
}

function scopeName(g, s) {
    return texts[g.scopes.path[s]] || "(top)";
}

/* An element: element("button", {type: "button"}, "text", child, ...). Text is text: names of a model are no
 * HTML. */
function element(name, attributes, ...children) {
    const made = document.createElement(name);
    for (const key of Object.keys(attributes || {})) made.setAttribute(key, attributes[key]);
    made.append(...children);
    return made;
}

function svgElement(name, attributes, text) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const key of Object.keys(attributes)) made.setAttribute(key, attributes[key]);
    if (text !== undefined) made.textContent = text;
    return made;
}

function byId(id) {
    return document.getElementById(id);
}

/* A button that looks like a link and selects: what is selected is written into it, and select.js listens. */
function link(kind, id, text) {
    return element("button", {type: "button", class: "link", "data-select": kind + id}, text);
}
