/**
 * A kernel that is none: the model of a widget, fed with 60 trials, for tests in Chromium and in Node without Jupyter.
 *
 * Best is t52 with a loss of 0.1602, then t2. Five failed, whose loss shoots up; three are running.
 */

const STEPS = 100;
const FAILED = [7, 19, 33, 41, 50];
const RUNNING = { 57: 29, 58: 26, 59: 12 };
const RUNGS = [9, 27, 81];
const OPTIMIZERS = ["adam", "adamw", "rmsprop", "sgd"];
const KNOWN = {
  52: { lr: 0.0129, width: 256, depth: 1, optimizer: "rmsprop", loss: 0.1601717426998817 },
  2: { lr: 0.00742, width: 64, depth: 2, optimizer: "adamw", loss: 0.16231 },
};

/** Numbers from 0 to 1 that are the same each time. */
function random(start) {
  let state = start;
  return () => {
    state = (state * 1664525 + 1013904223) % 4294967296;
    return state / 4294967296;
  };
}

const status = (n) => (FAILED.includes(n) ? "failed" : RUNNING[n] ? "running" : "done");

/** The trials with all their points. */
export function trials(count = 60) {
  const next = random(7);
  return Array.from({ length: count }, (_, n) => {
    const lr = 10 ** (-4 + 3.6 * next());
    const drawn = { lr, width: 16 * 2 ** Math.floor(5 * next()), depth: 1 + Math.floor(4 * next()), optimizer: OPTIMIZERS[Math.floor(4 * next())] };
    const { loss, ...settings } = { ...drawn, ...KNOWN[n] };
    const end = loss ?? 0.19 + 0.35 * Math.abs(Math.log10(settings.lr) + 2) + 0.08 * next();
    return one(n, settings, end, next);
  });
}

function one(n, settings, end, next) {
  const failed = FAILED.includes(n);
  const steps = RUNNING[n] ?? (failed ? 30 + (n % 30) : STEPS);
  const y = Float64Array.from({ length: steps }, (_, step) => {
    const rate = 0.045 + 0.02 * (n % 3);
    const noise = step === STEPS - 1 ? 0 : 0.05 * (next() - 0.5) * Math.exp(-step / 60);
    return end + (2.3 - end) * (Math.exp(-rate * step) - Math.exp(-rate * (STEPS - 1))) + noise + (failed && step > steps - 8 ? (step - steps + 8) ** 2 * 0.12 : 0);
  });
  const x = Float64Array.from({ length: steps }, (_, step) => step + 1);
  const last = y[steps - 1];
  const row = {
    id: `t${n}`, n, status: status(n), why: "", settings, metrics: { loss: last, accuracy: 1 - last / 2.35 }, best: { loss: Math.min(...y) },
    step: steps, of: STEPS, left_s: RUNNING[n] ? (STEPS - steps) * 2 : null, saved: Math.floor(steps / 20) * 20, unsaved: steps % 20,
    error: failed ? (n === 19 ? "CUDA out of memory" : `RuntimeError: diverged`) : "", note: n === 2 ? "smaller, nearly as good" : "", tags: [],
    ...times(n, steps * 1.9 + n / 7),
  };
  return { row, x, seconds: x.map((step) => step * (1.5 + (n % 4) / 5)), y, accuracy: y.map((value) => 1 - value / 2.35) };
}

/** Five trials ran at a time, and those that run now are the last. */
function times(n, seconds) {
  const started = Date.now() / 1000 - (RUNNING[n] ? seconds : 3000 - 230 * Math.floor(n / 5) - 11 * (n % 5));
  return { started, ended: RUNNING[n] ? null : started + seconds, seconds };
}

const joined = (all, field) => {
  const parts = all.map((trial) => trial[field]);
  const whole = new Float64Array(parts.reduce((sum, part) => sum + part.length, 0));
  parts.reduce((at, part) => (whole.set(part, at), at + part.length), 0);
  return new DataView(whole.buffer);
};

const sparkOf = (y) => Float32Array.from({ length: Math.min(24, y.length) }, (_, at) => y[Math.round((at * (y.length - 1)) / Math.max(1, Math.min(24, y.length) - 1))]);

