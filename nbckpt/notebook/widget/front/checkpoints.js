/**
 * The pane of checkpoints: what was saved, what is in it, and how to bring it back.
 *
 * @typedef {{ [name: string]: any }} Message
 * @typedef {import("./panel.js").Frame} Frame
 * @typedef {import("./panel.js").Action} Action
 * @typedef {import("./checkpoint_rows.js").Checkpoint} Checkpoint
 * @typedef {import("./checkpoint_rows.js").Line} Line
 */

const AGAIN_MS = 2000;

/** @param {Frame} frame @returns {import("./panel.js").Pane} */
export function pane(frame) {
  const { dom, format, parts } = frame;
  const { fold, says, heading, seconds, listed } = parts.checkpoint_rows;
  const detail = parts.checkpoint_detail;
  /** @type {Map<string, Checkpoint>} */
  const known = new Map();
  /** @type {Message} */
  let head = { total: 0, of_trials: 0, size: 0, here: "", undo: "", live: {}, saving: null };
  let isThere = false;
  const filter = { find: "", trials: false, ...frame.kept("filter", "checkpoints") };
  const open = /** @type {Set<string>} */ (new Set());
  /** @type {Map<string, Message>} */
  const details = new Map();
  /** @type {{ ref: string, chosen: Set<string>, now: Message | null, waits: boolean }} */
  let shown = { ref: "", chosen: new Set(), now: null, waits: false };
  /** @type {{ ids: string[], data: Message } | null} */
  let compared = null;
  let over = false;
  let visible = false;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;

  const headline = dom.make("div", { class: "nb-heading" });
  const name = dom.make("input", { class: "nb-input", "aria-label": "Name of the checkpoint", placeholder: "name", size: 14 });
  const label = dom.make("span", { class: "nb-dim", text: "Name" });
  const only = dom.make("input", { class: "nb-input", "aria-label": "Variables to save", placeholder: "variables, all if empty", size: 22, hidden: true });
  const find = dom.make("input", { class: "nb-input nb-find", type: "search", "aria-label": "Find name, text, variable", placeholder: "Find name, text, variable…" });
  const mine = dom.make("button", { type: "button", class: "nb-chip", on: { click: () => choose(false) } });
  const trials = dom.make("button", { type: "button", class: "nb-chip", on: { click: () => choose(true) } });
  const form = dom.make("form", { class: "nb-tools nb-form", hidden: true });
  const tools = dom.make("div", { class: "nb-tools" }, find, mine, trials);
  const side = dom.make("div", { class: "nb-detail" });
  const empty = dom.make("div", { class: "nb-empty", hidden: true });
  const columns = () => parts.checkpoint_columns.columns(frame, () => head.here, unfold);
  const grid = frame.grid({
    label: "Checkpoints",
    role: "treegrid",
    id: (/** @type {Line} */ line) => line.id,
    columns: columns(),
    checks: true,
    attributes: (/** @type {Line} */ line) => ({
      class: `${line.row.ref === head.here && !line.versions ? "nb-now" : ""}${line.inside ? " nb-inside" : ""}${line.versions ? " nb-folded" : ""}`,
      "aria-level": line.inside ? "2" : "1",
      ...(line.versions ? { "aria-expanded": String(line.open) } : {}),
    }),
    onFocus: (/** @type {Line} */ line) => (line.versions ? undefined : look(line.row.ref)),
    onOpen: (/** @type {Line} */ line) => (line.versions ? unfold(line) : cover(true)),
    onSelect: () => frame.changed(),
    onMenu: (/** @type {Line} */ line, cell) => line.versions || frame.menu(cell, [...actions(), ...menu()]),
    onKey: (event, /** @type {Line} */ line) => {
      const isFold = line.versions && ((event.key === "ArrowRight" && !line.open) || (event.key === "ArrowLeft" && line.open));
      if (isFold) unfold(line);
      return Boolean(isFold);
    },
  });
  grid.element.addEventListener("click", (event) => {
    const target = /** @type {Element} */ (event.target);
    if (frame.width === "narrow" && target.closest(".nb-row:not(.nb-head, .nb-folded)") && !target.closest(".nb-check")) cover(true);
  });
  const split = dom.make("div", { class: "nb-split" }, dom.make("div", { class: "nb-list" }, grid.element), side);
  const element = dom.make("div", { class: "nb-checkpoints" }, headline, form, tools, empty, split);

  find.value = filter.find;
  find.addEventListener("input", () => {
    filter.find = find.value.trim();
    kept();
  });
  for (const field of [name, only])
    field.addEventListener("keydown", (event) => event.key === "Enter" && (event.preventDefault(), void save()));

  /** @param {Line} line */
  function unfold(line) {
    const family = parts.checkpoint_rows.family(line.row);
    open.has(family) ? open.delete(family) : open.add(family);
    draw();
  }

  const kept = () => {
    frame.store("filter", "checkpoints", filter);
    draw();
  };
  /** @param {boolean} ofTrials */
  const choose = (ofTrials) => {
    filter.trials = ofTrials;
    kept();
  };
  const rows = () => [...known.values()].sort((a, b) => (a.saved_at < b.saved_at ? 1 : -1));
  const labelOf = (/** @type {string} */ ref) => known.get(ref)?.label ?? ref.slice(0, 8);

  function draw() {
    const own = rows().filter((row) => Boolean(row.trial) === filter.trials);
    const some = filter.find ? own.filter((row) => says(row, filter.find)) : own;
    const lines = fold(some, filter.find ? new Set(some.map(parts.checkpoint_rows.family)) : open);
    grid.rows(lines);
    dom.fill(mine, `Mine ${format.whole(head.total)}`);
    dom.fill(trials, `From trials ${format.whole(head.of_trials)}`);
    mine.setAttribute("aria-pressed", String(!filter.trials));
    trials.setAttribute("aria-pressed", String(filter.trials));
    tools.hidden = isThere && known.size === 0;
    drawHeading();
    drawEmpty(own.length, some.length);
    const isGone = shown.ref && !known.has(shown.ref);
    const first = lines.find((/** @type {Line} */ line) => !line.versions);
    if (visible && (!shown.ref || isGone) && first) look(first.row.ref);
    else if (isGone) forget();
    frame.changed();
  }

  function forget() {
    shown = { ref: "", chosen: new Set(), now: null, waits: false };
    drawDetail();
  }

  function drawHeading() {
    const last = rows().find((row) => !row.trial);
    const saving = head.saving;
    const part = saving && saving.total ? saving.done / saving.total : 0;
    const again = dom.make("span", { class: "nb-heading-text" }, saving
      ? `Saving ${saving.name || "all variables"}… ${format.size(saving.done)} of ${format.size(saving.total)} `
      : isThere ? (known.size ? heading(/** @type {any} */ (head), last, format) : "") : "Waiting for the list…",
      saving ? dom.progress(part, "saved") : last ? frame.age(seconds(last.saved_at)) : null);
    const button = dom.button({ label: only.hidden || !only.value ? "Save all variables" : "Save these variables", icon: "save", primary: isThere && !known.size, run: () => void save(), why: frame.why(), id: "save" });
    const stop = dom.button({ label: "Cancel", icon: "close", run: () => void frame.act("save_cancel", []), why: frame.why(), id: "save_cancel" });
    const choosing = dom.button({ label: only.hidden ? (frame.width === "narrow" ? "Choose…" : "Choose variables…") : "All variables", quiet: true, run: () => {
      only.hidden = !only.hidden;
      only.value = "";
      drawHeading();
      (only.hidden ? name : only).focus();
    }, id: "choose" });
    const buttons = saving ? [stop] : [button, choosing];
    name.hidden = label.hidden = Boolean(saving);
    const focused = /** @type {HTMLElement | null} */ (document.activeElement);
    const inside = focused && headline.contains(focused) ? focused : null;
    const focusedId = inside?.getAttribute("data-action");
    if (!headline.firstChild) headline.append(again, dom.make("span", { class: "nb-gap" }), dom.make("span", { class: "nb-save" }, label, name, only, ...buttons));
    else {
      headline.firstChild.replaceWith(again);
      const box = /** @type {HTMLElement} */ (headline.lastChild);
      box.querySelectorAll("button").forEach((each) => each.remove());
      box.append(...buttons);
    }
    if (focusedId) /** @type {HTMLElement | null} */ (headline.querySelector(`[data-action="${focusedId}"]`))?.focus();
  }

  /** @param {number} all @param {number} found */
  function drawEmpty(all, found) {
    empty.hidden = !isThere || found > 0;
    split.hidden = !empty.hidden;
    if (empty.hidden) return;
    if (all) {
      dom.fill(empty, dom.make("p", { text: `No checkpoint matches “${filter.find}”.` }), dom.button({ label: "Clear", run: () => ((find.value = filter.find = ""), kept()), id: "clear" }));
    } else if (filter.trials) {
      dom.fill(empty, dom.make("p", { text: "No trial has saved a checkpoint yet. A trial saves one with each report that carries one, or when you press Save checkpoint." }));
    } else {
      const { count: number, size } = head.live ?? {};
      dom.fill(empty, dom.make("p", { text: "Nothing saved yet. Saving keeps your variables when the kernel dies: write a name, and press Save all variables." }),
        number ? dom.make("p", { class: "nb-dim", text: `${format.count(number, "variable")} now${size ? `, about ${format.size(size)} of arrays and tables` : ""}.` }) : null);
    }
  }

  async function save() {
    const names = only.hidden ? [] : only.value.split(/[\s,]+/).filter(Boolean);
    if (names.length && !name.value.trim()) return frame.say("First write a name.", "error");
    const answer = await frame.act("save", [], { name: name.value.trim(), names });
    if (answer?.ok) name.value = only.value = "";
  }

  /** Show a checkpoint beside the list. @param {string} ref */
  function look(ref) {
    if (shown.ref === ref && !compared) return;
    compared = null;
    shown = { ref, chosen: new Set(), now: null, waits: false };
    drawDetail();
    void read();
    frame.changed();
  }

  async function read() {
    const { ref } = shown;
    if (!ref || frame.why()) return;
    if (!details.has(ref)) {
      const answer = await frame.ask("checkpoint", [ref]);
      if (answer?.data) details.set(ref, { ...answer.data, html: answer.html });
      if (shown.ref !== ref) return;
      if (answer && !answer.data?.ref) details.set(ref, { ref, label: labelOf(ref), trouble: answer.text ?? "it cannot be read", variables: [] });
      drawDetail();
    }
    await compareNow();
  }

  /** Ask how the live variables differ. While a cell uses them, ask again later. */
  async function compareNow() {
    clearTimeout(timer);
    const { ref } = shown;
    if (!visible || !details.get(ref)?.variables?.length || frame.why()) return;
    const answer = await frame.ask("checkpoint", [ref], { now: true });
    if (shown.ref !== ref || !answer?.data) return;
    const waits = Boolean(answer.data.busy);
    if (waits) timer = setTimeout(() => void compareNow(), AGAIN_MS);
    if (waits === shown.waits && JSON.stringify(answer.data.now) === JSON.stringify(shown.now)) return;
    shown.waits = waits;
    shown.now = answer.data.now ?? shown.now;
    drawDetail();
  }

  function drawDetail() {
    const back = frame.width === "narrow" ? () => cover(false) : null;
    if (compared) return dom.fill(side, detail.comparison(frame, compared.data, labelOf(compared.ids[0]), compared.ids[1] ? labelOf(compared.ids[1]) : "now", back ?? (() => ((compared = null), drawDetail()))));
    const data = details.get(shown.ref);
    if (!data) return dom.fill(side, shown.ref ? dom.make("p", { class: "nb-facts", text: frame.why() || "Opening…" }) : null);
    const scroll = side.scrollTop;
    dom.fill(side, detail.checkpoint(frame, { ...data, label: labelOf(shown.ref) }, { ...shown, changed: frame.changed, trust: () => void trust(), back }));
    side.scrollTop = scroll;
  }

  /** In a narrow panel, show the detail over the list. @param {boolean} on */
  function cover(on) {
    over = on;
    split.dataset.shows = frame.width === "narrow" ? (over ? "detail" : "list") : "";
    element.classList.toggle("nb-covered", split.dataset.shows === "detail");
    if (over) drawDetail();
  }

  async function compare() {
    const ids = picked().sort((a, b) => ((known.get(a)?.saved_at ?? "") < (known.get(b)?.saved_at ?? "") ? -1 : 1));
    const wanted = ids.length === 2 ? ids : [shown.ref];
    const answer = await frame.ask("compare", wanted);
    if (!answer?.data?.refs && !answer?.data?.busy) return frame.say(answer?.text ?? "They cannot be compared.", "error");
    compared = { ids: wanted, data: answer.data };
    drawDetail();
    cover(true);
    if (answer.data.busy) setTimeout(() => compared?.data.busy && void compare(), AGAIN_MS);
  }

  async function trust() {
    const answer = await frame.deed("trust", [shown.ref]);
    if (answer?.ok) renew();
  }

  /** Restore in two steps. Variables that share data with chosen ones can come along. */
  async function restore() {
    const { ref, chosen } = shown;
    const names = [...chosen];
    const plan = await frame.act("restore", [ref], { dry: true, names });
    if (!plan) return;
    if (!plan.ok) return frame.say(String(plan.text), "error");
    const also = /** @type {string[]} */ (plan.data?.also ?? []);
    if (also.length && names.length && (await frame.confirm({ text: `Also restore ${listed(also)}? ${also.length > 1 ? "They share" : "It shares"} data with ${listed(names)}.`, button: `With ${listed(also, 3)}`, cancel: `Only ${listed(names, 3)}` }))) {
      also.forEach((each) => chosen.add(each));
      return restore();
    }
    if (!(await frame.confirm({ text: String(plan.text), button: plan.confirm || "Restore" }))) return;
    await frame.act("restore", [ref], { names });
    renew();
  }

  /** What is known of live variables and signatures may be wrong now. */
  function renew() {
    details.delete(shown.ref);
    void read();
  }

  async function remove() {
    const ids = picked().length ? picked() : [shown.ref];
    await frame.deed("delete", ids, {}, { danger: true });
    grid.select([]);
  }

  /** A form of one field for an entry of the menu. @param {string} label @param {string} placeholder @param {string} button @param {(text: string) => Promise<unknown>} run */
  function ask(label, placeholder, button, run) {
    const field = dom.make("input", { class: "nb-input", "aria-label": label, placeholder, size: 28 });
    const close = () => ((form.hidden = true), void find.focus());
    form.onsubmit = (event) => {
      event.preventDefault();
      void run(field.value.trim()).then(() => (form.hidden = true));
    };
    dom.fill(form, dom.make("label", {}, `${label} `, field), dom.make("button", { type: "submit", class: "nb-button", text: button }), dom.button({ label: "Cancel", run: close }));
    form.hidden = false;
    field.focus();
  }

  /** The references of the ticked rows; a folded line stands for its newest version. */
  const picked = () => [...grid.selected].filter((id) => known.has(id));

  /** @returns {Partial<Action>[]} */
  function actions() {
    if (split.hidden) return [];
    const ids = picked();
    const undo = head.undo ? { label: "Undo", icon: /** @type {const} */ ("undo"), run: () => void frame.act("undo", []).then(renew), kernel: true, title: `Undo the ${head.undo}`, id: "undo-last" } : null;
    const erase = { label: ids.length > 1 ? `Delete ${ids.length}…` : "Delete…", icon: /** @type {const} */ ("trash"), run: () => void remove(), kernel: true, id: "delete" };
    if (ids.length >= 2) {
      const why = ids.length > 2 ? "Select two to compare them." : "";
      return [{ text: `${ids.length} selected` }, { label: "Compare", icon: "compare", primary: true, run: () => void compare(), kernel: true, why, id: "compare" },
        { label: "Clear", run: () => grid.select([]), id: "clear-selection" }, { gap: true }, ...(undo ? [undo] : []), erase];
    }
    const row = known.get(shown.ref);
    if (!row) return undo ? [{ gap: true }, undo] : [{ text: known.size ? "Click a row to see what is in it." : "" }];
    const data = details.get(shown.ref);
    const number = data?.variables?.length ?? row.count;
    const many = shown.chosen.size || number;
    const why = row.trouble ? "It is damaged." : row.trusted ? "" : "Saved by someone else: press Trust it… first.";
    return [
      { text: shown.chosen.size ? `${row.label}: ${shown.chosen.size} of ${format.count(number, "variable")}` : row.label },
      { label: many ? `Restore ${shown.chosen.size ? "" : "all "}${format.count(many, "variable")}…` : "Restore…", icon: "restore", primary: true, run: () => void restore(), kernel: true, why, id: "restore" },
      { label: "Show differences", icon: "compare", run: () => void compare(), kernel: true, why: row.trouble ? "It is damaged." : "", title: "Compare it with the live variables", id: "differences" },
      { gap: true },
      ...(undo ? [undo] : []),
      erase,
    ];
  }

  /** @returns {Action[]} */
  function menu() {
    const one = shown.ref && known.has(shown.ref) ? labelOf(shown.ref) : "";
    const why = frame.why() || undefined;
    const none = why || (one ? undefined : "Click a row first.");
    return [
      { label: one ? `Name ${one}…` : "Name it…", icon: "name", why: none, run: () => ask(`One more name for ${one}`, "name", "Name it", (text) => frame.act("tag", [shown.ref], { name: text })) },
      { label: "Write it to a file…", icon: "save", why: none, run: () => ask(`Write ${one} to`, "cleaned.ckpt", "Write file", (text) => frame.act("export", [shown.ref], { file: text })) },
      { label: "Import a file…", icon: "add", why, run: () => ask("Import from", "cleaned.ckpt", "Import", (text) => frame.act("import", [], { file: text })) },
      { label: "Verify all data", icon: "done", why, run: () => (frame.say("Reading all data…", "plain"), void frame.act("verify", [])) },
      { label: "Free space…", icon: "trash", why, run: () => void frame.deed("free", [], {}, { danger: true }) },
    ];
  }

  /** @param {Message} message */
  function heard(message) {
    if (message.kind !== "checkpoints") return;
    isThere = true;
    const { rows: changed, gone, from, reset, ...rest } = message;
    head = rest;
    if (reset && from === 0) known.clear();
    for (const ref of gone ?? []) known.delete(ref);
    for (const row of changed ?? []) {
      known.set(row.ref, row);
      if (details.get(row.ref)?.trusted !== row.trusted) details.delete(row.ref);
    }
    draw();
    if (visible && changed?.length && !reset) void compareNow();
  }

  /** @param {string} key */
  function pressed(key) {
    if (key === "find") return find.focus(), true;
    if (key === "compare" && (picked().length === 2 || shown.ref)) return void compare(), true;
    if (key === "delete" && (shown.ref || picked().length)) return void remove(), true;
    if (key === "checkpoint") return name.focus(), true;
    if (key !== "escape") return false;
    if (!form.hidden) return (form.hidden = true);
    if (compared) return (compared = null), drawDetail(), true;
    if (over && frame.width === "narrow") return cover(false), grid.goto(shown.ref), true;
    if (filter.find) return (find.value = filter.find = ""), kept(), true;
    return grid.selected.size > 0 && (grid.select([]), true);
  }

  return {
    id: "checkpoints",
    title: "Checkpoints",
    element,
    count: () => (isThere ? format.whole(head.total) : ""),
    follow: () => ({}),
    message: heard,
    actions,
    menu,
    key: pressed,
    shown() {
      visible = true;
      frame.tall(true);
      draw();
      void read();
    },
    standing: () => (drawHeading(), drawDetail()),
    hidden: () => ((visible = false), clearTimeout(timer)),
    resized() {
      grid.columns(columns());
      drawHeading();
      cover(over);
      drawDetail();
    },
    close: () => clearTimeout(timer),
  };
}
