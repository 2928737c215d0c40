// Builds the page from its JSON. Names and texts are added to the DOM as text, never as HTML.
"use strict";
(() => {
  const content = JSON.parse(document.getElementById("content").textContent);
  const main = document.getElementById("main");

  function make(tag, attributes = {}, ...children) {
    const element = document.createElement(tag);
    Object.entries(attributes).forEach(([name, value]) => element.setAttribute(name, value));
    element.append(...children.filter((child) => child !== ""));
    return element;
  }

  function table({ head, rows, best = [], references = [], kind: look = "" }, caption) {
    const kind = (i) => (best.includes(i) ? "best" : references.includes(i) ? "reference" : "");
    const cells = (row) => row.map((cell, j) => (j ? make("td", {}, cell) : make("th", { scope: "row", title: cell }, cell)));
    const made = make("table", { class: look },
      make("caption", { class: "hidden-visually" }, caption),
      head.length === 0 ? "" : make("thead", {}, make("tr", {}, ...head.map((name) => (name ? make("th", { scope: "col" }, name) : make("td"))))),
      make("tbody", {}, ...rows.map((row, i) => make("tr", { class: kind(i) }, ...cells(row)))));
    return make("div", { class: "scrolls", tabindex: "0", role: "region", "aria-label": caption }, made);
  }

  function section(id, title, ...children) {
    const made = make("section", { id, "aria-labelledby": `${id}-title` },
      make("h2", { id: `${id}-title` }, title), ...children);
    main.append(made);
    return made;
  }

  function addChartSection(data) {
    const finding = make("p", { "aria-live": "polite" });
    const charts = data.options[0].charts.map((_, i) => make("div", { class: "chart", id: `${data.id}-${i}` }));
    const data_table = make("div");
    const select = make("select", { id: `${data.id}-choice` },
      ...data.options.map((option, i) => make("option", { value: i }, option.name)));
    const choice = make("div", { class: "choice" },
      make("label", { for: select.id }, data.choice), select);
    section(data.id, data.title, finding, ...(data.options.length > 1 ? [choice] : []), ...charts,
      make("p", { class: "muted note" }, data.note), data_table);

    function show() {
      const option = data.options[select.value];
      finding.textContent = option.finding;
      option.charts.forEach((chart, i) => Figures.draw(charts[i], chart));
      if (!option.table) return;
      const numbers = table(option.table, `${data.title}: ${option.name || "numbers"}`);
      const was = data_table.querySelector("details");
      const details = make("details", {}, make("summary", {}, "The numbers as a table"), numbers);
      details.open = was ? was.open : Boolean(data.open);
      data_table.replaceChildren(details);
    }
    select.value = data.selected;
    select.addEventListener("change", show);
    show();
  }

  function copyable(text, what) {
    const pre = make("pre", { tabindex: "0", "aria-label": what }, text);
    const button = make("button", { type: "button", "aria-label": `Copy ${what}` }, "Copy");
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(text);
        button.textContent = "Copied";
      } catch {
        getSelection().selectAllChildren(pre); // Without clipboard access, the user presses Ctrl-C.
        button.textContent = "Selected";
      }
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    });
    return make("div", { class: "copied" }, pre, button);
  }

  function addSettings() {
    const made = section("settings", "Settings, and how to repeat it");
    if (content.command) made.append(make("h3", {}, "The command"), copyable(content.command, "the command"));
    content.settings.forEach(({ label, spec, note }) => {
      if (!spec) return;
      const details = make("details", {}, make("summary", {}, `${label}: spec.toml`),
        make("p", { class: "muted note" }, note), copyable(spec, `spec.toml of ${label}`));
      details.open = content.settings.length === 1;
      made.append(details);
    });
    content.environments.forEach(({ labels, rows }, i, all) => {
      const where = all.length > 1 ? `Where it ran: ${labels.join(", ")}` : "Where it ran";
      made.append(make("h3", {}, where), table({ head: [], rows, kind: "from-left" }, where));
    });
  }

  function addTableOfContents() {
    const links = [...main.querySelectorAll("section")].map((made) =>
      make("li", {}, make("a", { href: `#${made.id}` }, made.querySelector("h2").textContent)));
    document.querySelector("nav").append(make("ul", {}, ...links));
  }

  content.warnings.forEach((text) => main.append(make("p", { class: "warning", role: "note" }, text)));
  if (content.stand_in) main.append(make("p", { class: "warning", role: "note" }, content.stand_in));
  section("summary", "Summary", table(content.summary, "Scores of each method at the last evaluated round"),
    make("p", { class: "muted note" }, `Personal scores at the last evaluated round; mean ± standard deviation over seeds. ${content.summary.note}`));
  content.sections.forEach(addChartSection);
  addSettings();
  addTableOfContents();

  const root = document.documentElement;
  window.addEventListener("beforeprint", () => { root.dataset.paper = ""; Charts.redraw(680); });
  window.addEventListener("afterprint", () => { delete root.dataset.paper; Charts.redraw(); });
})();
