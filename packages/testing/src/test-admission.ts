import { deepFreeze, type KubeObject } from '@oarlock/api/object';
import { apiVersionOf, resource as resourceOf, type Resource } from '@oarlock/api/resource';
import * as resources from '@oarlock/api/resources';
import { StatusError, type Status } from '@oarlock/api/status';
import { AdmissionChain } from '@oarlock/apiserver/admission/admission-chain';
import { RequestContext } from '@oarlock/apiserver/request/request-context';
import { diffJson, toJsonPatch, formatPath, type Difference, type PatchOperation } from '@oarlock/primitives/json-diff';
import type { Plugin } from '@oarlock/kernel/plugin';
import { noTracer } from '@oarlock/kernel/tracing';
import { Admission, matchesRules, type Operation } from '@oarlock/spi/admission';
import type { Identity } from '@oarlock/spi/authn';
import type { ApiVerb } from '@oarlock/spi/loopback';
import { openPlugin, type OpenPluginOptions } from './internal/open-plugin.ts';

/** What became of a request. `String(admitted)` says it in a few lines. */
export interface AdmissionResult<T extends KubeObject = KubeObject> {
  readonly allowed: boolean;
  /** The object as it would be stored; that of the request where it was refused. */
  readonly object: T;
  /** What was changed, a line each: `+ metadata.labels.owner "ada"`. */
  readonly changes: readonly string[];
  /** The same as a JSON patch. */
  readonly patch: readonly PatchOperation[];
  readonly warnings: readonly string[];
  readonly annotations: Readonly<Record<string, string>>;
  /** What the client is told when it is refused: `pods "web" is forbidden: ...`; '' when it is not. */
  readonly message: string;
  /** The answer to a refused request. */
  readonly status?: Status;
  /** Whether the plugin's rules reach such a request at all. */
  readonly matched: boolean;
  toString(): string;
}

export interface RequestOptions {
  /** Who asks, by name or whole. Default: ada, who is authenticated. */
  readonly user?: string | Identity;
  readonly subresource?: string;
  readonly dryRun?: boolean;
  /** As `fieldManager`, `propagationPolicy`: what the options of the request are. */
  readonly options?: Readonly<Record<string, unknown>>;
  /** Of an object whose kind Oarlock does not know; default: the plural of its kind. */
  readonly resource?: Resource;
}

export interface AdmissionTest extends AsyncDisposable {
  create<T extends KubeObject>(object: T, options?: RequestOptions): Promise<AdmissionResult<T>>;
  update<T extends KubeObject>(old: T, object: T, options?: RequestOptions): Promise<AdmissionResult<T>>;
  delete<T extends KubeObject>(old: T, options?: RequestOptions): Promise<AdmissionResult<T>>;
  /** The API in memory that the plugin's client and informers read: `test.api.seed(namespaces, ...)`. */
  readonly api: Awaited<ReturnType<typeof openPlugin>>['api'];
  /** Stands still until `advance`. */
  readonly clock: Awaited<ReturnType<typeof openPlugin>>['clock'];
}

export interface TestOptions extends Omit<OpenPluginOptions, 'config' | 'seed'> {
  /** What is there before. */
  readonly objects?: readonly KubeObject[];
}

/**
 * An admission plugin by itself, in the server's own chain: matched, given frozen objects, its refusals worded as clients read them.
 *
 *     await using test = await testAdmission(plugin, { labels: ['owner'] });
 *     expect((await test.create(pod())).message).toBe('pods "web" is forbidden: ...');
 *
 * What the plugin throws is thrown. @throws WiringError for a config that it refuses
 */
