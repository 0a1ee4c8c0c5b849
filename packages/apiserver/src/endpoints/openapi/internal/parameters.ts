import { createHash } from 'node:crypto';
import type { Schema } from '@oarlock/api/schema/schema';
import type { Json, OpenApiVersion } from './definition-names.ts';

/** A parameter in the path or in the query of an operation. */
export interface Parameter {
  readonly name: string;
  readonly in: 'path' | 'query';
  readonly type: 'string' | 'integer' | 'boolean';
  readonly description?: string;
}

type QueryType = Exclude<Parameter['type'], 'string'>;
const query = (name: string, description: string, type: QueryType | 'string' = 'string'): Parameter => ({
  name,
  in: 'query',
  type,
  description,
});

export const pretty = query('pretty', "If 'true', the response is indented. Defaults to 'false', except for browsers, curl and wget.");
export const listParameters: readonly Parameter[] = [
  query('allowWatchBookmarks', 'Requests watch events of type BOOKMARK. Ignored if this is not a watch.', 'boolean'),
  query(
    'continue',
    'The continue token of the previous page. A token that expired is answered with 410 Expired. Not supported by watches.',
  ),
  query('fieldSelector', 'Restricts the list of returned objects by their fields. Defaults to everything.'),
  query('labelSelector', 'Restricts the list of returned objects by their labels. Defaults to everything.'),
  query('limit', 'The maximum number of objects of one page. A page with more objects behind it has a continue token.', 'integer'),
  query('resourceVersion', 'Determines from which resource versions a request may be served. Defaults to unset.'),
  query('resourceVersionMatch', 'Determines how resourceVersion is applied to lists: Exact or NotOlderThan. Defaults to unset.'),
  query('sendInitialEvents', 'If true, a watch begins with the current objects and a bookmark that ends them.', 'boolean'),
  query('shardSelector', 'Selects the objects of one shard of the collection. Defaults to everything.'),
  query('timeoutSeconds', 'The timeout of the list or watch in seconds, regardless of any activity.', 'integer'),
  query(
    'watch',
    'Watch for changes to the described resources: the response is a stream of added, modified and deleted events.',
    'boolean',
  ),
];
const dryRun = query('dryRun', "If 'All', the request is processed by all stages, but nothing is persisted.");
const fieldManager = query('fieldManager', 'The name of the actor that makes the changes. At most 128 printable characters.');
const fieldValidation = query(
  'fieldValidation',
  'How unknown and duplicate fields are handled: Ignore drops them, Warn also sends a warning, Strict rejects the request. Defaults to Warn.',
);
const force = query('force', 'Forces the apply: the user becomes the manager of conflicting fields. Only for apply patches.', 'boolean');
export const writeParameters: readonly Parameter[] = [dryRun, fieldManager, fieldValidation];
const patchManager = query(
  'fieldManager',
  'The name of the actor that makes the changes. Required for apply patches, optional for other patches. At most 128 printable characters.',
);
export const patchParameters: readonly Parameter[] = [dryRun, patchManager, fieldValidation, force];
export const deleteParameters: readonly Parameter[] = [
  dryRun,
  query(
    'gracePeriodSeconds',
    'The number of seconds before the object is deleted. 0 deletes it immediately. Defaults to the value of the object.',
    'integer',
  ),
  query(
    'ignoreStoreReadErrorWithClusterBreakingPotential',
    'If true, an object that cannot be read from storage is deleted without finalizers and preconditions.',
    'boolean',
  ),
  query('orphanDependents', 'Deprecated: use propagationPolicy. If true, the dependents are orphaned.', 'boolean'),
  query('propagationPolicy', 'How dependents are deleted: Orphan, Background or Foreground.'),
];
export const deleteCollectionParameters: readonly Parameter[] = [
  ...deleteParameters,
  ...listParameters.filter(({ name }) => name !== 'watch' && name !== 'allowWatchBookmarks'),
];

