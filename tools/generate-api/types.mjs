import { eitherOr } from './facts.mjs';
import { fileOf } from './spec.mjs';

/** Written by hand beside the generated zone; meta-v1 passes them on. */
const handWritten = {
  ObjectMeta: 'object',
  OwnerReference: 'object',
  ManagedFieldsEntry: 'object',
  ListMeta: 'object',
  Time: 'object',
  Status: 'status',
  StatusCause: 'status',
  StatusDetails: 'status',
};
const aliases = {
  Quantity: 'string | number',
  IntOrString: 'number | string',
  MicroTime: 'string',
  RawExtension: 'unknown',
  FieldsV1: 'unknown',
  Patch: 'unknown',
  JSON: 'unknown',
};
const scalars = { string: 'string', bytes: 'string', int32: 'number', int64: 'number', double: 'number', bool: 'boolean', any: 'unknown' };

/** [['core-v1', text], ...] */
export function typeModules({ definitions }) {
  const files = new Map();
  for (const definition of definitions.values()) {
    const file = fileOf(definition.group, definition.version);
    files.set(file, [...(files.get(file) ?? []), definition]);
  }
  return [...files].sort(([a], [b]) => (a < b ? -1 : 1)).map(([file, members]) => [file, moduleText(file, members)]);
}

function moduleText(file, members) {
  const own = new Set(members.map((d) => d.name));
  const imports = new Map();
  const importFrom = (from, name) => {
    const local = own.has(name) && !(file === 'meta-v1' && from.startsWith('../../')) ? `${pascal(from)}${name}` : name;
    const names = imports.get(from) ?? new Map();
    imports.set(from, names.set(name, local));
    return local;
  };
  const refer = (id) => {
    const slash = id.indexOf('/');
    const dot = id.lastIndexOf('.');
    const name = id.slice(dot + 1);
    const target = fileOf(id.slice(0, slash), id.slice(slash + 1, dot));
    if (target === 'meta-v1' && handWritten[name]) return importFrom(`../../${handWritten[name]}.ts`, name);
    return target === file ? name : importFrom(`./${target}.ts`, name);
  };
  const render = (type) => {
    if (type.ref !== undefined) return refer(type.ref);
    if (type.base === 'array') {
      const items = render(type.items);
      return `readonly ${/[ |]/.test(items) && !items.includes('<') ? `(${items})` : items}[]`;
    }
    if (type.base === 'map') return `Readonly<Record<string, ${render(type.values)}>>`;
    return scalars[type.base];
  };
  const key = (name) => (/^[A-Za-z_]\w*$/.test(name) ? name : JSON.stringify(name));
  const body = [];
  for (const d of members) {
    if (file === 'meta-v1' && handWritten[d.name]) continue;
    if (eitherOr[d.id] || aliases[d.name]) {
      body.push(`export type ${d.name} = ${eitherOr[d.id] ?? aliases[d.name]};`);
      continue;
    }
    const isObject = d.gvks.length > 0 && d.properties.some((p) => p.name === 'metadata' && p.type.ref === 'meta/v1.ObjectMeta');
    const base = isObject ? ` extends ${importFrom('../../object.ts', 'KubeObject')}` : '';
    const inherited = isObject ? ['apiVersion', 'kind', 'metadata'] : [];
    const lines = d.properties
      .filter((p) => !inherited.includes(p.name))
      .map((p) => `  readonly ${key(p.name)}${p.required ? '' : '?'}: ${render(p.type)};`);
    if (isObject) lines.unshift(`  readonly metadata?: ${importFrom('../../object.ts', 'ObjectMeta')};`);
    body.push(
      lines.length === 0
        ? `export type ${d.name} = Readonly<Record<string, never>>;`
        : `export interface ${d.name}${base} {\n${lines.join('\n')}\n}`,
    );
  }
  const head = [...imports]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([from, names]) => {
      const list = [...names].sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, local]) => (name === local ? name : `${name} as ${local}`));
      return `import type { ${list.join(', ')} } from '${from}';`;
    });
  if (file === 'meta-v1') {
    for (const from of ['object', 'status']) {
      const names = Object.keys(handWritten)
        .filter((name) => handWritten[name] === from)
        .sort();
      head.push(`export type { ${names.join(', ')} } from '../../${from}.ts';`);
    }
  }
  return `${head.join('\n')}${head.length > 0 ? '\n\n' : ''}${body.join('\n\n')}\n`;
}

const pascal = (from) =>
  from
    .replace(/^.*\/|\.ts$/g, '')
    .split('-')
    .map((part) => part[0].toUpperCase() + part.slice(1))
    .join('');
