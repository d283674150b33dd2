/* passes.js - the head of the page: which plan, which graph, and the slider over the compiler's passes. */
function setPass(pass) {
    if (pass !== state.pass && state.choosesPlaces) keepPlaces(true);
    state.pass = pass;
    change("boxes");
}

function keepPlaces(isKept) {
    state.keepPlaces = isKept;
    state.choosesPlaces = false;
    change("boxes");
}

function passText() {
    let nodes = 0;
    for (let i = 0; i < g.count; i++) nodes += exists(i);
    const last = state.pass === g.last ? ", what runs" : "";
    return (state.pass ? "after " : "") + g.passes[state.pass] + " (" + (state.pass + 1) + " of " +
           g.passes.length + last + "): " + countText(nodes, "node");
}

function drawHead(what) {
    if (!what.has("all") && !what.has("boxes")) return;
    const slider = byId("pass");
    byId("pass-label").hidden = g.last === 0;
    slider.max = g.last;
    slider.value = state.pass;
    slider.setAttribute("aria-valuetext", passText());
    byId("pass-name").value = passText();
    for (const said of document.querySelectorAll(".of-last")) {
        said.hidden = isLastPass();
        said.textContent = "The slider is after " + g.passes[state.pass] +
                           "; kernels, steps, times and memory are those of what runs.";
    }
    byId("plan").value = state.plan;
    byId("keep-places").checked = state.keepPlaces;
    if (what.has("all")) fillGraphs();
    byId("graph").value = state.graph;
}

function fillGraphs() {
    byId("graph").replaceChildren(...data.plans[state.plan].graphs.map(
        (graph, at) => element("option", {value: at},
                               graph.name + " (" + graph.mode +
                                   (graph.phase === "whole" ? "" : ", " + graph.phase) + ")")));
}

function fillHead() {
    document.title = data.title + " - graphtool view";
    byId("title").textContent = data.title;
    byId("plan-label").hidden = data.plans.length < 2;
    data.plans.forEach((plan, at) =>
                           byId("plan").append(element("option", {value: at}, "AB"[at] + " " + plan.name)));
    for (const [name, value] of data.settings)
        byId("settings")
            .querySelector("tbody")
            .append(element("tr", {}, element("th", {scope: "row"}, name), element("td", {}, value)));
    byId("settings").hidden = !data.settings.length;
    const kinds = [
        ["forward", "forward"], ["backward", "backward"], ["update", "update"], ["collective", "collective"],
        ["memory", "view of memory"]
    ];
    for (const [colour, name] of kinds)
        byId("legend").append(element(
            "span", {},
            element("i", {style: "background:var(--" + colour + ");border-color:var(--" + colour + "-line)"}),
            name));
    if (data.difference)
        for (const kind of Object.keys(CHANGE_MARKS))
            byId("legend").append(
                element("span", {class: kind}, CHANGE_MARKS[kind] + " " + CHANGE_WORDS[kind]));
}

function listenHead() {
    byId("pass").addEventListener("input", e => setPass(Number(e.target.value)));
    byId("graph").addEventListener("change", e => {
        showGraph(state.plan, Number(e.target.value));
        change("all");
    });
    byId("plan").addEventListener("change", e => showPlan(Number(e.target.value)));
    byId("keep-places").addEventListener("change", e => keepPlaces(e.target.checked));
}
