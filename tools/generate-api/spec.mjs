import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { eitherOr, groupOfPackage, groupOrder, jsonMessageKinds, jsonMessages, primitives, unwatched } from './facts.mjs';

/**
 * The fact tables as one value.
 * `definitions`: id (`apps/v1.Deployment`, `v1.Pod` for core as `core/v1.Pod`, `meta/v1.ObjectMeta`) ->
 *   { id, group, version, name, gvks, required: Set, properties: [{ name, type }] }, sorted by id.
 * A type is { base, ref?, items?, values?, ...list and patch attributes }.
 */
export async function readSpec(dir) {
  const json = async (name) => JSON.parse(await readFile(join(dir, name), 'utf8'));
  const openapi = await json('openapi-definitions-v1.36.json');
  const protobuf = await json('protobuf-fields-v1.36.json');
  const tsv = await readFile(join(dir, 'api-resources-v1.36.tsv'), 'utf8');

  const definitions = new Map();
  for (const key of Object.keys(openapi)) addDefinition(definitions, idOf(key), fromOpenapi(openapi[key]));
  for (const [pkg, names] of Object.entries(jsonMessages)) {
    for (const name of names) addDefinition(definitions, idOf(`io.${pkg}.${name}`), fromProtobuf(protobuf[`${pkg}.${name}`], name, pkg));
  }
  return { definitions: new Map([...definitions].sort(([a], [b]) => (a < b ? -1 : 1))), openapi, protobuf, resources: readResources(tsv) };
}

const isList = (d) =>
  d.gvks.length > 0 && d.properties.some((p) => p.name === 'items') && d.properties.some((p) => p.type.ref === 'meta/v1.ListMeta');

function addDefinition(definitions, id, body) {
  const at = id.lastIndexOf('.');
  const slash = id.indexOf('/');
  const definition = { id, group: id.slice(0, slash), version: id.slice(slash + 1, at), name: id.slice(at + 1), ...body };
  if (!isList(definition)) definitions.set(id, definition);
}

/** `io.k8s.api.apps.v1.Deployment` -> `apps/v1.Deployment`; the core group is spelled `core`. */
export function idOf(key) {
  const parts = key.replace('#/definitions/', '').split('.');
  const name = parts.at(-1);
  if (key.includes('apimachinery')) return `meta/v1.${name}`;
  const version = parts.at(-2);
  const pkg = parts.at(-3);
  const group = groupOfPackage[pkg] ?? `${pkg}.k8s.io`;
  return `${group === '' ? 'core' : group}/${version}.${name}`;
}

function fromOpenapi(schema) {
  const required = new Set(schema.required ?? []);
  return {
    gvks: schema['x-kubernetes-group-version-kind'] ?? [],
    mapType: schema['x-kubernetes-map-type'],
    properties: Object.entries(schema.properties ?? {}).map(([name, s]) => ({ name, required: required.has(name), type: typeOf(s) })),
  };
}

function typeOf(s) {
  const attributes = {
    listType: s['x-kubernetes-list-type'],
    listMapKeys: s['x-kubernetes-list-map-keys'],
    mapType: s['x-kubernetes-map-type'],
    patchStrategy: s['x-kubernetes-patch-strategy']?.split(','),
    patchMergeKey: s['x-kubernetes-patch-merge-key'],
  };
  if (s.$ref !== undefined) return { ...named(idOf(s.$ref)), ...attributes };
  if (s.type === 'array') return { base: 'array', items: typeOf(s.items), ...attributes };
  if (s.type === 'object')
    return s.additionalProperties ? { base: 'map', values: typeOf(s.additionalProperties), ...attributes } : { base: 'any' };
  if (s.type === 'integer') return { base: s.format };
  if (s.type === 'number') return { base: 'double' };
  if (s.type === 'boolean') return { base: 'bool' };
  return { base: s.format === 'byte' ? 'bytes' : 'string', ...attributes };
}

function named(id) {
  const base = primitives[id] ?? (eitherOr[id] && 'any');
  return { base: base ?? 'object', ref: id };
}

function fromProtobuf(fields, name, pkg) {
  const kind = jsonMessageKinds.has(name);
  const id = idOf(`io.${pkg}.x`);
  const group = id.slice(0, id.indexOf('/'));
  const string = { base: 'string' };
  return {
    gvks: kind ? [{ group: group === 'core' || group === 'meta' ? '' : group, version: pkg.split('.').at(-1), kind: name }] : [],
    properties: [
      ...(kind
        ? [
            { name: 'apiVersion', required: false, type: string },
            { name: 'kind', required: false, type: string },
          ]
        : []),
      ...Object.entries(fields).map(([field, [, type]]) => ({ name: field, required: false, type: protobufType(type) })),
    ].sort((a, b) => (a.name < b.name ? -1 : 1)),
  };
}

function protobufType(type) {
  if (type.startsWith('repeated ')) return { base: 'array', items: protobufType(type.slice(9)), listType: 'atomic' };
  const map = /^map<string,(.*)>$/.exec(type);
  if (map) return { base: 'map', values: protobufType(map[1]) };
  return type.startsWith('k8s.io.') ? named(idOf(`io.${type}`)) : { base: type };
}

function readResources(tsv) {
  const rows = tsv
    .trim()
    .split('\n')
    .slice(1)
    .map((line) => {
      const [group, version, path, gvk, scope, verbs, served] = line.split('\t');
      const [resource, subresource] = path.split('/');
      const [gv, kind] = gvk.split(' ');
      const [kindGroup, kindVersion] = gv.includes('/') ? gv.split('/') : ['', gv];
      return {
        group,
        version,
        resource,
        subresource,
        kind,
        kindGroup,
        kindVersion,
        namespaced: scope === 'Namespaced',
        verbs: verbs.split(',').filter((verb) => verb !== 'watch' || !unwatched.has(resource)),
        served: served === 'default',
      };
    });
  const order = (r) => {
    const at = groupOrder.indexOf(r.group);
    if (at < 0) throw new Error(`group ${r.group} has no place in groupOrder`);
    return at;
  };
  return rows.sort(
    (a, b) =>
      order(a) - order(b) ||
      compareVersions(a.version, b.version) ||
      compare(a.resource, b.resource) ||
      compare(a.subresource ?? '', b.subresource ?? ''),
  );
}

const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
/** Stable before beta before alpha, then the higher number first. */
export function compareVersions(a, b) {
  const rank = (v) => {
    const [, major, stage, minor] = /^v(\d+)(?:(alpha|beta)(\d+))?$/.exec(v);
    return [stage === undefined ? 2 : stage === 'beta' ? 1 : 0, Number(major), Number(minor ?? 0)];
  };
  const [x, y] = [rank(a), rank(b)];
  return y[0] - x[0] || y[1] - x[1] || y[2] - x[2];
}

/** `apps/v1` -> `apps-v1`, `rbac.authorization.k8s.io/v1` -> `rbac-v1`. */
export const fileOf = (group, version) => `${group === '' ? 'core' : group.split('.')[0]}-${version}`;

/** (`ReplicaSet`, `replicasets`) -> `replicaSets`; (`CSIDriver`, `csidrivers`) -> `csiDrivers`. */
export function camelPlural(kind, resource) {
  const camel = kind.replace(/^([A-Z]+)(?=[A-Z][a-z])|^([A-Z])/, (head) => head.toLowerCase());
  let common = 0;
  while (common < camel.length && camel[common].toLowerCase() === resource[common]) common++;
  return camel.slice(0, common) + resource.slice(common);
}