/** The descriptions of the options of connections to pods, services and nodes. */
const optionDescriptions: Readonly<Record<string, string>> = {
  command: 'The command to execute, and its arguments. Not executed in a shell.',
  container: 'The container. Defaults to the only container of the pod.',
  follow: 'Streams the log while it is written. Defaults to false.',
  insecureSkipTLSVerifyBackend: 'If true, the serving certificate of the kubelet is not verified.',
  limitBytes: 'The maximum number of bytes of the response.',
  path: 'The path of the request, appended to the address of the target.',
  ports: 'The ports to forward. Required for WebSockets.',
  previous: 'Returns the log of the previous container. Defaults to false.',
  sinceSeconds: 'Returns the lines of the last seconds.',
  stderr: 'Redirects standard error. Defaults to true.',
  stdin: 'Redirects standard input. Defaults to false.',
  stdout: 'Redirects standard output. Defaults to true.',
  stream: 'The stream of the log: All, Stdout or Stderr.',
  tailLines: 'The number of lines from the end of the log.',
  timestamps: 'Adds a timestamp to each line. Defaults to false.',
  tty: 'Allocates a terminal. Defaults to false.',
};

/** Returns the query parameters of an options kind. A time has no form as a parameter. */
export function optionParameters(schema: Schema | undefined): readonly Parameter[] {
  return [...(schema?.properties ?? [])]
    .filter(([name, { format }]) => name !== 'kind' && name !== 'apiVersion' && format !== 'date-time')
    .map(([name, property]) => {
      const { type } = property.type === 'array' && property.items !== undefined ? property.items : property;
      return query(name, optionDescriptions[name] ?? '', type === 'boolean' || type === 'integer' ? type : 'string');
    });
}

export const nameParameter = (kind: string): Parameter => ({
  name: 'name',
  in: 'path',
  type: 'string',
  description: `name of the ${kind}`,
});
export const namespaceParameter: Parameter = {
  name: 'namespace',
  in: 'path',
  type: 'string',
  description: 'object name and auth scope, such as for teams and projects',
};
export const proxyPathParameter: Parameter = { name: 'path', in: 'path', type: 'string', description: 'path to the resource' };

/** Query parameters that OpenAPI v2 does not share: clients look for them in operations to find out what a server supports. */
const unsharedQuery: ReadonlySet<string> = new Set(['dryRun', 'fieldValidation']);
const genericBodies = '#/definitions/io.k8s.apimachinery';

/** Writes parameters into a document. OpenAPI v2 documents refer to parameters that many operations share. */
export class ParameterWriter {
  readonly #version: OpenApiVersion;
  readonly #shared = new Map<string, Json>();
  readonly #references = new Map<Parameter, Json>();

  constructor(version: OpenApiVersion) {
    this.#version = version;
  }

  /** The shared parameters that the written parameters refer to, by name. */
  get shared(): Json {
    return Object.fromEntries([...this.#shared].sort(([a], [b]) => (a < b ? -1 : 1)));
  }

  write(parameter: Parameter): Json {
    const { name, in: place } = parameter;
    if (this.#version === 3 || name === 'name' || (place === 'query' && unsharedQuery.has(name))) return this.#inline(parameter);
    let reference = this.#references.get(parameter);
    if (reference === undefined) this.#references.set(parameter, (reference = this.#share(name, this.#inline(parameter))));
    return reference;
  }

  /** Writes the body of an operation into a document of version 2. */
  writeBody({ schema, required }: { readonly schema: Json; readonly required: boolean }): Json {
    const json = { in: 'body', name: 'body', ...(required && { required: true }), schema };
    return String(schema['$ref']).startsWith(genericBodies) ? this.#share('body', json) : json;
  }

  #share(name: string, json: Json): Json {
    const hash = createHash('sha256').update(JSON.stringify(json)).digest('base64url').slice(0, 8);
    const key = `${name}-${hash}`;
    this.#shared.set(key, json);
    return { $ref: `#/parameters/${key}` };
  }

  #inline({ name, in: place, type, description }: Parameter): Json {
    const schema = { type, uniqueItems: true };
    return {
      ...(description !== undefined && description !== '' && { description }),
      name,
      in: place,
      ...(place === 'path' && { required: true }),
      ...(this.#version === 2 ? schema : { schema }),
    };
  }
}
