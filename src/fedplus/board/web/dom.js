// Helpers: create elements, update tables without losing the focus, and format numbers.
export const byId = (id) => document.getElementById(id);

export function element(tag, properties = {}, ...children) {
  const node = Object.assign(document.createElement(tag), properties);
  node.append(...children);
  return node;
}

export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function showText(node, text) {
  setText(node, text);
  node.hidden = !text;
}

// Shows the items in order as rows of tbody. Each key's row is made once, and then only changed.
export function updateRows(tbody, items, key, make, change) {
  const oldRows = tbody.rowsByKey || new Map();
  const newRows = new Map();
  for (const item of items) {
    const row = oldRows.get(key(item)) || make(item);
    change(row, item);
    newRows.set(key(item), row);
  }
  const rows = [...newRows.values()];
  if (rows.length !== tbody.rows.length || rows.some((row, i) => tbody.rows[i] !== row)) {
    const focused = tbody.contains(document.activeElement) ? document.activeElement : null;
    tbody.replaceChildren(...rows);
    if (focused) focused.focus({ preventScroll: true });
  }
  tbody.rowsByKey = newRows;
}

// Adds headings that sort. columns: [{name, title, words}]; onClick(name) is called on a click.
export function addHeadings(tr, columns, onClick) {
  for (const { name, title, words } of columns) {
    const button = element("button", { type: "button", textContent: title });
    button.addEventListener("click", () => onClick(name));
    const th = element("th", { scope: "col", className: words ? "words" : "" }, button);
    th.dataset.sort = name;
    tr.append(th);
  }
}

export function markSorted(tr, name, descending) {
  for (const th of tr.querySelectorAll("th[data-sort]")) {
    if (th.dataset.sort === name) th.setAttribute("aria-sort", descending ? "descending" : "ascending");
    else th.removeAttribute("aria-sort");
  }
}

export const scoreFactor = (run) => (run && run.score_name === "accuracy" ? 100 : 1);
export const scoreTitle = (run) => `${run.score_name}${scoreFactor(run) === 100 ? ", %" : ""}`;

export function formatNumber(value) {
  return Number.isFinite(value) ? Number(value.toPrecision(4)).toString() : "–";
}

export function formatScore(value, run) {
  if (!Number.isFinite(value)) return "–";
  return scoreFactor(run) === 100 ? `${(100 * value).toFixed(1)} %` : formatNumber(value);
}

export function formatTime(text) {
  const time = new Date(text);
  if (Number.isNaN(time.getTime())) return "–";
  const today = time.toDateString() === new Date().toDateString();
  return today ? time.toLocaleTimeString() : time.toLocaleDateString();
}

export function showState(node, state) {
  setText(node, state);
  node.dataset.state = state;
}
