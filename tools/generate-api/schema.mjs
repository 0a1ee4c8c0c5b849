import { eitherOr, primitives } from './facts.mjs';

/**
 * One JSON text per group and version: definition -> property -> type text.
 * A property that ends in `!` is required. A type text is a type and then attributes, apart by spaces:
 *   string bytes int32 int64 double bool time micro-time quantity int-or-string any
 *   @Name (same group and version), @apps/v1.Name, [type, {type
 *   list=atomic|set|map  keys=a,b  patch=merge,retainKeys  mergeKey=name  map=atomic
 * The empty property holds attributes of the definition itself.
 */
export function schemaModule({ definitions }) {
  const tables = new Map();
  const kinds = [];
  for (const d of definitions.values()) {
    if (primitives[d.id] || eitherOr[d.id]) continue;
    const gv = `${d.group}/${d.version}`;
    const table = tables.get(gv) ?? {};
    tables.set(gv, table);
    const body = {};
    if (d.mapType) body[''] = `map=${d.mapType}`;
    for (const p of d.properties) body[`${p.name}${p.required ? '!' : ''}`] = text(p.type, gv);
    table[d.name] = body;
    for (const { group, version, kind } of d.gvks) {
      const own = `${group === '' ? 'core' : group}/${version}.${kind}`;
      if (own !== d.id && d.group !== 'meta') kinds.push([own, d.id]);
    }
  }
  if (kinds.length > 0) throw new Error(`kinds away from their definition: ${JSON.stringify(kinds)}`);
  const lines = [...tables]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([gv, table]) => `  ${JSON.stringify(gv)}: ${quote(JSON.stringify(table))},`);
  return `/** Group and version (the core group is \`core\`, shared types are \`meta/v1\`) -> JSON text of its definitions; tools/generate-api/schema.mjs says how a type is written. */
export const schemaTable: Readonly<Record<string, string>> = {
${lines.join('\n')}
};
`;
}

export const quote = (json) => `'${json.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;

function text(type, gv) {
  const attributes = [
    type.listType && type.base === 'array' && `list=${type.listType}`,
    type.listMapKeys && `keys=${type.listMapKeys.join(',')}`,
    type.patchStrategy && `patch=${type.patchStrategy.join(',')}`,
    type.patchMergeKey && `mergeKey=${type.patchMergeKey}`,
    type.mapType && `map=${type.mapType}`,
  ].filter(Boolean);
  return [shape(type, gv), ...attributes].join(' ');
}

function shape(type, gv) {
  if (type.base === 'object') return `@${type.ref.startsWith(`${gv}.`) ? type.ref.slice(gv.length + 1) : type.ref}`;
  if (type.base === 'array') return `[${shape(type.items, gv)}`;
  if (type.base === 'map') return `{${shape(type.values, gv)}`;
  return type.base;
}
