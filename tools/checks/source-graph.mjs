// Which source file imports which, type-only imports included.
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import ts from 'typescript';

const isSource = (file) => /^(packages|plugins)\/[^/]+\/src\/.*\.ts$/.test(file) && !/\/generated\//.test(file);
/** The folder that a file's module is: `internal/` belongs to the folder above it. */
export const moduleFolder = (file) => dirname(file).replace(/\/internal(\/.*)?$/, '');
export const packageOf = (file) => file.split('/').slice(0, 2).join('/');

/** The source file that `specifier` in `from` resolves to by the `exports` of the workspace's packages. */
function resolver(root) {
  const manifests = new Map();
  const exportsOf = (name) => {
    if (!manifests.has(name)) {
      const folder = ['packages', 'plugins']
        .map((group) => `${group}/${name}`)
        .find((each) => existsSync(join(root, each, 'package.json')));
      manifests.set(
        name,
        folder && { folder, exports: JSON.parse(readFileSync(join(root, folder, 'package.json'), 'utf8')).exports ?? {} },
      );
    }
    return manifests.get(name);
  };
  return (from, specifier) => {
    if (specifier.startsWith('.')) return normalize(join(dirname(from), specifier));
    const match = /^@oarlock\/([^/]+)\/(.+)$/.exec(specifier);
    const target = match && exportsOf(match[1]);
    if (!target) return undefined;
    const best = Object.entries(target.exports)
      .filter(([, value]) => value !== null && typeof value === 'object')
      .map(([key, value]) => ({ pattern: key.slice(2).split('*'), source: value['@oarlock/source'] }))
      .filter(({ pattern: [head, tail] }) =>
        tail === undefined
          ? match[2] === head
          : match[2].startsWith(head) && match[2].endsWith(tail) && match[2].length > head.length + tail.length - 1,
      )
      .sort((a, b) => b.pattern.join('').length - a.pattern.join('').length)[0];
    if (!best?.source) return undefined;
    const [head, tail] = best.pattern;
    const star = tail === undefined ? '' : match[2].slice(head.length, match[2].length - tail.length);
    return normalize(join(target.folder, best.source.replaceAll('*', star)));
  };
}

/** @returns {Map<string, Set<string>>} the imports of each source file among `files` */
export function sourceGraph(root, files) {
  const resolve = resolver(root);
  const graph = new Map();
  for (const file of files.filter(isSource)) {
    const { importedFiles } = ts.preProcessFile(readFileSync(join(root, file), 'utf8'), true, true);
    graph.set(
      file,
      new Set(importedFiles.map(({ fileName }) => resolve(file, fileName)).filter((each) => each !== undefined && isSource(each))),
    );
  }
  return graph;
}

/** Relative imports that leave their package: packages import each other by name, so that `exports` and manifests hold. */
export function crossPackageImports(root, files) {
  const found = [];
  for (const file of files.filter((each) => /^(packages|plugins)\/.*\.ts$/.test(each)))
    for (const { fileName } of ts.preProcessFile(readFileSync(join(root, file), 'utf8'), true, true).importedFiles)
      if (fileName.startsWith('.')) {
        const target = normalize(join(dirname(file), fileName));
        if (/^(packages|plugins)\//.test(target) && packageOf(target) !== packageOf(file)) found.push(`${file} -> ${fileName}`);
      }
  return found;
}

/** Groups of nodes that reach each other (Tarjan's strongly connected components of more than one node). */
export function cyclesOf(graph) {
  let next = 0;
  const stack = [];
  const onStack = new Set();
  const index = new Map();
  const low = new Map();
  const cycles = [];
  const visit = (node) => {
    index.set(node, next);
    low.set(node, next++);
    stack.push(node);
    onStack.add(node);
    for (const target of graph.get(node) ?? []) {
      if (!graph.has(target)) continue;
      if (!index.has(target)) {
        visit(target);
        low.set(node, Math.min(low.get(node), low.get(target)));
      } else if (onStack.has(target)) low.set(node, Math.min(low.get(node), index.get(target)));
    }
    if (low.get(node) !== index.get(node)) return;
    const group = [];
    for (;;) {
      const member = stack.pop();
      onStack.delete(member);
      group.push(member);
      if (member === node) break;
    }
    if (group.length > 1) cycles.push(group.sort());
  };
  for (const node of graph.keys()) if (!index.has(node)) visit(node);
  return cycles.sort((a, b) => b.length - a.length);
}

/** Pairs of module folders of one package that import each other, with the imports of the thinner direction. */
export function folderPairs(graph) {
  const edges = new Map();
  for (const [file, targets] of graph)
    for (const target of targets) {
      const [from, to] = [moduleFolder(file), moduleFolder(target)];
      if (from === to || !graph.has(target) || packageOf(file) !== packageOf(target)) continue;
      const key = `${from} ${to}`;
      edges.set(key, [...(edges.get(key) ?? []), `${file} -> ${target}`]);
    }
  const pairs = [];
  for (const [key, forth] of edges) {
    const [from, to] = key.split(' ');
    const back = edges.get(`${to} ${from}`);
    if (from < to && back) pairs.push({ folders: [from, to], edges: forth.length <= back.length ? forth : back });
  }
  return pairs;
}

/** Imports of a file below `internal/` from outside the folder that owns it. */
export function reachedInternals(graph) {
  const found = [];
  for (const [file, targets] of graph)
    for (const target of targets) {
      const owner = /^(.*?)\/internal\//.exec(target)?.[1];
      if (owner !== undefined && !file.startsWith(`${owner}/`)) found.push(`${file} -> ${target}`);
    }
  return found;
}

/** Entries (files and folders) of each folder below a `src`. @returns {[string, number][]} largest first */
export function folderSizes(files) {
  const entries = new Map();
  for (const file of files.filter(isSource)) {
    const parts = file.split('/');
    for (let depth = 3; depth < parts.length; depth++) {
      const folder = parts.slice(0, depth).join('/');
      if (!entries.has(folder)) entries.set(folder, new Set());
      entries.get(folder).add(parts[depth]);
    }
  }
  return [...entries].map(([folder, names]) => [folder, names.size]).sort((a, b) => b[1] - a[1]);
}
