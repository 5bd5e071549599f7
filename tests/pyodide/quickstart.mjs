// Runs a Python script under Pyodide: node quickstart.mjs PYODIDE SITE SCRIPT
// PYODIDE is the npm package's folder, SITE a folder of Python packages.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [pyodide, site, script] = process.argv.slice(2);
const { loadPyodide } = await import(pathToFileURL(`${pyodide}/pyodide.mjs`));
const python = await loadPyodide({ indexURL: pyodide });
python.FS.mkdir("/site");
python.FS.mount(python.FS.filesystems.NODEFS, { root: site }, "/site");
python.runPython("import sys; sys.path.insert(0, '/site')");
python.runPython(readFileSync(script, "utf8"), { filename: script });
