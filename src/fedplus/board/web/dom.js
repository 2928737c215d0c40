// Small helpers: elements, tables that keep the focus while they change, numbers in words.
export const byId = (id) => document.getElementById(id);

export function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

export function write(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function say(node, text) {
  write(node, text);
  node.hidden = !text;
}

// Make tbody show the items in order: rows are made once for each key, and then only changed.
export function fill(tbody, items, key, make, change) {
  const there = tbody.rowsByKey || new Map();
  const kept = new Map();
  for (const item of items) {
    const row = there.get(key(item)) || make(item);
    change(row, item);
    kept.set(key(item), row);
  }
  const rows = [...kept.values()];
  if (rows.length !== tbody.rows.length || rows.some((row, i) => tbody.rows[i] !== row)) {
    const focused = tbody.contains(document.activeElement) ? document.activeElement : null;
    tbody.replaceChildren(...rows);
    if (focused) focused.focus({ preventScroll: true });
  }
  tbody.rowsByKey = kept;
}

// Headings that sort. columns: [{name, title, words}]; chosen(name) is called on a click.
export function headings(tr, columns, chosen) {
  for (const { name, title, words } of columns) {
    const button = element("button", { type: "button", textContent: title });
    button.addEventListener("click", () => chosen(name));
    const th = element("th", { scope: "col", className: words ? "words" : "" }, button);
    th.dataset.sort = name;
    tr.append(th);
  }
}

export function markSorted(tr, name, falling) {
  for (const th of tr.querySelectorAll("th[data-sort]")) {
    if (th.dataset.sort === name) th.setAttribute("aria-sort", falling ? "descending" : "ascending");
    else th.removeAttribute("aria-sort");
  }
}

export const factor = (run) => (run && run.score_name === "accuracy" ? 100 : 1);
export const scoreTitle = (run) => `${run.score_name}${factor(run) === 100 ? ", %" : ""}`;

export function number(value) {
  return Number.isFinite(value) ? Number(value.toPrecision(4)).toString() : "–";
}

export function score(value, run) {
  if (!Number.isFinite(value)) return "–";
  return factor(run) === 100 ? `${(100 * value).toFixed(1)} %` : number(value);
}

export function moment(text) {
  const time = new Date(text);
  if (Number.isNaN(time.getTime())) return "–";
  const today = time.toDateString() === new Date().toDateString();
  return today ? time.toLocaleTimeString() : time.toLocaleDateString();
}

export function mark(node, state) {
  write(node, state);
  node.dataset.state = state;
}
