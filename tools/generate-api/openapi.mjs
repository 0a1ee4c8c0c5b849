import { createHash } from 'node:crypto';
import { idOf } from './spec.mjs';

const rawNames = new Set([
  'RawExtension',
  'FieldsV1',
  'JSON',
  'JSONSchemaPropsOrArray',
  'JSONSchemaPropsOrBool',
  'JSONSchemaPropsOrStringArray',
]);

/** Facts of OpenAPI documents that the schema table does not hold. */
export function openapiModule({ openapi }) {
  const requiredOrders = {};
  const rawReferences = {};
  const unions = {};
  const scalarListTypes = {};
  for (const [key, schema] of Object.entries(openapi)) {
    const id = idOf(key);
    const required = schema.required ?? [];
    const order = Object.keys(schema.properties ?? {}).filter((name) => required.includes(name));
    if (required.join() !== order.join()) requiredOrders[id] = required.join();
    if (schema['x-kubernetes-unions'] !== undefined) unions[id] = JSON.stringify(schema['x-kubernetes-unions']);
    for (const [name, property] of Object.entries(schema.properties ?? {})) {
      const raw = referencesOf(property).find((reference) => rawNames.has(reference.split('.').at(-1)));
      const listType = property['x-kubernetes-list-type'];
      if (listType !== undefined && property.type !== 'array') scalarListTypes[`${id}.${name}`] = listType;
      if (raw !== undefined) rawReferences[`${id}.${name}`] = raw.split('.').at(-1);
    }
  }
  const options = openapi['io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions']['x-kubernetes-group-version-kind'];
  const groupVersions = options.map(({ group, version }) => `${group}/${version}`);
  return `/** Definition -> its required properties in upstream's order, if it is not that of the schema table. */
export const requiredOrders: Readonly<Record<string, string>> = ${text(requiredOrders)};

/** Definition and property -> the definition of its untyped values, which the schema table writes as \`any\`. */
export const rawReferences: Readonly<Record<string, string>> = ${text(rawReferences)};

/** Definition -> JSON text of its x-kubernetes-unions. */
export const unions: Readonly<Record<string, string>> = ${text(unions)};

/** Definition and property -> x-kubernetes-list-type of a property that is no list. */
export const scalarListTypes: Readonly<Record<string, string>> = ${text(scalarListTypes)};

/** The groups and versions with which DeleteOptions and WatchEvent are registered. */
export const optionGroupVersions: readonly string[] = ${JSON.stringify(groupVersions)};
`;
}

const text = (rows) => JSON.stringify(rows, undefined, 2);

function referencesOf(value) {
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, member]) => (key === '$ref' && typeof member === 'string' ? [member] : referencesOf(member)));
}

/** The SHA-256 prefix of each definition's structure: without descriptions, enums and defaults, with sorted members. */
export function structuresJson({ openapi }) {
  const rows = Object.entries(openapi).map(([name, schema]) => [name, hashOf(schema)]);
  return `${JSON.stringify(Object.fromEntries(rows.sort(([a], [b]) => (a < b ? -1 : 1))), undefined, 1)}\n`;
}

const hashOf = (schema) =>
  createHash('sha256')
    .update(JSON.stringify(structureOf(schema)))
    .digest('hex')
    .slice(0, 12);

/** The keywords of a schema that are no part of its structure. */
const otherKeywords = new Set(['description', 'enum', 'default']);

function structureOf(schema) {
  const members = Object.entries(schema)
    .filter(([key]) => !otherKeywords.has(key))
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, value]) => {
      if (key === 'properties')
        return [
          key,
          Object.fromEntries(
            Object.keys(value)
              .sort()
              .map((name) => [name, structureOf(value[name])]),
          ),
        ];
      return [key, key === 'items' || key === 'additionalProperties' ? structureOf(value) : value];
    });
  return Object.fromEntries(members);
}