/** The head of the trials. */
function head(all, metric, metrics) {
  const number = (name) => all.filter((trial) => trial.row.status === name).length;
  return {
    kind: "trials", experiment: "tune", metric, mode: metric === "accuracy" ? "max" : "min", mode_is_guess: false,
    experiments: [{ name: "tune", running: number("running"), done: number("done"), failed: number("failed"), total: all.length }, { name: "first try", running: 0, done: 4, failed: 0, total: 4 }],
    metrics, settings: ["lr", "width", "depth", "optimizer"], same: { batch: 32, epochs: 100 }, total: all.length,
    summary: { running: number("running"), done: number("done"), failed: number("failed"), left_s: 240, error_groups: [{ text: "RuntimeError: diverged", count: 4 }, { text: "CUDA out of memory", count: 1 }] },
  };
}

/**
 * Make a model as a widget of the page has it.
 * @param {{ count?: number, form?: string, empty?: boolean, silent?: boolean, traits?: object, objectives?: string[], compared?: string, metrics?: string[] }} options
 *   `objectives`: such as `loss min`; `compared`: "rungs" or "generations"; `metrics`: all that are not the loss have the values of the accuracy
 */
export function fake({ count = 60, form = "panel", empty = false, silent = false, traits = {}, objectives = [], compared = "", metrics = ["loss", "accuracy"] } = {}) {
  const heard = new Map();
  const values = { form, sort: {}, filter: {}, chosen: {}, pane: "", place: "x", ...traits };
  const all = empty ? [] : trials(count);
  const kernel = { sent: [], silent, all, emit, busy: false, answers: {}, others: [] };

  function emit(message, buffers = []) {
    for (const handler of heard.get("msg:custom") ?? []) handler(structuredClone(message), buffers);
  }
  const more = { compared, objectives: objectives.map((each) => each.split(" ")).map(([metric, mode]) => ({ metric, mode })) };
  const marks = (shown) => (compared ? Object.fromEntries(shown.map((trial) => [trial.row.id, RUNGS.filter((step) => step <= trial.row.step)])) : {});
  function full(metric) {
    if (empty) return emit({ kind: "trials", experiment: "", experiments: [], metric: "", mode: "min", metrics: [], settings: [], same: {}, summary: {}, total: 0, from: 0, rows: [], reset: true });
    for (let from = 0; from < all.length; from += 500)
      emit({ ...head(all, metric, metrics), ...more, from, rows: all.slice(from, from + 500).map((trial) => trial.row), reset: from === 0 });
    lines(metric);
  }
  function lines(metric) {
    const shown = all.slice(0, 200);
    const y = metric === "accuracy" ? "accuracy" : "y";
    const ids = shown.map((trial) => trial.row.id);
    const sparks = shown.map((trial) => sparkOf(trial[y]));
    const whole = new Float32Array(sparks.flatMap((spark) => [...spark]));
    emit({ kind: "sparks", experiment: "tune", metric, ids, lengths: sparks.map((spark) => spark.length) }, [new DataView(whole.buffer)]);
    emit({ kind: "points", experiment: "tune", metric, ids, lengths: shown.map((trial) => trial.y.length), marks: marks(shown), reset: true }, [joined(shown, "x"), joined(shown, "seconds"), joined(shown, y)]);
  }
  /** Let running trials go on by a step. */
  kernel.step = () => {
    const running = all.filter((trial) => trial.row.status === "running");
    for (const trial of running) {
      trial.row = { ...trial.row, step: trial.row.step + 1 };
      const more = (array, value) => Float64Array.from([...array, value]);
      trial.x = more(trial.x, trial.row.step);
      trial.seconds = more(trial.seconds, trial.row.step * 1.5);
      trial.y = more(trial.y, trial.y.at(-1) * 0.98);
      trial.row.metrics = { ...trial.row.metrics, loss: trial.y.at(-1) };
    }
    const ids = running.map((trial) => trial.row.id);
    emit({ ...head(all, "loss", metrics), ...more, from: 0, rows: running.map((trial) => trial.row), reset: false });
    emit({ kind: "points", experiment: "tune", metric: "loss", ids, lengths: running.map((trial) => trial.y.length), marks: marks(running), reset: false }, [joined(running, "x"), joined(running, "seconds"), joined(running, "y")]);
  };
  const page = (of, ids, more = "") => `<h3>${of} ${ids.join(", ")}</h3><p>A page of the kernel.${more}</p><table><tr><th>lr</th><td>0.0129</td></tr></table>`;
  const few = (y) => Array.from({ length: Math.min(24, y.length) }, (_, at) => Math.round((at * (y.length - 1)) / Math.max(1, Math.min(24, y.length) - 1)));
  const courseOf = (id, name) => {
    const y = all.find((trial) => trial.row.id === id)[name === "loss" ? "y" : "accuracy"];
    return [few(y).map((at) => at + 1), few(y).map((at) => y[at])];
  };
  const curves = (ids, names) => Object.fromEntries(names.map((name) => [name, Object.fromEntries(ids.map((id) => [id, courseOf(id, name)]))]));
  const MEDIA = { t52: { sample: [20, 40, 60] }, t2: { sample: [20, 80], note: [10] } };
  const mediaOf = (ids) => {
    const names = new Set(ids.flatMap((id) => Object.keys(MEDIA[id] ?? {})));
    return Object.fromEntries([...names].map((name) => [name, [...new Set(ids.flatMap((id) => MEDIA[id]?.[name] ?? []))].sort((a, b) => a - b)]));
  };
  const told = (ids) => {
    const { row } = all.find((trial) => trial.row.id === ids[0]) ?? {};
    const checkpoints = Array.from({ length: Math.floor((row?.step ?? 0) / 10) }, (_, at) => ({ step: 10 * (at + 1), saved_at: 0 }));
    return { media: mediaOf(ids), checkpoints, error: row?.error ? `Traceback\n${row.error}` : "" };
  };
  const moreOf = (id) => `Now at ${all.find((trial) => trial.row.id === id)?.row.step}.</p><details><summary>Log</summary><pre>line</pre></details><p>`;
  const detail = ({ n, of, ids, options }) => ({
    kind: "detail", n, ok: true, html: of === "trial" ? page(of, ids, moreOf(ids[0])) : "",
    data: {
      curves: () => ({ curves: curves(ids, options.names) }), steps: () => ({ media: mediaOf(ids) }), trial: () => told(ids),
      media: () => ({ pages: Object.fromEntries(ids.map((id) => [id, page(of, [id], ` Step ${options.step}.`)])) }),
    }[of]?.() ?? {},
  });
  const acted = ({ n, verb, ids, options }) => {
    const doing = `${verb} ${ids.join(", ") || "all"}`;
    return options?.dry
      ? { kind: "answer", n, ok: true, text: `${doing}? They cannot go on later. Their checkpoints are kept.`, confirm: `${verb} ${ids.length || "all"}`, undo: false, html: "" }
      : { kind: "answer", n, ok: true, text: `Done: ${doing}.`, undo: verb === "restore", html: "" };
  };
  function answer(message) {
    kernel.sent.push(message);
    if (kernel.silent) return;
    if (message.kind === "ping") emit({ kind: "pong", n: message.n, time: Date.now() / 1000, busy: kernel.busy });
    else if (message.kind === "follow" && message.pane && (message.pane === "trials" || message.pane === "live")) full(message.metric || "loss");
    else if (message.kind === "detail") emit(kernel.answers.detail?.(message) ?? detail(message));
    else if (message.kind === "act") emit(kernel.answers.act?.(message) ?? acted(message));
    for (const other of kernel.others) other(message, emit);
  }
  return {
    kernel,
    get: (name) => values[name],
    set: (name, value) => void (values[name] = value),
    save_changes: () => void (kernel.saved = structuredClone(values)),
    on: (event, handler) => void heard.set(event, [...(heard.get(event) ?? []), handler]),
    off: (event, handler) => void heard.set(event, (heard.get(event) ?? []).filter((each) => each !== handler)),
    send: (message) => void setTimeout(() => answer(structuredClone(message)), 1),
    /** As if the kernel had gone. */
    end: () => heard.get("comm_live_update")?.forEach((handler) => handler()),
  };
}
