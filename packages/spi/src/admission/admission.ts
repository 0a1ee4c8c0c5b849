import type { KubeObject } from '@oarlock/api/object';
import { groupResource, type Resource } from '@oarlock/api/resource';
import type { Status } from '@oarlock/api/status';
import { slot } from '@oarlock/kernel/slot';
import type { SpanContext } from '@oarlock/kernel/tracing';
import type { Identity } from '../authn/authn.ts';

export type Operation = 'CREATE' | 'UPDATE' | 'DELETE' | 'CONNECT';

/** The step of a request in which it waits for webhooks, by the names of upstream's annotations. */
export type WebhookStep = 'mutating-webhook' | 'validating-webhook';

/**
 * One request in admission, after authorization and before storage (admission.Attributes upstream).
 *
 * All objects are deeply frozen: a mutating plugin returns a changed copy.
 */
export interface AdmissionRequest {
  readonly operation: Operation;
  readonly resource: Resource;
  /** The subresource; '' if the request is for the resource itself. */
  readonly subresource: string;
  /** The namespace; '' for cluster-scoped resources. */
  readonly namespace: string;
  /** The object's name; '' if the API server will generate the name from `generateName`. */
  readonly name: string;
  /** The object as it would be stored. Absent on DELETE, and on CONNECT without options. */
  readonly object: KubeObject | undefined;
  /** The stored object, on UPDATE and DELETE. */
  readonly old: KubeObject | undefined;
  readonly options: Readonly<Record<string, unknown>>;
  readonly identity: Identity;
  readonly dryRun: boolean;
  /** Adds a `Warning` header to the response. */
  warn(message: string): void;
  /** Adds an annotation to the audit event of the request; with `Request`, only from audit level Request on. */
  annotate(key: string, value: string, level?: 'Request'): void;
  /** Adds the time in milliseconds that the request waited for webhooks. It is no part of the server's own latency. */
  addLatency?(step: WebhookStep, ms: number): void;
  /**
   * The span of the request: the parent of spans for calls that the plugin makes. All calls of plugins for one request get the
   * same object.
   */
  readonly spanContext?: SpanContext;
  /** Returns the other served versions of the resource, or undefined if there is only one. */
  equivalents?(): EquivalentResources | undefined;
  /** Present while the mutating chain runs. */
  readonly mutation?: MutationPass;
}

/** The served versions of one resource, for rules that apply to all of them (`matchPolicy: Equivalent`). */
export interface EquivalentResources {
  /** All served resources, including that of the request. */
  readonly resources: readonly Resource[];
  /**
   * Converts the object to the version of `to`. An object of another kind than these resources, such as a Scale, is returned
   * unchanged.
   * @throws StatusError InternalError if a conversion webhook fails
   */
  convert(object: KubeObject, to: Resource): KubeObject | Promise<KubeObject>;
}

/**
 * The state of the mutating chain, for plugins that call webhooks with a reinvocation policy (KEP-2008).
 *
 * The chain runs at most twice: once, and once more if a plugin called `reinvoke`.
 */
export interface MutationPass {
  /** True in the second run of the chain. */
  readonly isReinvocation: boolean;
  /** Requests a second run of the chain, because earlier plugins have not seen the changes that this plugin made. */
  reinvoke(): void;
  /** State that plugins keep between the two runs. Each plugin uses a key object of its own. */
  readonly pluginState: Map<object, unknown>;
}

/**
 * The decision of a plugin. A denial is returned, not thrown. `reason` selects the HTTP status; the default is `Forbidden`,
 * as in Kubernetes.
 */
export type AdmissionDecision =
  | { readonly allowed: true }
  | {
      readonly allowed: false;
      readonly message: string;
      readonly reason?: 'Forbidden' | 'Invalid' | 'Conflict' | 'TooManyRequests' | 'BadRequest' | 'NotFound';
      readonly field?: string;
      /** The complete Status of the response, for plugins whose rules define it, such as webhooks. */
      readonly status?: Status;
    };
export const allow: AdmissionDecision = { allowed: true };
export const deny = (
  message: string,
  more: {
    readonly reason?: 'Forbidden' | 'Invalid' | 'Conflict' | 'TooManyRequests' | 'BadRequest' | 'NotFound';
    readonly field?: string;
    readonly status?: Status;
  } = {},
): AdmissionDecision => ({ allowed: false, message, ...more });

export interface AdmissionRule {
  /** Resources in the form `pods`, `deployments.apps`, `pods/binding`, or `*`. At least one must match. */
  readonly resources: readonly string[];
  readonly operations: readonly (Operation | '*')[];
}

/** Returns true if one of the rules matches the request. The API server evaluates this once for each kind of request. */
export function matchesRules(
  rules: readonly AdmissionRule[],
  { operation, resource, subresource }: Pick<AdmissionRequest, 'operation' | 'resource' | 'subresource'>,
): boolean {
  const what = subresource === '' ? groupResource(resource) : `${groupResource(resource)}/${subresource}`;
  return rules.some(
    ({ resources, operations }) =>
      (operations.includes('*') || operations.includes(operation)) && (resources.includes('*') || resources.includes(what)),
  );
}

/**
 * A plugin of the admission chain.
 *
 * Guaranteed: all `mutate` methods of the chain run before the first `validate`, both in the order of the composition. After a
 * denial no further plugin is called. `dryRun` requests are admitted like others, so a plugin must not write for them.
 *
 * Not guaranteed: that an admitted request is stored. Another plugin may deny it, or the write may conflict and be admitted
 * again with another `old`.
 *
 * A thrown error fails the request with status 500; a plugin that calls others decides itself whether to fail open or closed.
 *
 * ```ts
 * const denyLatest: AdmissionPlugin = {
 *   matches: [{ resources: ['pods'], operations: ['CREATE'] }],
 *   validate: ({ object }) =>
 *     (object as Pod).spec?.containers.some(({ image }) => image?.endsWith(':latest')) ? deny('tag latest is not allowed') : allow,
 * };
 * ```
 */
export interface AdmissionPlugin {
  /** The requests for which the plugin is called. Must not change, because the API server caches the result. */
  readonly matches: readonly AdmissionRule[];
  /**
   * Returns true if the plugin currently has no rule for such requests, so that the API server skips the plugin. Called for every request, so it must
   * be cheap.
   */
  isIdle?(operation: Operation, resource: Resource, subresource: string): boolean;
  /**
   * Returns the object to continue with, or a decision. A plugin that changes nothing must return the same object, because every later step compares
   * a copy again. Must be idempotent: applied to its own result, `mutate` changes nothing.
   */
  mutate?(request: AdmissionRequest): KubeObject | AdmissionDecision | Promise<KubeObject | AdmissionDecision>;
  /** Decides on the object after all mutations. */
  validate?(request: AdmissionRequest): AdmissionDecision | Promise<AdmissionDecision>;
}

export const isAdmissionDecision = (value: KubeObject | AdmissionDecision): value is AdmissionDecision =>
  'allowed' in value && typeof value.allowed === 'boolean';

export const Admission = slot.chain<AdmissionPlugin>('admission/v1');
