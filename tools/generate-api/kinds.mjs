import { categories, groupOrder, shortNames } from './facts.mjs';

/** Rows of discovery facts, grouped by group and version in discovery order. */
export function kindsModule({ resources }) {
  const rows = resources
    .filter((r) => r.subresource === undefined)
    .map((r) => {
      const subresources = resources.filter(
        (s) => s.subresource !== undefined && s.group === r.group && s.version === r.version && s.resource === r.resource,
      );
      return [
        r.group,
        r.version,
        r.resource,
        r.kind,
        r.namespaced ? 1 : 0,
        r.served ? 1 : 0,
        r.verbs.join(','),
        (shortNames[r.resource] ?? []).join(','),
        Object.keys(categories)
          .filter((c) => categories[c].includes(r.resource))
          .join(','),
        subresources.map((s) => [s.subresource, s.kind, s.kindGroup, s.kindVersion, s.verbs.join(',')]),
      ];
    });
  for (const name of [...Object.keys(shortNames), ...Object.values(categories).flat()]) {
    if (!rows.some((row) => row[2] === name)) throw new Error(`facts name an unknown resource: ${name}`);
  }
  const groups = groupOrder.map((group) => [group, [...new Set(resources.filter((r) => r.group === group).map((r) => r.version))]]);
  return `export type SubresourceRow = readonly [name: string, kind: string, group: string, version: string, verbs: string];
export type KindRow = readonly [
  group: string, version: string, resource: string, kind: string, namespaced: 0 | 1, served: 0 | 1, verbs: string, shortNames: string, categories: string,
  subresources: readonly SubresourceRow[],
];

/** Groups in discovery order, the versions of each in order of preference. */
export const groupRows: readonly (readonly [group: string, versions: readonly string[]])[] = [
${groups.map((g) => `  ${JSON.stringify(g)},`).join('\n')}
];

export const kindRows: readonly KindRow[] = [
${rows.map((row) => `  ${JSON.stringify(row)},`).join('\n')}
];
`;
}
