import { camelPlural, fileOf } from './spec.mjs';

/** One `Resource<T>` constant per resource and version. */
export function resourcesModule({ resources, definitions }) {
  const main = resources.filter((r) => r.subresource === undefined);
  const preferred = new Map();
  for (const r of main) if (r.served && !preferred.has(`${r.resource}.${r.group}`)) preferred.set(`${r.resource}.${r.group}`, r.version);
  const imports = new Map();
  const used = new Set();
  const lines = main.map((r) => {
    const plain = camelPlural(r.kind, r.resource);
    const suffix = r.version[0].toUpperCase() + r.version.slice(1);
    const isPlain = preferred.get(`${r.resource}.${r.group}`) === r.version && !used.has(plain);
    const name = isPlain ? plain : `${plain}${suffix}`;
    if (used.has(name)) throw new Error(`two resources are called ${name}`);
    used.add(name);
    const file = fileOf(r.group, r.version);
    const type = r.kind + pascal(file);
    if (!definitions.has(`${r.group === '' ? 'core' : r.group}/${r.version}.${r.kind}`))
      throw new Error(`no definition for ${r.kind} in ${file}`);
    imports.set(file, [...(imports.get(file) ?? []), `${r.kind} as ${type}`]);
    return `export const ${name} = resource<${type}>('${r.group}', '${r.version}', '${r.resource}', '${r.kind}', ${r.namespaced});`;
  });
  const head = [...imports]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([file, names]) => `import type { ${names.join(', ')} } from './types/${file}.ts';`);
  return `import { resource } from '../resource.ts';\n${head.join('\n')}\n\n${lines.join('\n')}\n`;
}

const pascal = (file) =>
  file
    .split('-')
    .map((part) => part[0].toUpperCase() + part.slice(1))
    .join('');