/** Path -> the methods of its operations with their operation IDs, as Kubernetes publishes them for all resources. */
export function pathsJson({ resources }) {
  const paths = {};
  const add = (path, ...operations) => {
    if (operations.length > 0) paths[path] = [...(paths[path] ?? []), ...operations].sort();
  };
  for (const r of resources) {
    const root = r.group === '' ? `/api/${r.version}` : `/apis/${r.group}/${r.version}`;
    const title = `${capital(camelGroup(r.group))}${capital(r.version)}`;
    const has = (verb) => r.verbs.includes(verb);
    const inNamespace = r.namespaced ? 'Namespaced' : '';
    const collection = `${root}/${r.namespaced ? 'namespaces/{namespace}/' : ''}${r.resource}`;
    const objectOperations = (suffix) => [
      ...(has('get') ? [`get read${title}${suffix}`] : []),
      ...(has('update') ? [`put replace${title}${suffix}`] : []),
      ...(has('patch') ? [`patch patch${title}${suffix}`] : []),
    ];
    add(`${root}/`, ...(paths[`${root}/`] === undefined ? [`get get${title}APIResources`] : []));
    if (r.subresource !== undefined) {
      const parent = resources.find(
        (p) => p.subresource === undefined && p.resource === r.resource && p.group === r.group && p.version === r.version,
      );
      const suffix = `${inNamespace}${parent.kind}${capital(r.subresource)}`;
      const path = `${collection}/{name}/${r.subresource}`;
      const methods = r.subresource === 'proxy' ? ['delete', 'get', 'head', 'options', 'patch', 'post', 'put'] : ['get', 'post'];
      if (has('connect')) {
        add(path, ...methods.map((method) => `${method} connect${title}${capital(method)}${suffix}`));
        if (r.subresource === 'proxy')
          add(`${path}/{path}`, ...methods.map((method) => `${method} connect${title}${capital(method)}${suffix}WithPath`));
      } else add(path, ...(has('create') ? [`post create${title}${suffix}`] : []), ...objectOperations(suffix));
      continue;
    }
    const suffix = `${inNamespace}${r.kind}`;
    add(
      collection,
      ...(has('list') ? [`get list${title}${suffix}`] : []),
      ...(has('create') ? [`post create${title}${suffix}`] : []),
      ...(has('deletecollection') ? [`delete delete${title}Collection${suffix}`] : []),
    );
    add(`${collection}/{name}`, ...objectOperations(suffix), ...(has('delete') ? [`delete delete${title}${suffix}`] : []));
    if (r.namespaced && has('list')) add(`${root}/${r.resource}`, `get list${title}${r.kind}ForAllNamespaces`);
    if (!has('watch')) continue;
    const watched = collection.replace(`${root}/`, `${root}/watch/`);
    add(watched, `get watch${title}${suffix}List`);
    add(`${watched}/{name}`, `get watch${title}${suffix}`);
    if (r.namespaced) add(`${root}/watch/${r.resource}`, `get watch${title}${r.kind}ListForAllNamespaces`);
  }
  for (const group of new Set(resources.map((r) => r.group)))
    if (group === '') add('/api/', 'get getCoreAPIVersions');
    else add(`/apis/${group}/`, `get get${capital(camelGroup(group))}APIGroup`);
  add('/apis/', 'get getAPIVersions');
  add('/version/', 'get getCodeVersion');
  add('/.well-known/openid-configuration/', 'get getServiceAccountIssuerOpenIDConfiguration');
  add('/openid/v1/jwks/', 'get getServiceAccountIssuerOpenIDKeyset');
  add('/logs/', 'get logFileListHandler');
  add('/logs/{logpath}', 'get logFileHandler');
  return `${JSON.stringify(Object.fromEntries(Object.entries(paths).sort(([a], [b]) => (a < b ? -1 : 1))), undefined, 1)}\n`;
}

const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);
const camelGroup = (group) =>
  group === ''
    ? 'core'
    : group
        .replace(/\.k8s\.io$/, '')
        .split('.')
        .map((part, i) => (i === 0 ? part : capital(part)))
        .join('');
