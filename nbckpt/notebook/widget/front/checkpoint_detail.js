/**
 * The detail of a checkpoint beside the list: variables with boxes and how they differ from now, pictures, cell, packages.
 *
 * @typedef {{ [name: string]: any }} Message
 * @typedef {import("./panel.js").Frame} Frame
 */

/**
 * Draw a checkpoint.
 * @param {Frame} frame @param {Message} data @param {{ chosen: Set<string>, now: Message | null, waits: boolean,
 *   changed: () => void, trust: () => void, back: (() => void) | null }} state
 */
export function checkpoint(frame, data, state) {
  const { dom, format, parts } = frame;
  const { groups, seconds } = parts.checkpoint_rows;
  const { data: values, lines } = groups(data.variables ?? []);
  const facts = [
    data.cell === null || data.cell === undefined ? "" : `cell [${data.cell}]`,
    data.variables ? format.count(data.variables.length, "variable") : "",
    data.size ? format.size(data.size) : "",
    data.python ? `Python ${data.python}` : "",
  ].filter(Boolean);
  return dom.make(
    "div",
    { class: "nb-card" },
    dom.make(
      "div",
      { class: "nb-heading" },
      state.back ? dom.button({ label: "Checkpoints", icon: "left", run: state.back, id: "back" }) : null,
      dom.make("strong", { text: data.label }),
      data.message ? dom.make("span", { class: "nb-wrap", text: data.message }) : null,
    ),
    data.saved_at
      ? dom.make("p", { class: "nb-facts" }, "Saved ", frame.age(seconds(data.saved_at)), facts.length ? ` · ${facts.join(" · ")}` : "")
      : null,
    data.trouble ? banner(frame, "failed", `This checkpoint is damaged: ${data.trouble}`) : null,
    data.trusted === false
      ? banner(frame, "warn", "Saved by someone else. Restoring runs their code. Look inside first: nothing runs for that.", {
          label: "Trust it…", run: state.trust, why: frame.why() })
      : null,
    state.waits ? banner(frame, "waiting", "The column Now waits for the running cell.") : null,
    values.length ? table(frame, values, state) : null,
    ...lines.map((/** @type {[string, string[]]} */ [name, names]) => dom.make("p", { class: "nb-facts" }, dom.make("b", { text: `${name}: ` }), names.join(", "))),
    files(frame, data.files ?? {}),
    ...notes(data).map((text) => dom.make("p", { class: "nb-facts", text })),
    ...folds(frame, data),
  );
}

/** @param {Frame} frame @param {import("./dom.js").IconName} icon @param {string} text @param {any} [action] */
export function banner(frame, icon, text, action) {
  const { dom } = frame;
  return dom.make("div", { class: `nb-banner nb-banner-${icon}` }, dom.icon(icon), dom.make("span", { text }), action ? dom.button(action) : null);
}

/** @param {Message} data */
function notes(data) {
  const skipped = (data.skipped ?? []).map((/** @type {string[]} */ [name, , reason]) => `${name} (${reason})`);
  return [
    skipped.length ? `Not saved: ${skipped.join(", ")}` : "",
    data.torn?.length ? `Changed during the save, so they may mix old and new values: ${data.torn.join(", ")}` : "",
    data.deleted?.length ? `Deleted before the save: ${data.deleted.join(", ")}` : "",
    ...(data.warnings ?? []),
  ].filter(Boolean);
}

/** @param {Frame} frame @param {any[]} values @param {{ chosen: Set<string>, now: Message | null, changed: () => void }} state */
function table(frame, values, state) {
  const { dom } = frame;
  const heads = ["Variable", "Type", "Shape", "Size", "Content", "Now"];
  const all = box(dom, "All variables", values.length > 0 && values.every((value) => state.chosen.has(value.name)), (on) => {
    for (const value of values) on ? state.chosen.add(value.name) : state.chosen.delete(value.name);
    for (const each of element.querySelectorAll("tbody input")) /** @type {HTMLInputElement} */ (each).checked = on;
    state.changed();
  });
  const element = dom.make(
    "table",
    { class: "nb-values" },
    dom.make("thead", {}, dom.make("tr", {}, dom.make("th", { class: "nb-tick" }, all), ...heads.map((text, at) => dom.make("th", { scope: "col", class: at === 3 ? "nb-end" : "", text })))),
    dom.make("tbody", {}, ...values.map((value) => line(frame, value, state))),
  );
  return dom.make("div", { class: "nb-scroll", tabindex: 0, role: "region", "aria-label": "Variables" }, element);
}