export async function testAdmission(
  plugin: Plugin,
  config: unknown = {},
  { objects = [], ...options }: TestOptions = {},
): Promise<AdmissionTest> {
  const opened = await openPlugin(Admission, plugin, {
    ...options,
    config,
    seed: (api) => {
      for (const object of objects) api.seed(resourceFor(object), object);
    },
  });
  const { instance, api, clock, dispose } = opened;
  const chain = new AdmissionChain([instance], { names: [plugin.id] });

  const admit = async <T extends KubeObject>(
    operation: Operation,
    sent: T | undefined,
    old: T | undefined,
    more: RequestOptions,
  ): Promise<AdmissionResult<T>> => {
    const about = sent ?? old;
    if (about === undefined) throw new Error('there is no object');
    const { user: as = 'ada', subresource = '', dryRun = false, options: requestOptions = {}, resource = resourceFor(about) } = more;
    const { namespace = resource.namespaced ? 'default' : '', name = '' } = about.metadata ?? {};
    const annotations: Record<string, string> = {};
    const call = new RequestContext(
      {
        verb: verbs[operation],
        resource,
        subresource,
        namespace: resource.namespaced ? namespace : '',
        name: operation === 'CREATE' && subresource === '' ? '' : name,
        query: dryRun ? { dryRun: 'All' } : {},
        identity: typeof as === 'string' ? { name: as, groups: ['system:authenticated'] } : as,
        annotate: (key, value) => {
          annotations[key] = value;
        },
      },
      clock.now(),
      noTracer,
    );
    const complete = (object: T): T =>
      deepFreeze(structuredClone({ ...object, metadata: { ...object.metadata, ...(resource.namespaced && { namespace }) } }));
    const object = sent && complete(sent);
    const before = old && complete(old);
    const admitted = { operation, resource, object, old: before, options: requestOptions };
    const matched = matchesRules(instance.matches, { operation, resource, subresource });
    let now: KubeObject | undefined = object;
    let refused: StatusError | undefined;
    try {
      if (now !== undefined) now = await chain.mutate(call, { ...admitted, object: now });
      await chain.validate(call, { ...admitted, object: now });
    } catch (error) {
      if (!(error instanceof StatusError)) throw error;
      refused = error;
    }
    const found = object === undefined || now === undefined ? [] : diffJson(object, now);
    return result({ object: (now ?? before) as T, found, warnings: call.warnings, annotations, matched, refused });
  };

  return {
    create: (object, more = {}) => admit('CREATE', object, undefined, more),
    update: (old, object, more = {}) => admit('UPDATE', object, old, more),
    delete: (old, more = {}) => admit('DELETE', undefined, old, more),
    api,
    clock,
    [Symbol.asyncDispose]: dispose,
  };
}

const verbs: Readonly<Record<Operation, ApiVerb>> = { CREATE: 'create', UPDATE: 'update', DELETE: 'delete', CONNECT: 'create' };

function result<T extends KubeObject>({
  object,
  found,
  warnings,
  annotations,
  matched,
  refused,
}: {
  readonly object: T;
  readonly found: readonly Difference[];
  readonly warnings: readonly string[];
  readonly annotations: Readonly<Record<string, string>>;
  readonly matched: boolean;
  readonly refused: StatusError | undefined;
}): AdmissionResult<T> {
  const changes = found.map(changeText);
  const message = refused?.message ?? '';
  return {
    allowed: refused === undefined,
    object,
    changes,
    patch: toJsonPatch(found),
    warnings,
    annotations,
    message,
    ...(refused && { status: refused.status }),
    matched,
    toString: () =>
      [
        refused === undefined ? `admitted${matched ? '' : ': the plugin is not asked'}` : `refused with ${refused.status.code}: ${message}`,
        ...changes.map((line) => `  ${line}`),
        ...warnings.map((warning) => `  warns: ${warning}`),
      ].join('\n'),
  };
}

function changeText({ path, before, after }: Difference): string {
  const where = formatPath(path);
  if (before === undefined) return `+ ${where} ${JSON.stringify(after)}`;
  if (after === undefined) return `- ${where} ${JSON.stringify(before)}`;
  return `~ ${where} ${JSON.stringify(before)} -> ${JSON.stringify(after)}`;
}

const known = new Map<string, Resource>();
for (const each of Object.values(resources) as readonly Resource[]) known.set(`${apiVersionOf(each)} ${each.kind}`, each);

/** The resource of an object, by its apiVersion and kind. */
export function resourceFor({ apiVersion = '', kind = '', metadata }: KubeObject): Resource {
  if (apiVersion === '' || kind === '') throw new Error('an object for a request has apiVersion and kind');
  const found = known.get(`${apiVersion} ${kind}`);
  if (found !== undefined) return found;
  const [version = '', group = ''] = apiVersion.split('/').reverse();
  return resourceOf(group, version, `${kind.toLowerCase()}s`, kind, metadata?.namespace !== undefined);
}
