/* print.js - saves what is seen as an SVG of its own: colours as they are now, no script, no variables. */

/* The rules of page.css for the picture, with the values of their variables. */
function pictureStyle() {
    const colour = colours(), rules = document.querySelector("style").textContent.split("/" +
                                                                                        "*PICTURE*/")[1];
    return rules.replace(/var\(--([\w-]+)\)/g, (all, name) => colour(name));
}

function graphSvg() {
    const svg = byId("picture"), {clientWidth: width, clientHeight: height} = svg;
    const made = svgElement("svg", {width, height, viewBox: "0 0 " + width + " " + height});
    made.append(svgElement("style", {}, pictureStyle()),
                svgElement("rect", {width, height, fill: colours()("ground")}),
                byId("camera").cloneNode(true));
    return made;
}

function chartSvg(chart) {
    const pen = svgPen(chart.canvas.clientWidth, chart.canvas.clientHeight);
    drawChart(chart, pen);
    return pen.made;
}

const SVGS = {
    graph: graphSvg,
    memory: () => chartSvg(memory),
    streams: () => chartSvg(streams)
};

/* By a link that is clicked: the browser asks where, or has its folder. */
function saveSvg() {
    const make = SVGS[state.tab];
    if (!make) return;
    const text = new XMLSerializer().serializeToString(make());
    const url = URL.createObjectURL(new Blob([text], {type: "image/svg+xml"}));
    element("a", {href: url, download: data.title + "-" + g.name + "-" + state.tab + ".svg"}).click();
    setTimeout(() => URL.revokeObjectURL(url), 10000);
}