/** @param {Frame} frame @param {any} value @param {{ chosen: Set<string>, now: Message | null, changed: () => void }} state */
function line(frame, value, state) {
  const { dom, format, parts } = frame;
  const now = parts.checkpoint_rows.sign(state.now?.[value.name]);
  const tick = box(dom, value.name, state.chosen.has(value.name), (on) => {
    on ? state.chosen.add(value.name) : state.chosen.delete(value.name);
    state.changed();
  });
  const picture = value.picture
    ? dom.make("img", { src: `data:image/png;base64,${value.picture}`, alt: `Picture of ${value.name}`, class: "nb-thumb" })
    : null;
  return dom.make(
    "tr",
    {},
    dom.make("td", { class: "nb-tick" }, tick),
    dom.make("th", { scope: "row" }, dom.make("code", { text: value.name })),
    dom.make("td", { class: "nb-dim", text: value.kind === "state" ? `state, ${value.type}` : value.type.replace(/^.*\./, ""), title: value.type }),
    dom.make("td", { text: value.extent, title: value.dtype || null }),
    dom.make("td", { class: "nb-end", text: value.bytes ? format.size(value.bytes) : "" }),
    dom.make("td", { class: "nb-content", title: value.text }, picture ?? dom.make("code", { text: value.text })),
    dom.make("td", { class: now.same ? "nb-dim" : "nb-differs", text: now.sign ? `${now.sign} ${now.text}` : "" }),
  );
}

/** @param {typeof import("./dom.js")} dom @param {string} label @param {boolean} checked @param {(on: boolean) => void} changed */
function box(dom, label, checked, changed) {
  const element = dom.make("input", { type: "checkbox", "aria-label": label });
  element.checked = checked;
  element.addEventListener("change", () => changed(element.checked));
  return element;
}

/** @param {Frame} frame @param {Record<string, number>} sizes */
function files(frame, sizes) {
  const { dom, format } = frame;
  const rows = Object.entries(sizes);
  if (!rows.length) return null;
  return dom.make(
    "details",
    { class: "nb-fold" },
    dom.make("summary", { text: format.count(rows.length, "file") }),
    dom.make("table", { class: "nb-values" }, dom.make("tbody", {}, ...rows.map(([path, bytes]) =>
      dom.make("tr", {}, dom.make("th", { scope: "row" }, dom.make("code", { text: path })), dom.make("td", { class: "nb-end", text: format.size(bytes) }))))),
  );
}

/** @param {Frame} frame @param {Message} data */
function folds(frame, data) {
  const { dom } = frame;
  const packages = Object.entries(data.packages ?? {}).map(([name, version]) => `${name} ${version}`);
  const differ = (data.differ ?? []).map((/** @type {string[]} */ [name, then, here]) => `${name} ${then}, here ${here}`);
  return [
    data.source ? fold(dom, `The cell${data.cell ? ` [${data.cell}]` : ""}`, data.source, true) : null,
    packages.length ? fold(dom, `Packages${differ.length ? ` (${differ.length} differ)` : ""}`, [...differ, ...packages].join("\n")) : null,
    data.notes?.length ? fold(dom, "Where it comes from", data.notes.join("\n")) : null,
  ];
}

/** @param {typeof import("./dom.js")} dom @param {string} summary @param {string} text @param {boolean} [copies] */
export function fold(dom, summary, text, copies = false) {
  const copy = dom.button({ label: "Copy", icon: "copy", quiet: true, run: () => void navigator.clipboard?.writeText(text) });
  return dom.make("details", { class: "nb-fold" }, dom.make("summary", { text: summary }), copies ? copy : null, dom.make("pre", { text, tabindex: 0 }));
}

const SIGNS = { changed: "≠", added: "+", removed: "−" };

/**
 * Draw a comparison.
 * @param {Frame} frame @param {Message} data @param {string} from @param {string} to
 * @param {{ back: (() => void) | null, against?: HTMLElement }} head `against`: chooses what it is compared with
 */
export function comparison(frame, data, from, to, { back, against }) {
  const { dom, format } = frame;
  const rows = data.rows ?? [];
  const same = data.same ? `${format.count(data.same, "variable is", "variables are")} the same.` : "";
  const unread = data.loaded ? "" : "Only digests and descriptions are compared, since you did not sign all of the values.";
  const row = (/** @type {any} */ each) =>
    dom.make("tr", {}, dom.make("td", { class: "nb-tick", title: each.change, text: SIGNS[/** @type {"changed"} */ (each.change)] ?? "≠" }),
      dom.make("th", { scope: "row" }, dom.make("code", { text: each.name })), dom.make("td", { class: "nb-wrap", text: each.details.join("; ") || each.change }));
  const pairs = (/** @type {string} */ name, /** @type {string[][]} */ list) =>
    list.length ? fold(dom, `${name} (${list.length} differ)`, list.map(([what, then, here]) => `${what}: ${then} → ${here}`).join("\n")) : null;
  return dom.make(
    "div",
    { class: "nb-card" },
    dom.make("div", { class: "nb-heading" }, back ? dom.button({ label: "Back", icon: "left", run: back, id: "back" }) : null,
      dom.make("strong", { text: `${from} → ${to}` }), dom.make("span", { text: rows.length ? format.count(rows.length, "difference") : "No difference." }), against),
    data.busy ? banner(frame, "waiting", "Waits for the running cell.") : null,
    rows.length ? dom.make("table", { class: "nb-values" }, dom.make("tbody", {}, ...rows.map(row))) : null,
    ...[same, data.is_part ? `${from} holds a part of all variables. Only this part is compared.` : "", unread]
      .filter(Boolean).map((text) => dom.make("p", { class: "nb-facts", text })),
    data.source?.length ? fold(dom, "The cells that saved them differ", data.source.join("\n")) : null,
    pairs("Packages", data.packages ?? []),
    pairs("Where they come from", data.origins ?? []),
  );
}
