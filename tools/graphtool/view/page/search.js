/* search.js - finds scopes, parameters, nodes, values by any part of their texts. Each text is looked at once;
 * then columns of numbers say who has it. Several words must all be found, each in some text of the thing. */
const MOST_FOUND = 60;
const found = {
    items: [],
    total: 0,
    exact: 0,
    at: -1
};

/* By text: whether it contains the word. */
function textsWith(word) {
    return texts.map(text => text.toLowerCase().includes(word));
}

/* Things of one kind, of which each word is in one of the columns. */
function searchColumns(words, columnsOfThings, count, add, isThere) {
    for (let i = 0; i < count; i++)
        if ((!isThere || isThere(i)) && words.every(has => columnsOfThings.some(c => has[c[i]]))) add(i);
}

/* What has the searched text as its whole name comes first. */
function addFound(key, text, note, isExact) {
    found.total++;
    if (isExact) found.items.splice(found.exact++, 0, {key, text, note});
    else if (found.items.length < MOST_FOUND) found.items.push({key, text, note});
    found.items.length = Math.min(found.items.length, MOST_FOUND);
}

function searchNodes(words, whole) {
    const {nodes, values, scopes} = g, name = new Float64Array(g.count), type = new Float64Array(g.count);
    const scopeText = nodes.scope.map(s => scopes.path[s]);
    for (let i = 0; i < g.count; i++)
        if (g.results.at[i] < g.results.at[i + 1]) {
            name[i] = values.name[g.results.at[i]];
            type[i] = values.type[g.results.at[i]];
        }
    searchColumns(words, [nodes.op, name, type, scopeText, nodes.attrs, nodes.kernel, nodes.source], g.count,
                  i => addFound("n" + i, nodeName(g, i),
                                texts[scopes.path[nodes.scope[i]]] + ", " + PHASE_NAMES[nodes.phase[i]] +
                                    (exists(i) ? "" : ", not in this pass"),
                                texts[name[i]].toLowerCase() === whole));
}

/* Second and further results; the first ones have the names of their nodes. */
function searchValues(words, whole) {
    const {values, results} = g;
    searchColumns(words, [values.name], values.name.length,
                  v => addFound("v" + v, "value " + texts[values.name[v]],
                                texts[values.type[v]] + " of " + nodeName(g, values.node[v]),
                                texts[values.name[v]].toLowerCase() === whole),
                  v => v > results.at[values.node[v]]);
}

function searchFor(text) {
    const whole = text.trim().toLowerCase(), words = whole.split(/\s+/).filter(word => word).map(textsWith),
          {scopes} = g;
    const parameters = planOf(state.plan).parameters;
    Object.assign(found, {items: [], total: 0, exact: 0, at: -1});
    if (!words.length) return;
    searchColumns(words, [scopes.path], scopes.count,
                  s => addFound("s" + s, scopeName(g, s), "scope, " + countText(scopes.nodes[s], "node")),
                  s => s > 0);
    searchColumns(words, [parameters.path], parameters.path.length,
                  p =>
                      addFound("p" + p, texts[parameters.path[p]], "parameter " + texts[parameters.type[p]]));
    searchNodes(words, whole);
    searchValues(words, whole);
}

function drawFound() {
    const list = byId("found"), field = byId("search"),
          isOpenList = field.value.trim() !== "" && document.activeElement === field;
    list.hidden = !isOpenList;
    field.setAttribute("aria-expanded", isOpenList);
    list.replaceChildren(...found.items.map(
        (item, at) => element(
            "li", {role: "option", id: "found-" + at, "data-found": at, "aria-selected": at === found.at},
            item.text + " ", element("small", {}, item.note))));
    const more = found.total - found.items.length;
    if (more > 0 || !found.total)
        list.append(element(
            "li", {role: "presentation"},
            element("small", {}, more > 0 ? "and " + more.toLocaleString("en") + " more" : "nothing found")));
    if (found.at >= 0) {
        field.setAttribute("aria-activedescendant", "found-" + found.at);
        list.children[found.at].scrollIntoView({block: "nearest"});
    } else field.removeAttribute("aria-activedescendant");
}

function takeFound(at) {
    if (!found.items[at]) return;
    selectText(found.items[at].key);
    byId("search").blur();
    byId("found").hidden = true;
}

function listenSearch() {
    const field = byId("search");
    field.addEventListener("input", () => {
        searchFor(field.value);
        drawFound();
    });
    field.addEventListener("focus", drawFound);
    field.addEventListener("blur", () => byId("found").hidden = true);
    field.addEventListener("keydown", e => {
        if (e.key === "ArrowDown" || e.key === "ArrowUp") {
            found.at =
                Math.max(0, Math.min(found.items.length - 1, found.at + (e.key === "ArrowDown" ? 1 : -1)));
            drawFound();
            e.preventDefault();
        } else if (e.key === "Enter") takeFound(Math.max(0, found.at));
        else if (e.key === "Escape") field.blur();
        e.stopPropagation();
    });
    byId("found").addEventListener("pointerdown", e => { // before the field loses focus
        const item = e.target.closest("[data-found]");
        if (item) takeFound(Number(item.getAttribute("data-found")));
        e.preventDefault();
    });
}
