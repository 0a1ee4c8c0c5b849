// The diagram in docs/architecture.md that shows which package depends on which other package, generated from their package.json files.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import boundaries from './boundaries.cjs';

const begin = '<!-- generated from packages/*/package.json: begin -->';
const end = '<!-- generated from packages/*/package.json: end -->';
const scope = '@oarlock/';

/** Returns the dependencies of each package of this repository on others, by folder name; all plugins are one node. */
export function packageDependencies(root) {
  const graph = new Map();
  const packages = readdirSync(join(root, 'packages'));
  for (const group of ['packages', 'plugins'])
    for (const name of readdirSync(join(root, group))) {
      const { dependencies = {} } = JSON.parse(readFileSync(join(root, group, name, 'package.json'), 'utf8'));
      const own = Object.keys(dependencies)
        .filter((dependency) => dependency.startsWith(scope))
        .map((dependency) => dependency.slice(scope.length))
        .filter((dependency) => packages.includes(dependency));
      const node = group === 'plugins' ? 'plugins' : name;
      graph.set(node, new Set([...(graph.get(node) ?? []), ...own]));
    }
  return graph;
}

/** Returns all packages that a package depends on, directly or not. */
function reached(graph, from, seen = new Set()) {
  for (const to of graph.get(from) ?? []) {
    if (seen.has(to)) continue;
    seen.add(to);
    reached(graph, to, seen);
  }
  return seen;
}

/** Returns the edges of an acyclic graph that no path of other edges implies. */
export function directEdges(graph) {
  return [...graph].flatMap(([from, all]) =>
    [...all].filter((to) => ![...all].some((other) => other !== to && reached(graph, other).has(to))).map((to) => [from, to]),
  );
}

/** The diagram as Markdown. The cluster loads the servers that it does not import, and the plugins, by their names. */
export function packageGraph(graph, { servers } = boundaries) {
  const id = (name) => name.replaceAll('-', '_');
  const nodes = [...graph.keys()].sort();
  const edges = directEdges(graph).sort(([a, b], [c, d]) => (a < c || (a === c && b < d) ? -1 : 1));
  const known = reached(graph, 'cluster');
  const loaded = [...servers.filter((name) => graph.has(name) && !known.has(name)), 'plugins'];
  return [
    '```mermaid',
    'flowchart BT',
    ...nodes.map((name) => `  ${id(name)}["${name === 'plugins' ? 'plugins/*' : name}"]`),
    ...edges.map(([from, to]) => `  ${id(from)} --> ${id(to)}`),
    ...loaded.map((name) => `  cluster -.->|by name| ${id(name)}`),
    '```',
  ].join('\n');
}

/** `text` with the generated part replaced. @throws Error if a marker is missing */
export function withPackageGraph(text, diagram) {
  const [from, to] = [text.indexOf(begin), text.indexOf(end)];
  if (from < 0 || to < from) throw new Error(`the markers "${begin}" and "${end}" are missing`);
  return `${text.slice(0, from + begin.length)}\n\n${diagram}\n\n${text.slice(to)}`;
}

/** Writes the diagram into docs/architecture.md. With `check`, writes nothing. @returns whether the file was current */
export function syncPackageGraph(root, { check = false } = {}) {
  const file = join(root, 'docs', 'architecture.md');
  const text = readFileSync(file, 'utf8');
  const current = withPackageGraph(text, packageGraph(packageDependencies(root)));
  if (text !== current && !check) writeFileSync(file, current);
  return text === current;
}
