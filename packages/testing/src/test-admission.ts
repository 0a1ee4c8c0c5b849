import { deepFreeze, type KubeObject } from '@oarlock/api/object';
import { apiVersionOf, resource as resourceOf, type Resource } from '@oarlock/api/resource';
import * as resources from '@oarlock/api/resources';
import { StatusError, type Status } from '@oarlock/api/status';
import { AdmissionChain } from '@oarlock/apiserver/admission/admission-chain';
import { RequestContext } from '@oarlock/apiserver/endpoints/request/request-context';
import { diffJson, toJsonPatch, formatPath, type Difference, type PatchOperation } from '@oarlock/primitives/json-diff';
import type { Plugin } from '@oarlock/kernel/plugin';
import { noTracer } from '@oarlock/kernel/tracing';
import { Admission, matchesRules, type Operation } from '@oarlock/spi/admission';
import type { Identity } from '@oarlock/spi/authn';
import type { ApiVerb } from '@oarlock/spi/loopback';
import { openPlugin, type OpenPluginOptions } from './internal/open-plugin.ts';

/** The result of an admission request. `String(result)` formats the result in a few lines. */
export interface AdmissionResult<T extends KubeObject = KubeObject> {
  readonly allowed: boolean;
  /** The object as the API server would store it; the submitted object if the request is rejected. */
  readonly object: T;
  /** The changes of the object, one line each, for example `+ metadata.labels.owner "ada"`. */
  readonly changes: readonly string[];
  /** The changes of the object as a JSON patch. */
  readonly patch: readonly PatchOperation[];
  readonly warnings: readonly string[];
  readonly annotations: Readonly<Record<string, string>>;
  /** The message of the rejection, as the client receives it: `pods "web" is forbidden: ...`; empty if admitted. */
  readonly message: string;
  /** The Status of the response to a rejected request. */
  readonly status?: Status;
  /** Whether the plugin's rules match the request. */
  readonly matched: boolean;
  toString(): string;
}

export interface RequestOptions {
  /** The user of the request, as a name or an identity. Default: `ada`, authenticated. */
  readonly user?: string | Identity;
  readonly subresource?: string;
  readonly dryRun?: boolean;
  /** The options of the request, such as `fieldManager` and `propagationPolicy`. */
  readonly options?: Readonly<Record<string, unknown>>;
  /** The resource of the object; required for a kind that is not built in. Default: derived from the object's kind. */
  readonly resource?: Resource;
}

export interface AdmissionTest extends AsyncDisposable {
  create<T extends KubeObject>(object: T, options?: RequestOptions): Promise<AdmissionResult<T>>;
  update<T extends KubeObject>(old: T, object: T, options?: RequestOptions): Promise<AdmissionResult<T>>;
  delete<T extends KubeObject>(old: T, options?: RequestOptions): Promise<AdmissionResult<T>>;
  /** The memory API that the plugin's client and informers read: `test.api.seed(namespaces, ...)`. */
  readonly api: Awaited<ReturnType<typeof openPlugin>>['api'];
  /** A clock that only `advance` moves. */
  readonly clock: Awaited<ReturnType<typeof openPlugin>>['clock'];
}

export interface TestOptions extends Omit<OpenPluginOptions, 'config' | 'seed'> {
  /** Objects that exist before the test. */
  readonly objects?: readonly KubeObject[];
}

/**
 * Tests one admission plugin in the server's admission chain: rules are matched, objects are frozen, and rejections have the messages that
 * clients receive.
 *
 *     await using test = await testAdmission(plugin, { labels: ['owner'] });
 *     expect((await test.create(pod())).message).toBe('pods "web" is forbidden: ...');
 *
 * An exception of the plugin is thrown to the test. @throws WiringError for an invalid config
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
    { sent, old, more }: { readonly sent: T | undefined; readonly old: T | undefined; readonly more: RequestOptions },
  ): Promise<AdmissionResult<T>> => {
    const about = sent ?? old;
    if (about === undefined) throw new Error('the request has no object');
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
    const object = sent && submittedObject(sent, resource, namespace);
    const before = old && submittedObject(old, resource, namespace);
    const admitted = { operation, resource, object, old: before, options: requestOptions };
    const matched = matchesRules(instance.matches, { operation, resource, subresource });
    const { now, rejection } = await runChain(chain, call, admitted);
    const found = object === undefined || now === undefined ? [] : diffJson(object, now);
    return result({ object: (now ?? before) as T, found, warnings: call.warnings, annotations, matched, rejection });
  };

  return {
    create: (object, more = {}) => admit('CREATE', { sent: object, old: undefined, more }),
    update: (old, object, more = {}) => admit('UPDATE', { sent: object, old, more }),
    delete: (old, more = {}) => admit('DELETE', { sent: undefined, old, more }),
    api,
    clock,
    [Symbol.asyncDispose]: dispose,
  };
}

/** Returns a frozen copy of the object with the namespace of the request. */
const submittedObject = <T extends KubeObject>(object: T, { namespaced }: Resource, namespace: string): T =>
  deepFreeze(structuredClone({ ...object, metadata: { ...object.metadata, ...(namespaced && { namespace }) } }));

/** Runs the mutating and the validating phase. Returns the object after both phases, and the rejection if there is one. */
async function runChain(
  chain: AdmissionChain,
  call: RequestContext,
  attributes: Parameters<AdmissionChain['validate']>[1],
): Promise<{ readonly now: KubeObject | undefined; readonly rejection?: StatusError }> {
  let now = attributes.object;
  try {
    if (now !== undefined) now = await chain.mutate(call, { ...attributes, object: now });
    await chain.validate(call, { ...attributes, object: now });
    return { now };
  } catch (error) {
    if (!(error instanceof StatusError)) throw error;
    return { now, rejection: error };
  }
}

const verbs: Readonly<Record<Operation, ApiVerb>> = { CREATE: 'create', UPDATE: 'update', DELETE: 'delete', CONNECT: 'create' };

function result<T extends KubeObject>({
  object,
  found,
  warnings,
  annotations,
  matched,
  rejection,
}: {
  readonly object: T;
  readonly found: readonly Difference[];
  readonly warnings: readonly string[];
  readonly annotations: Readonly<Record<string, string>>;
  readonly matched: boolean;
  readonly rejection?: StatusError | undefined;
}): AdmissionResult<T> {
  const changes = found.map(changeText);
  const message = rejection?.message ?? '';
  return {
    allowed: rejection === undefined,
    object,
    changes,
    patch: toJsonPatch(found),
    warnings,
    annotations,
    message,
    ...(rejection && { status: rejection.status }),
    matched,
    toString: () =>
      [
        rejection === undefined
          ? `admitted${matched ? '' : ': the plugin does not match the request'}`
          : `rejected with ${rejection.status.code}: ${message}`,
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

/** Returns the resource of an object by its apiVersion and kind. */
export function resourceFor({ apiVersion = '', kind = '', metadata }: KubeObject): Resource {
  if (apiVersion === '' || kind === '') throw new Error('an object for a request needs apiVersion and kind');
  const found = known.get(`${apiVersion} ${kind}`);
  if (found !== undefined) return found;
  const [version = '', group = ''] = apiVersion.split('/').reverse();
  return resourceOf(group, version, `${kind.toLowerCase()}s`, kind, metadata?.namespace !== undefined);
}
