// Gets the modules of the panel from the kernel, once a page and version. See docs/decisions/0100.
/** @type {Map<string, any>} */
const KEPT = (/** @type {any} */ (globalThis)[Symbol.for("nbckpt.parts")] ??= new Map());

const GONE = ["comm_live_update", "comm:close", "destroy"];

/** @param {ArrayBuffer} bytes */
const code = async (bytes) => {
  const url = URL.createObjectURL(new Blob([bytes], { type: "text/javascript" }));
  try {
    return await import(/* webpackIgnore: true */ url);
  } finally {
    URL.revokeObjectURL(url);
  }
};

/** @param {any} model @param {string} name @returns {Promise<any>} */
const part = (model, name) => {
  const key = name + model.get("version");
  return KEPT.get(key) ?? new Promise((done) => {
    model.on("msg:custom", function hear(/** @type {any} */ said, /** @type {any} */ [bytes]) {
      if (said.kind !== "part" || said.name !== name) return;
      model.off("msg:custom", hear);
      asked.forEach(clearTimeout);
      // Kept only now: nobody waits for the part of a panel that has gone.
      if (!KEPT.has(key)) KEPT.set(key, name.endsWith(".js") ? code(bytes) : new TextDecoder().decode(bytes));
      done(KEPT.get(key));
    });
    // Again, if need be: what is sent while the kernel makes the thread for messages waits for the running cell.
    const asked = [0, 500, 2000].map((wait) => setTimeout(() => model.send({ kind: "part", name }), wait));
    for (const gone of GONE) model.on(gone, () => asked.forEach(clearTimeout));
  });
};

export default {
  /** @param {{ model: any }} given */
  initialize({ model }) {
    const get = (/** @type {string} */ name) => part(model, name);
    get("mount.js").then((it) => it.mount({ model, part: get, gone: GONE }), console.error);
  },
};
